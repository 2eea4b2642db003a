//! Remembers the lane and start time of each lease from its claim to its report. It must not know
//! what they are used for.

use std::collections::HashMap;
use windlass_core::Timestamp;
use windlass_core::engine::{ClaimedJob, Lease};
use windlass_core::model::Name;

/// Maximum number of leases per generation. Two generations are kept, about 20 MB at most. Leases
/// of crashed workers are never reported on and are dropped with their generation.
const GENERATION_MAX: usize = 50_000;

/// The lane and start time of an attempt.
#[derive(Clone, Debug)]
pub(super) struct Started {
    pub(super) queue: Name,
    pub(super) kind: Name,
    pub(super) at: Timestamp,
}

/// Recently issued leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    young: HashMap<Lease, Started>,
    old: HashMap<Lease, Started>,
}

impl Leases {
    pub(super) fn begun(&mut self, job: &ClaimedJob) {
        let (queue, kind) = (job.header.queue.clone(), job.header.kind.clone());
        self.put(job.lease.clone(), Started { queue, kind, at: job.started_at });
    }

    /// Removes a lease that is reported on; `None` if it was claimed through another server.
    pub(super) fn take(&mut self, lease: &Lease) -> Option<(Lease, Started)> {
        self.young.remove_entry(lease).or_else(|| self.old.remove_entry(lease))
    }

    /// Adds a lease, or restores one after a settle without a reply.
    pub(super) fn put(&mut self, lease: Lease, begun: Started) {
        if self.young.len() == GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(lease, begun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_leases_without_a_report_are_forgotten_and_recent_ones_kept() {
        let lease = |n: usize| Lease::new(n.to_string());
        let begun = Started { queue: "q".into(), kind: "k".into(), at: Timestamp::EPOCH };
        let mut leases = Leases::default();
        for n in 0..3 * GENERATION_MAX {
            leases.put(lease(n), begun.clone());
            assert!(leases.young.len() + leases.old.len() <= 2 * GENERATION_MAX);
        }
        assert!(leases.take(&lease(0)).is_none());
        assert!(leases.take(&lease(2 * GENERATION_MAX)).is_some());
        assert!(leases.take(&lease(2 * GENERATION_MAX)).is_none(), "taken once");
    }
}

//! Which lane a lease belongs to and when its attempt began, remembered from its claim to its report. It
//! must not know what is counted by it.

use std::collections::HashMap;
use windlass_core::Timestamp;
use windlass_core::engine::{ClaimedJob, Lease};
use windlass_core::model::Name;

/// Leases of one generation; two are kept, some 20 MB at most. Leases that are never reported on, because
/// their worker died, fall out with theirs.
const GENERATION_MAX: usize = 50_000;

/// What was claimed.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) queue: Name,
    pub(super) kind: Name,
    pub(super) at: Timestamp,
}

/// The leases that were handed out of late.
#[derive(Debug, Default)]
pub(super) struct Leases {
    young: HashMap<Lease, Begun>,
    old: HashMap<Lease, Begun>,
}

impl Leases {
    pub(super) fn begun(&mut self, job: &ClaimedJob) {
        let (queue, kind) = (job.header.queue.clone(), job.header.kind.clone());
        self.put(job.lease.clone(), Begun { queue, kind, at: job.started_at });
    }

    /// Takes a lease that is reported on. One that was claimed through another server is not known.
    pub(super) fn take(&mut self, lease: &Lease) -> Option<(Lease, Begun)> {
        self.young.remove_entry(lease).or_else(|| self.old.remove_entry(lease))
    }

    /// Puts back what was taken for a report that was not answered.
    pub(super) fn put(&mut self, lease: Lease, begun: Begun) {
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
    fn leases_nobody_reports_on_are_forgotten_and_the_latest_are_not() {
        let lease = |n: usize| Lease::new(n.to_string());
        let begun = Begun { queue: "q".into(), kind: "k".into(), at: Timestamp::EPOCH };
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

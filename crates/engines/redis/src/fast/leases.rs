//! Where the jobs are that this process claimed: a completion has to name their indexes before it reads their records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use windlass_core::JobId;
use windlass_core::engine::SessionId;
use windlass_core::sync::lock;
use windlass_executor::LaneKey;

/// Maximum number of leases that are remembered. Beyond it they are forgotten, and the slow path completes their jobs.
const LEASES_MAX: usize = 200_000;

/// The indexes that contain a running job.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) lane: LaneKey,
    pub(crate) session: SessionId,
}

/// The places of claimed jobs by id, each with the token of its lease: under another lease, the job may be elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<JobId, (u128, Arc<Place>)>>);

impl Leases {
    /// Remembers where jobs are.
    pub(super) fn remember(&self, leases: impl IntoIterator<Item = (JobId, u128, Arc<Place>)>) {
        let mut known = lock(&self.0);
        for (id, token, place) in leases {
            if known.len() >= LEASES_MAX {
                known.clear();
            }
            known.insert(id, (token, place));
        }
    }

    /// The places of these jobs under these leases, which end now.
    pub(super) fn take(
        &self,
        leases: impl IntoIterator<Item = (JobId, u128)>,
    ) -> Vec<Option<Arc<Place>>> {
        let mut known = lock(&self.0);
        let mut take = |(id, token)| {
            let (_, place) = known.remove(&id).filter(|(of, _)| *of == token)?;
            Some(place)
        };
        leases.into_iter().map(&mut take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_under_its_lease_and_once() {
        let leases = Leases::default();
        let lane = ("q".into(), "k".into());
        let place = Arc::new(Place { lane, session: SessionId::new("s") });
        let [one, two] = [1, 2].map(|byte| JobId::from_bytes([byte; 16]));
        leases.remember([(one, 7, Arc::clone(&place)), (two, 8, place)]);
        let found = |id, token| leases.take([(id, token)])[0].is_some();
        assert!(found(one, 7) && !found(one, 7), "it is taken");
        assert!(!found(two, 7), "another lease");
    }
}

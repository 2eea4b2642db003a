//! Where retention goes on, row by row.

use crate::retain::Cuts;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How often everything is looked at anew, if that takes no more than one part in so many of the time.
const ANEW: Duration = Duration::from_secs(5);
const ANEW_SHARE: u32 = 20;

/// Until where jobs were removed row by row, by the leaf's first id, lane and state: what they left behind is not
/// passed by again and again, for beside an old snapshot it stays. What ended before and was seen late (it was
/// held, or not committed yet) is found when everything is looked at anew.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    upto: HashMap<(Uuid, i32, i16), i64>,
    anew_at: Option<Instant>,
}

impl Passed {
    /// Whether this look is one at everything.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let anew = self.anew_at.is_none_or(|at| at <= now);
        if anew {
            self.upto.clear();
        }
        anew
    }

    /// Everything was looked at since then: not again for a while.
    pub(crate) fn rest(&mut self, begun: Instant) {
        self.anew_at = Some(Instant::now() + ANEW.max(begun.elapsed() * ANEW_SHARE));
    }

    /// Where to begin, for each of these.
    pub(crate) fn since(&self, leaf: Uuid, cuts: &Cuts) -> Vec<i64> {
        let names = cuts.lanes.iter().zip(&cuts.states);
        names
            .map(|(lane, state)| self.upto.get(&(leaf, *lane, *state)).copied().unwrap_or(0))
            .collect()
    }

    /// These, by lane, state and when they ended, have been seen to.
    pub(crate) fn note(&mut self, leaf: Uuid, found: impl Iterator<Item = (i32, i16, i64)>) {
        for (lane, state, at) in found {
            let upto = self.upto.entry((leaf, lane, state)).or_default();
            *upto = at.max(*upto);
        }
    }
}

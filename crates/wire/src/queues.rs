//! Overviews of queues and kinds: settings, and statistics summed over their lanes.

#[cfg(feature = "openapi")]
use crate::openapi;
use crate::query::{Lane, Stats};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_core::Timestamp;
use windlass_core::engine::{Cursor, LaneStats, LaneSums};
use windlass_core::model::{Name, QueueSettings};

/// A page of the queues with jobs or settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queues {
    /// The queues, sorted by name.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::QueueOverview>))]
    pub queues: Vec<Overview<QueueSettings>>,
    /// Cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// A queue or a kind: its settings and statistics.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview<T> {
    /// Its name.
    pub name: Name,
    /// Its settings, including defaults.
    pub settings: T,
    /// Number of jobs by state.
    pub counts: Counts,
    /// Since when the job at the head of a lane is ready; the earliest over all lanes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_ready_at: Option<Timestamp>,
    /// Time since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_age_ms: Option<u64>,
    /// When the first of its scheduled jobs is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due_at: Option<Timestamp>,
    /// Its lanes; only in the reply for a single queue or kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<Lane>,
}

/// Number of jobs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// Jobs that have not started: scheduled, blocked, available and paused.
    pub depth: u64,
    /// Jobs that wait for their due time.
    pub scheduled: u64,
    /// Jobs that wait for another event.
    pub blocked: u64,
    /// Ready jobs.
    pub available: u64,
    /// Running jobs.
    pub running: u64,
    /// Jobs that are paused individually. A paused queue or kind is a setting; its jobs keep their states.
    pub paused: u64,
    /// Completed jobs that are still retained.
    pub completed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Cancelled jobs that are still retained.
    pub cancelled: u64,
    /// Expired jobs that are still retained.
    pub expired: u64,
}

impl From<LaneSums> for Counts {
    fn from(sums: LaneSums) -> Self {
        Self {
            depth: sums.depth,
            scheduled: sums.scheduled,
            blocked: sums.blocked,
            available: sums.available,
            running: sums.running,
            paused: sums.paused,
            completed: sums.completed,
            dead: sums.dead,
            cancelled: sums.cancelled,
            expired: sums.expired,
        }
    }
}

impl<T: Default> Overview<T> {
    /// The overview of `name` from its own lanes. An unused name has zeros and default settings.
    pub fn of(name: Name, settings: Vec<(Name, T)>, lanes: Vec<LaneStats>, now: Timestamp) -> Self {
        let own = settings.into_iter().find(|(set, _)| *set == name);
        let own = own.map(|(_, own)| own).unwrap_or_default();
        let sums = LaneSums::of(&lanes);
        Self { lanes: Stats::from(lanes).lanes, ..Self::new(name, own, sums, now) }
    }

    /// The overviews of all names with settings or lanes, sorted; `of` returns the name that a lane
    /// belongs to.
    pub fn all(
        settings: Vec<(Name, T)>,
        lanes: &[LaneStats],
        of: impl Fn(&LaneStats) -> &Name,
        now: Timestamp,
    ) -> Vec<Self> {
        let with_settings = |(name, own)| (name, (own, LaneSums::default()));
        let mut all: BTreeMap<Name, (T, LaneSums)> =
            settings.into_iter().map(with_settings).collect();
        for lane in lanes {
            all.entry(of(lane).clone()).or_default().1.add(lane);
        }
        all.into_iter().map(|(name, (own, sums))| Self::new(name, own, sums, now)).collect()
    }

    fn new(name: Name, settings: T, sums: LaneSums, now: Timestamp) -> Self {
        let (head_ready_at, next_due_at) = (sums.oldest, sums.next_due);
        let head_age_ms = head_ready_at.map(|at| now.since(at));
        let counts = sums.into();
        Self { name, settings, counts, head_ready_at, head_age_ms, next_due_at, lanes: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_add_up_by_name_and_what_is_only_set_is_there_too() {
        let now = Timestamp::from_millis(1_000);
        let lane = |queue: &str, available, ready_at: Option<i64>| {
            let mut lane = LaneStats::empty(queue.into(), "k".into());
            (lane.available, lane.scheduled, lane.dead) = (available, 1, 5);
            lane.head_ready_at = ready_at.map(Timestamp::from_millis);
            lane
        };
        let lanes = [lane("b", 2, Some(700)), lane("b", 3, Some(400)), lane("a", 0, None)];
        let mut paused = QueueSettings::default();
        paused.paused = true;
        let all = Overview::all(vec![("c".into(), paused)], &lanes, |lane| &lane.queue, now);
        let names: Vec<&str> = all.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let counts = Counts { depth: 7, scheduled: 2, available: 5, dead: 10, ..Counts::default() };
        assert_eq!((all[1].counts, all[1].head_age_ms), (counts, Some(600)));
        assert_eq!((all[0].head_age_ms, all[2].counts), (None, Counts::default()));
        assert!(all[2].settings.paused && !all[1].settings.paused);
    }
}

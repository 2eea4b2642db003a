//! Checks the lines of groups against the jobs, and derives their counts again for a repair.

use super::check::Finds;
use crate::conn::Lent;
use crate::conn::error::Try;
use crate::rows::entries::{Found, job_id};
use crate::slow::save::{InGroup, Place};
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;
use windlass_core::model::State;

const LINES: &str = "SELECT id, grp, lane, priority, run_at, seq, cost, name FROM {s}.group_line";
const LANES: &str = "SELECT grp, lane, waiting, ahead, ahead_cost FROM {s}.group_lane";
/// Lines are examined at once.
const ADD_LANES: &str =
    "INSERT INTO {s}.group_lane (grp, lane, queue, waiting, ahead, ahead_cost, opens_at, by_time)
    SELECT w.grp, w.lane, l.queue, w.waiting, w.ahead, w.ahead_cost, CASE WHEN w.waiting > 0 THEN 0 END, true
    FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::bigint[], $5::bigint[])
        w (grp, lane, waiting, ahead, ahead_cost) JOIN {s}.lane l ON l.id = w.lane";

/// Number of jobs in line, and number and total cost of the ready jobs ahead of them.
type Counted = [i64; 3];

/// The rows of groups.
#[derive(Default)]
pub(super) struct Groups {
    lines: HashMap<Uuid, (i32, InGroup)>,
    lanes: BTreeMap<(String, i32), Counted>,
    /// The counts of the jobs that were read.
    jobs: BTreeMap<(String, i32), Counted>,
}

impl Groups {
    pub(super) async fn read(conn: &Lent) -> Try<Self> {
        let lines = conn.query(LINES, &[]).await?;
        let lines = lines.iter().map(|row| {
            let place = InGroup {
                group: row.get(1),
                priority: row.get(3),
                run_at: row.get(4),
                seq: row.get(5),
                cost: row.get(6),
                limit: row.get(7),
            };
            (row.get(0), (row.get(2), place))
        });
        let lines = lines.collect();
        let lanes = conn.query(LANES, &[]).await?;
        let lanes = lanes
            .iter()
            .map(|row| ((row.get(0), row.get(1)), [row.get(2), row.get(3), row.get(4)]));
        Ok(Self { lines, lanes: lanes.collect(), jobs: BTreeMap::new() })
    }

    /// Counts a job.
    pub(super) fn count(&mut self, job: &Found) {
        let (entry, lane) = (&job.entry, job.row.lane);
        if entry.job.limits.is_empty() {
            return;
        }
        let key = (entry.job.header.limit_group().to_owned(), lane);
        let state = entry.job.state;
        if state == State::Blocked {
            self.jobs.entry(key).or_default()[0] += 1;
        } else if state == State::Available {
            let counted = self.jobs.entry(key).or_default();
            counted[1] += 1;
            counted[2] += i64::from(entry.job.header.cost);
        }
    }

    /// Adds the findings of one job.
    pub(super) fn judge(&mut self, job: &Found, place: &Place, found: &mut Finds) {
        self.count(job);
        let id = job.entry.id();
        let is = self.lines.remove(&id.as_uuid());
        let ought = place.in_group.clone().map(|place| (job.row.lane, place));
        if is != ought {
            found.push(format!("job {id} is in line at {is:?}; it ought to be at {ought:?}"));
        }
    }

    /// Adds rows without a job, and wrong counts.
    pub(super) fn judge_rest(&self, found: &mut Finds) {
        for (id, (_, place)) in &self.lines {
            let id = job_id(*id);
            found.push(format!(
                "job {id} does not exist, but is in line in group {:?}",
                place.group
            ));
        }
        if self.lanes != self.jobs {
            let (is, ought) = (&self.lanes, &self.jobs);
            found.push(format!("groups are counted as {is:?}; they ought to be {ought:?}"));
        }
    }

    /// Stores the counts.
    pub(super) async fn save(&self, conn: &Lent) -> Try<()> {
        let column = |at: usize| self.jobs.values().map(|counted| counted[at]).collect::<Vec<_>>();
        let (groups, lanes): (Vec<&str>, Vec<i32>) =
            self.jobs.keys().map(|(group, lane)| (group.as_str(), *lane)).unzip();
        let (waiting, ahead, cost) = (column(0), column(1), column(2));
        conn.execute(ADD_LANES, &[&groups, &lanes, &waiting, &ahead, &cost]).await.map(drop)
    }
}

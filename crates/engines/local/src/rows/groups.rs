//! Jobs of lanes with limits by group: those in line and those that are ready in tables, their counts in memory.

use super::load::failed;
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, HashMap, HashSet};
use windlass_core::model::{Name, State};
use windlass_core::policy::Ahead;
use windlass_core::{Result, Timestamp};
use windlass_executor::{Entry, LaneKey, LimitCounts, LinePlace, Openings};

/// The row of a job in `group_line` or `group_ready`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupRow {
    /// Whether the job has left the line and is ready.
    ready: bool,
    place: LinePlace,
    group: String,
    cost: u32,
    /// The limit that the job waits for, or the first of its limits.
    limit: Name,
}

impl GroupRow {
    /// The row of a job that is blocked or ready because of limits by group.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        let limit = entry.job.limits.first()?.clone();
        let ready = entry.job.state == State::Available;
        if !ready && entry.job.state != State::Blocked {
            return None;
        }
        let header = &entry.job.header;
        let (group, cost) = (header.limit_group().to_owned(), header.cost);
        Some(Self { ready, place: entry.line_place(), group, cost, limit })
    }

    /// Writes the row.
    pub(super) fn insert(&self, conn: &Connection, lane: i64, id: &[u8; 16]) -> Result<()> {
        let Self { ready, place, group, cost, limit } = self;
        let LinePlace { priority, run_at, seq } = place;
        let (run_at, seq) = (run_at.as_millis(), seq.cast_signed());
        let run = || match ready {
            true => conn
                .prepare_cached(
                    "INSERT INTO group_ready (lane, priority, run_at, seq, id, grp, cost)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute(params![lane, priority, run_at, seq, id, group, cost]),
            false => conn
                .prepare_cached(
                    "INSERT INTO group_line (lane, grp, priority, run_at, seq, id, cost, name)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )?
                .execute(params![lane, group, priority, run_at, seq, id, cost, &**limit]),
        };
        run().map(|_| ()).map_err(|error| failed(&error))
    }

    /// Deletes the row.
    pub(super) fn delete(&self, conn: &Connection, lane: i64) -> Result<()> {
        let LinePlace { priority, run_at, seq } = self.place;
        let (run_at, seq) = (run_at.as_millis(), seq.cast_signed());
        let run = || match self.ready {
            true => conn
                .prepare_cached(
                    "DELETE FROM group_ready
                    WHERE lane = ?1 AND priority = ?2 AND run_at = ?3 AND seq = ?4",
                )?
                .execute(params![lane, priority, run_at, seq]),
            false => conn
                .prepare_cached(
                    "DELETE FROM group_line
                    WHERE lane = ?1 AND grp = ?2 AND priority = ?3 AND run_at = ?4 AND seq = ?5",
                )?
                .execute(params![lane, self.group, priority, run_at, seq]),
        };
        run().map(|_| ()).map_err(|error| failed(&error))
    }
}

/// The jobs of one group in one lane.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    waiting: u64,
    ahead: Ahead,
}

/// Counts of groups and of running jobs by limit, and the times at which lines open. A store that is opened examines
/// every line anew, so the times are not stored.
#[derive(Debug, Default)]
pub(super) struct Groups {
    counts: BTreeMap<(String, LaneKey), Counts>,
    /// Jobs in line by lane, over all groups.
    in_lines: BTreeMap<LaneKey, u64>,
    /// By limit, in one group (`Some`) and in all (`None`).
    running: HashMap<(Name, Option<String>), u64>,
    /// Limits that may have rows in `meter`. Others have none, so a limit without a rate costs no lookup.
    metered: HashSet<Name>,
    pub(super) openings: Openings,
}

impl Groups {
    /// Counts the jobs in the tables; `lane` is the name of a lane.
    pub(super) fn read(conn: &Connection, lane: &dyn Fn(i64) -> Option<LaneKey>) -> Result<Self> {
        let sql = "SELECT lane, grp, 0, count(*), sum(cost) FROM group_line GROUP BY 1, 2
            UNION ALL SELECT lane, grp, 1, count(*), sum(cost) FROM group_ready GROUP BY 1, 2";
        type Row = (i64, String, bool, i64, i64);
        let read = || -> rusqlite::Result<Vec<Row>> {
            let mut statement = conn.prepare_cached(sql)?;
            let row = |row: &rusqlite::Row<'_>| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            };
            statement.query_map([], row)?.collect()
        };
        let metered = || -> rusqlite::Result<HashSet<Name>> {
            let mut statement = conn.prepare_cached("SELECT DISTINCT name FROM meter")?;
            statement.query_map([], |row| Ok(row.get::<_, String>(0)?.into()))?.collect()
        };
        let metered = metered().map_err(|error| failed(&error))?;
        let mut groups = Self { metered, ..Self::default() };
        for (number, group, ready, jobs, cost) in read().map_err(|error| failed(&error))? {
            let Some(lane) = lane(number) else { continue };
            let counts = groups.counts.entry((group.clone(), lane.clone())).or_default();
            if ready {
                counts.ahead = Ahead { jobs: jobs as u32, cost: cost.cast_unsigned() };
            } else {
                counts.waiting = jobs.cast_unsigned();
                *groups.in_lines.entry(lane.clone()).or_default() += jobs.cast_unsigned();
                groups.openings.set(&lane, &group, Some(Timestamp::EPOCH));
            }
        }
        Ok(groups)
    }

    /// Counts a blocked or ready job.
    pub(super) fn enter(&mut self, entry: &Entry) {
        self.count(entry, |counts, cost| {
            if entry.job.state == State::Blocked {
                counts.waiting += 1;
            } else {
                counts.ahead.jobs += 1;
                counts.ahead.cost += cost;
            }
        });
    }

    /// Takes a blocked or ready job out of the counts.
    pub(super) fn leave(&mut self, entry: &Entry) {
        self.count(entry, |counts, cost| {
            if entry.job.state == State::Blocked {
                counts.waiting = counts.waiting.saturating_sub(1);
            } else {
                counts.ahead.jobs = counts.ahead.jobs.saturating_sub(1);
                counts.ahead.cost = counts.ahead.cost.saturating_sub(cost);
            }
        });
    }

    fn count(&mut self, entry: &Entry, change: impl FnOnce(&mut Counts, u64)) {
        let header = &entry.job.header;
        let placed = matches!(entry.job.state, State::Blocked | State::Available);
        if entry.job.limits.is_empty() || !placed {
            return;
        }
        let lane = (header.queue.clone(), header.kind.clone());
        let key = (header.limit_group().to_owned(), lane);
        let counts = self.counts.entry(key.clone()).or_default();
        let before = counts.waiting;
        change(counts, header.cost.into());
        if counts.waiting != before {
            let in_line = self.in_lines.entry(key.1.clone()).or_default();
            *in_line = (*in_line + counts.waiting).saturating_sub(before);
            if *in_line == 0 {
                self.in_lines.remove(&key.1);
            }
        }
        if *counts == Counts::default() {
            self.counts.remove(&key);
        }
    }

    /// Counts a running job, or one that runs no more.
    pub(super) fn count_running(&mut self, entry: &Entry, starts: bool) {
        let group = entry.job.header.limit_group();
        for limit in &entry.job.limits {
            for key in [(limit.clone(), None), (limit.clone(), Some(group.to_owned()))] {
                let count = self.running.entry(key.clone()).or_default();
                *count = if starts { *count + 1 } else { count.saturating_sub(1) };
                if *count == 0 {
                    self.running.remove(&key);
                }
            }
        }
    }

    /// Whether a limit may have rows in `meter`.
    pub(super) fn is_metered(&self, limit: &Name) -> bool {
        self.metered.contains(limit)
    }

    /// Notes that a limit has a row in `meter`.
    pub(super) fn set_metered(&mut self, limit: &Name) {
        if !self.metered.contains(limit) {
            self.metered.insert(limit.clone());
        }
    }

    /// Number of running jobs that a limit counts.
    pub(super) fn running_under(&self, limit: &Name, group: Option<&str>) -> u64 {
        let key = (limit.clone(), group.map(ToOwned::to_owned));
        self.running.get(&key).copied().unwrap_or(0)
    }

    /// Counts of the jobs under limits, of at most `most` lines and running groups.
    pub(super) fn limit_counts(&self, most: usize) -> LimitCounts {
        let line = |((group, lane), counts): (&(String, LaneKey), &Counts)| {
            (lane.clone(), group.clone(), counts.waiting + u64::from(counts.ahead.jobs))
        };
        let running = self.running.iter().filter_map(|((limit, group), jobs)| {
            group.as_ref().map(|group| (limit.clone(), group.clone(), *jobs))
        });
        LimitCounts {
            in_lines: self.in_lines.clone(),
            lines: self.counts.iter().take(most).map(line).collect(),
            running: running.take(most).collect(),
        }
    }

    /// Whether jobs are in the line of a group, and the ready jobs ahead of them.
    pub(super) fn line(&self, lane: &LaneKey, group: &str) -> (bool, Ahead) {
        let counts = self.counts.get(&(group.to_owned(), lane.clone()));
        counts.map_or_else(Default::default, |counts| (counts.waiting > 0, counts.ahead))
    }

    /// The lanes in which jobs of a group are in line.
    pub(super) fn lanes_in_line(&self, group: &str) -> Vec<LaneKey> {
        let from = (group.to_owned(), ("".into(), "".into()));
        let lines = self.counts.range(from..).take_while(|((of, _), _)| of == group);
        let lines = lines.filter(|(_, counts)| counts.waiting > 0);
        lines.map(|((_, lane), _)| lane.clone()).collect()
    }

    /// Lets all lines of a queue or a kind open at a time.
    pub(super) fn reopen(&mut self, queue: Option<&Name>, kind: Option<&Name>, at: Timestamp) {
        for ((group, lane), _) in self.counts.iter().filter(|(_, counts)| counts.waiting > 0) {
            let fits = queue.is_none_or(|queue| *queue == lane.0)
                && kind.is_none_or(|kind| *kind == lane.1);
            if fits {
                self.openings.set(lane, group, Some(at));
            }
        }
    }
}

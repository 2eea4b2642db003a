//! Writes jobs: the definition once, then only the rows that a change affects.

use super::Jobs;
use super::body;
use super::codec::{self, Spec, Tail};
use super::ended::Ended;
use super::groups::GroupRow;
use super::key::{PROBES, first_key};
use super::load::{Loaded, failed, usual_finish};
use super::ready::Ready;
use rusqlite::{Connection, Params, params};
use windlass_core::model::{Job, Name, PartName, Parts, Placement, Policy, State};
use windlass_core::{JobId, Result};
use windlass_executor::{Entry, Head};
use windlass_workset::Deadline;
pub(super) use windlass_workset::Place;

/// `deadline.work` of waiting jobs, which expire at the deadline.
pub(super) const EXPIRES: i64 = 0;
/// `deadline.work` of ended jobs, which are removed at the deadline.
pub(super) const REMOVED: i64 = 1;

pub(super) const INSERT_JOB: &str = "INSERT INTO job VALUES (?,?,?,?,?,?,?) ON CONFLICT DO NOTHING";
pub(super) const INSERT_LIFE: &str = "INSERT INTO life VALUES (?,?,?,?,?)";
const REPLACE_LIFE: &str = "REPLACE INTO life VALUES (?,?,?,?,?)";

/// Whether a ready job keeps its position in the lane.
fn keeps_position(before: &Place, after: &Place) -> bool {
    let position = |place: &Place| (place.state, place.rank, place.seq, place.suspect);
    before.state == State::Available && position(before) == position(after)
}

/// Whether the retention of its queue does not apply to a job that has ended: it has one of its own, or dependents read
/// its result.
pub(super) const fn ends_alone(job: &Job) -> bool {
    job.header.policy.retention.is_some() || job.is_read()
}

/// The time of the end of a job that has ended and is listed alone.
fn own_end(entry: &Entry) -> Option<i64> {
    let own = entry.job.state.is_terminal() && ends_alone(&entry.job);
    entry.job.finished_at.filter(|_| own).map(|at| at.as_millis())
}

/// The deadline of a job as columns `work` and `at` of the table `deadline`.
const fn deadline(place: &Place) -> Option<(i64, i64)> {
    match place.deadline {
        Some(Deadline::Expires(at)) => Some((EXPIRES, at)),
        Some(Deadline::Removed(at)) => Some((REMOVED, at)),
        None => None,
    }
}

/// The state of a job's rows before a change.
pub(super) struct Before {
    pub(super) n: i64,
    pub(super) lived: bool,
    pub(super) side_parts: bool,
    /// The row that contains its lease, if the job runs and its lease is written.
    pub(super) lease_row: Option<i64>,
    pub(super) place: Place,
    /// The time of its end, if it has ended and is listed alone.
    pub(super) own_end: Option<i64>,
    pub(super) queue: Name,
    /// Whether it has a row in `unresolved`.
    pub(super) unresolved: bool,
    /// Its row in `group_line` or `group_ready`.
    pub(super) group: Option<GroupRow>,
    pub(super) parts: Parts,
    pub(super) policy: Policy,
}

/// The lane that a job leaves, its queue, and whether that queue limits the waiting time of jobs.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) lane: i64,
    pub(super) queue: &'a Name,
    pub(super) ages: bool,
}

impl Before {
    pub(super) fn of(loaded: &Loaded) -> Self {
        Self {
            n: loaded.n,
            lived: loaded.lived,
            side_parts: loaded.side_parts,
            lease_row: loaded.lease_row,
            place: Place::of(&loaded.entry),
            own_end: own_end(&loaded.entry),
            queue: loaded.entry.job.header.queue.clone(),
            unresolved: loaded.entry.job.is_unresolved(),
            group: GroupRow::of(&loaded.entry),
            parts: loaded.entry.job.parts.clone(),
            policy: loaded.entry.job.header.policy.clone(),
        }
    }
}

/// Writes the rows of one job.
pub(super) struct Saver<'a, 'c> {
    pub(super) conn: &'c Connection,
    pub(super) hot: &'a mut Jobs<'c>,
    pub(super) entry: &'a Entry,
    pub(super) lane: i64,
    /// Whether its queue limits the waiting time of jobs.
    pub(super) queue_ages: bool,
    pub(super) ready: &'a mut Ready,
    pub(super) ended: &'a mut Ended,
}

impl Saver<'_, '_> {
    fn run(&self, sql: &str, params: impl Params) -> Result<()> {
        let mut statement = self.conn.prepare_cached(sql).map_err(|error| failed(&error))?;
        statement.execute(params).map(|_| ()).map_err(|error| failed(&error))
    }

    fn id(&self) -> JobId {
        self.entry.id()
    }

    fn queue(&self) -> &Name {
        &self.entry.job.header.queue
    }

    /// Writes a new job; returns its row key, and whether it has rows in `life` and in `part`.
    pub(super) fn insert(&mut self) -> Result<(i64, bool, bool)> {
        let n = self.insert_definition()?;
        let side_parts = self.save_parts(n, &Parts::default(), true)?;
        // A definition alone can describe scheduled and available jobs only.
        let lives = !body::is_as_enqueued(self.entry);
        if lives {
            self.save_life(n, false, side_parts, None)?;
        }
        self.add_place(n, &Place::of(self.entry))?;
        self.add_to_group()?;
        Ok((n, lives, side_parts))
    }

    fn insert_definition(&mut self) -> Result<i64> {
        let (entry, header) = (self.entry, &self.entry.job.header);
        let spec = codec::to_text(&Spec::of(header))?;
        let payload = entry.job.parts.payload.as_ref();
        let envelope = payload.map(codec::envelope_text).transpose()?.flatten();
        let others =
            [&entry.job.parts.checkpoint, &entry.job.parts.blob, &entry.job.parts.metadata];
        let body = body::pack_job(entry, others.iter().any(|part| part.is_some()));
        let first = first_key(self.id());
        for n in first..first + PROBES {
            let inserted = self.hot.insert_job.execute(params![
                n,
                self.id().as_bytes(),
                self.lane,
                body,
                spec,
                payload.map(|part| &*part.bytes),
                envelope,
            ]);
            if inserted.map_err(|error| failed(&error))? == 1 {
                return Ok(n);
            }
        }
        let reason = format!("more than {PROBES} jobs whose ids begin like {}", self.id());
        Err(codec::corrupt(&reason))
    }

    /// Writes the rows that a change affects; returns whether the job now has rows in `life` and in `part`.
    pub(super) fn update(&mut self, before: &Before, from: Origin<'_>) -> Result<(bool, bool)> {
        let (n, after) = (before.n, Place::of(self.entry));
        let side_parts = self.save_parts(n, &before.parts, false)? || before.side_parts;
        let stays = before.place.state == after.state;
        // A claim is recorded by the lease alone; every other change is written to `life`.
        let lives = stays || after.state != State::Running;
        if lives {
            let edited = (self.entry.job.header.policy != before.policy || before.lived)
                .then_some(&self.entry.job.header.policy);
            self.save_life(n, before.lived, side_parts, edited)?;
        }
        let group = GroupRow::of(self.entry);
        if before.group != group || (group.is_some() && from.lane != self.lane) {
            if let Some(row) = &before.group {
                row.delete(self.conn, from.lane)?;
            }
            self.add_to_group()?;
        }
        if before.unresolved != self.entry.job.is_unresolved() {
            self.save_unresolved()?;
        }
        let own_end = own_end(self.entry);
        if from.lane != self.lane {
            self.run("UPDATE job SET lane = ?2 WHERE n = ?1", [n, self.lane])?;
            let nowhere = Place { deadline: None, holds_key: false, ..after.clone() };
            self.remove_own_end(before)?;
            self.remove_place(n, &before.place, &nowhere, from)?;
            self.add_place(n, &after)?;
        } else if before.place != after || before.own_end != own_end {
            self.remove_own_end(before)?;
            self.remove_place(n, &before.place, &after, from)?;
            self.add_place_after(n, &before.place, &after)?;
        }
        Ok((lives || before.lived, side_parts))
    }

    /// Adds an ended job to those that are unresolved, or removes it.
    pub(super) fn save_unresolved(&self) -> Result<()> {
        let sql = match self.entry.job.is_unresolved() {
            true => "INSERT OR IGNORE INTO unresolved (id) VALUES (?1)",
            false => "DELETE FROM unresolved WHERE id = ?1",
        };
        self.run(sql, [self.id().as_bytes()])
    }

    /// Writes the parts that differ from `before`; returns whether any was written to `part`.
    fn save_parts(&self, n: i64, before: &Parts, new: bool) -> Result<bool> {
        let mut any = false;
        for name in PartName::ALL {
            // The payload of a new job is part of its definition.
            if new && name == PartName::Payload {
                continue;
            }
            let part = self.entry.job.parts.get(name);
            if part == before.get(name) {
                continue;
            }
            match part {
                Some(part) => {
                    let sql = "INSERT OR REPLACE INTO part (n, name, bytes, envelope)
                        VALUES (?1, ?2, ?3, ?4)";
                    let envelope = codec::envelope_text(part)?;
                    self.run(sql, params![n, name as i64, &*part.bytes, envelope])?;
                    any = true;
                }
                None if name == PartName::Payload => {
                    self.run("UPDATE job SET payload = NULL, envelope = NULL WHERE n = ?1", [n])?;
                    self.run("DELETE FROM part WHERE n = ?1 AND name = 0", [n])?;
                }
                None => {
                    self.run("DELETE FROM part WHERE n = ?1 AND name = ?2", [n, name as i64])?;
                }
            }
        }
        Ok(any)
    }

    fn save_life(
        &mut self,
        n: i64,
        lived: bool,
        side_parts: bool,
        policy: Option<&Policy>,
    ) -> Result<()> {
        let (entry, job) = (self.entry, &self.entry.job);
        let mut past: Vec<_> = entry.past.iter().cloned().collect();
        // While the job runs, the attempt in the body is the running one, so all past attempts go into the tail.
        let latest = if job.state == State::Running { None } else { past.pop() };
        let tail = codec::to_text(&Tail {
            finish: job.finish.clone().filter(|why| usual_finish(job.state).as_ref() != Some(why)),
            error: job.error.clone(),
            progress: job.progress.clone(),
            log: job.log.clone(),
            past,
            attempt_error: latest.as_ref().and_then(|(_, attempt)| attempt.error.clone()),
            result: job.result.as_ref().map(Into::into),
            policy: policy.cloned(),
            limits: job.limits.clone(),
            dependencies: job.dependencies,
            continuation: job.continuation.clone(),
        })?;
        let body = body::pack_life(entry, side_parts, latest.as_ref())?;
        let row = params![n, self.lane, job.state as i64, body, tail];
        if lived {
            return self.run(REPLACE_LIFE, row);
        }
        // Most jobs get their first row in `life` when they end, and a plain insert is cheaper than a replace.
        let inserted = self.hot.insert_life.execute(row);
        inserted.map(|_| ()).map_err(|error| failed(&error))
    }

    /// Removes a job from the tables of its old place.
    pub(super) fn remove_place(
        &mut self,
        n: i64,
        before: &Place,
        after: &Place,
        from: Origin<'_>,
    ) -> Result<()> {
        let (id, header, queue) = (self.id(), &self.entry.job.header, &**from.queue);
        match before.state.placement() {
            Placement::Ready if keeps_position(before, after) => {}
            Placement::Ready if after.state == State::Running => {
                self.ready.claim(self.conn, from.lane, (before.rank, before.seq))?;
            }
            Placement::Ready => {
                self.ready.remove(self.conn, from.lane, (before.rank, before.seq))?;
            }
            Placement::Scheduled => self.run(
                "DELETE FROM scheduled WHERE run_at = ?1 AND seq = ?2",
                params![before.run_at, before.seq.cast_signed()],
            )?,
            Placement::Aside => self.run("DELETE FROM aside WHERE n = ?1", [n])?,
            Placement::Leased | Placement::Ended => {}
        }
        if let Some(key) = &header.key {
            if before.in_line {
                let sql = "DELETE FROM key_line WHERE queue = ?1 AND key = ?2 AND seq = ?3";
                self.run(sql, params![queue, key, before.seq.cast_signed()])?;
            }
            if before.holds_key && !after.holds_key {
                let sql = "DELETE FROM key_holder WHERE queue = ?1 AND key = ?2";
                self.run(sql, params![queue, key])?;
            }
        }
        if let Some((work, at)) = deadline(before).filter(|_| before.deadline != after.deadline) {
            let sql = "DELETE FROM deadline WHERE work = ?1 AND at = ?2 AND id = ?3";
            self.run(sql, params![work, at, id.as_bytes()])?;
        }
        if from.ages && before.ages {
            let sql = "DELETE FROM aging WHERE queue = ?1 AND run_at = ?2 AND id = ?3";
            self.run(sql, params![queue, before.run_at, id.as_bytes()])?;
        }
        Ok(())
    }

    /// Removes an ended job that is listed alone from the listings.
    fn remove_own_end(&self, before: &Before) -> Result<()> {
        let Some(at) = before.own_end else { return Ok(()) };
        let sql = "DELETE FROM ended_own WHERE lane = ?1 AND state = ?2 AND at = ?3 AND id = ?4";
        let state = before.place.state as i64;
        self.run(sql, params![self.lane, state, at, self.id().as_bytes()])
    }

    fn add_place_after(&mut self, n: i64, before: &Place, after: &Place) -> Result<()> {
        if !keeps_position(before, after) {
            self.add_to_line(n, after)?;
        }
        // A key that the job already held is already written.
        let holds_key = after.holds_key && !before.holds_key;
        self.add_limits(&Place { holds_key, ..after.clone() })
    }

    /// Adds a job to the tables of its place, leases excepted.
    pub(super) fn add_place(&mut self, n: i64, place: &Place) -> Result<()> {
        self.add_to_line(n, place)?;
        self.add_limits(place)
    }

    fn add_to_line(&mut self, n: i64, place: &Place) -> Result<()> {
        let (id, seq) = (self.id(), place.seq.cast_signed());
        let state = place.state as i64;
        match place.state.placement() {
            Placement::Ready => {
                let Place { rank, seq, suspect, .. } = *place;
                self.ready.add(self.lane, Head { rank, seq, id, suspect });
            }
            Placement::Ended => {
                let at = self.entry.job.finished_at.unwrap_or_default().as_millis();
                if !ends_alone(&self.entry.job) {
                    self.ended.add((self.lane, state), id, at);
                } else {
                    let sql = "INSERT OR IGNORE INTO ended_own VALUES (?1, ?2, ?3, ?4)";
                    self.run(sql, params![self.lane, state, at, id.as_bytes()])?;
                }
            }
            Placement::Scheduled => self.run(
                "INSERT INTO scheduled (run_at, seq, n, id, lane) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![place.run_at, seq, n, id.as_bytes(), self.lane],
            )?,
            Placement::Aside => self.run(
                "INSERT INTO aside (n, lane, state) VALUES (?1, ?2, ?3)",
                params![n, self.lane, state],
            )?,
            Placement::Leased => {}
        }
        Ok(())
    }

    /// Writes the row of a job that is blocked or ready because of limits by group.
    pub(super) fn add_to_group(&self) -> Result<()> {
        let row = GroupRow::of(self.entry);
        row.map_or(Ok(()), |row| row.insert(self.conn, self.lane, self.id().as_bytes()))
    }

    /// Writes the ordering key and the deadlines for expiry and removal.
    fn add_limits(&self, place: &Place) -> Result<()> {
        let (id, header, seq) = (self.id(), &self.entry.job.header, place.seq.cast_signed());
        if let Some(key) = &header.key {
            if place.in_line {
                let sql = "INSERT INTO key_line (queue, key, seq, id) VALUES (?1, ?2, ?3, ?4)";
                self.run(sql, params![&**self.queue(), key, seq, id.as_bytes()])?;
            }
            if place.holds_key {
                let sql = "INSERT INTO key_holder (queue, key, id) VALUES (?1, ?2, ?3)";
                self.run(sql, params![&**self.queue(), key, id.as_bytes()])?;
            }
        }
        if let Some((work, at)) = deadline(place) {
            let sql = "INSERT OR IGNORE INTO deadline (work, at, id, lane) VALUES (?1, ?2, ?3, ?4)";
            self.run(sql, params![work, at, id.as_bytes(), self.lane])?;
        }
        if self.queue_ages && place.ages {
            let sql = "INSERT OR IGNORE INTO aging (queue, run_at, id) VALUES (?1, ?2, ?3)";
            self.run(sql, params![&**self.queue(), place.run_at, id.as_bytes()])?;
        }
        Ok(())
    }

    /// Deletes all rows of a job that has ended.
    pub(super) fn delete(&mut self, before: &Before) -> Result<()> {
        let nowhere = Place { deadline: None, holds_key: false, ..before.place.clone() };
        self.remove_own_end(before)?;
        let from = Origin { lane: self.lane, queue: &before.queue, ages: self.queue_ages };
        self.remove_place(before.n, &before.place, &nowhere, from)?;
        self.run("DELETE FROM job WHERE n = ?1", [before.n])?;
        if before.lived {
            self.run("DELETE FROM life WHERE n = ?1", [before.n])?;
        }
        if before.side_parts {
            self.run("DELETE FROM part WHERE n = ?1", [before.n])?;
        }
        if self.entry.job.dependencies.total > 0 {
            self.run("DELETE FROM input WHERE id = ?1", [self.id().as_bytes()])?;
        }
        Ok(())
    }
}

//! The consistency check: every job is in exactly one place, and every derived row agrees with its job.

use super::ended::unpack;
use super::lanes::{EndedCounts, Lanes, RECOUNT};
use super::save::{Place, Saver, ends_alone};
use super::{SqliteRows, failed, load, saver};
use std::collections::{HashMap, HashSet};
use windlass_core::engine::{CheckReport, Finding, SessionId};
use windlass_core::model::{Placement, State};
use windlass_core::{JobId, Result};
use windlass_executor::{Entry, Rows as _, UniqueHold};

/// Tables that can be rebuilt from the jobs.
const DERIVED: [&str; 13] = [
    "ready",
    "scheduled",
    "aside",
    "ended",
    "ended_own",
    "ended_count",
    "key_holder",
    "key_line",
    "deadline",
    "aging",
    "group_line",
    "group_ready",
    "unresolved",
];

/// The place of a job as stored: the table, and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Ready { lane: i64, rank: i64, seq: u64 },
    Scheduled { run_at: i64, seq: u64 },
    Aside { state: i64 },
}

impl Listed {
    /// The place in which a job must be listed; `None` for running and ended jobs.
    fn of(entry: &Entry, lane: i64) -> Option<Self> {
        let Place { state, rank, seq, run_at, .. } = Place::of(entry);
        match state.placement() {
            Placement::Ready => Some(Self::Ready { lane, rank, seq }),
            Placement::Scheduled => Some(Self::Scheduled { run_at, seq }),
            Placement::Aside => Some(Self::Aside { state: state as i64 }),
            Placement::Leased | Placement::Ended => None,
        }
    }
}

impl SqliteRows<'_> {
    pub(super) fn check_all(
        &mut self,
        is_open: &dyn Fn(&SessionId) -> bool,
        repair: bool,
    ) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        report.jobs = self.number("SELECT count(*) FROM job")?;
        let mut found = self.misplaced()?;
        found.extend(self.contradictions(is_open)?);
        found.extend(self.stray_unique_keys()?);
        found.extend(self.misplaced_in_groups()?);
        found.extend(self.lost_dependents()?);
        let mut counted = Lanes::read(self.conn, EndedCounts::Recounted)?;
        for running in self.running.values() {
            let header = &running.loaded.entry.job.header;
            let lane = counted.known(&header.queue, &header.kind).unwrap_or_default();
            counted.count(lane, State::Running, true)?;
        }
        if counted != self.lanes {
            found.push("the counts of the lanes do not agree with their jobs".into());
        }
        let incomplete = self.noted(self.events.incomplete(self.conn))?;
        found.extend(incomplete.iter().map(|queue| format!("events of queue {queue} are missing")));
        report.findings = found.into_iter().map(|what| Finding::new(what, repair)).collect();
        if repair && !report.findings.is_empty() {
            self.rebuild()?;
            incomplete.iter().for_each(|queue| self.events.drop_all(queue));
        }
        Ok(report)
    }

    fn number(&self, sql: &str) -> Result<u64> {
        Ok(self.one(sql, [], |row| row.get::<_, i64>(0))?.unwrap_or(0).cast_unsigned())
    }

    fn misplaced(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut listed: HashMap<JobId, Listed> = HashMap::new();
        for (id, place) in self.listed()? {
            if listed.insert(id, place).is_some() {
                found.push(format!("job {id} is in several places"));
            }
        }
        let mut ended = self.listed_as_ended()?;
        self.each_entry(|entry| {
            let (id, header) = (entry.id(), &entry.job.header);
            let lane = self.lanes.known(&header.queue, &header.kind);
            let (is, ought) = (listed.remove(&id), Listed::of(entry, lane.unwrap_or_default()));
            match (is, ought) {
                (None, Some(ought)) => {
                    found.push(format!("job {id} is in no place; it ought to be in {ought:?}"));
                }
                (Some(is), ought) if Some(is) != ought => {
                    found.push(format!("job {id} is in {is:?}; it ought to be in {ought:?}"));
                }
                _ => {}
            }
            let Some(at) = entry.job.finished_at.filter(|_| entry.job.state.is_terminal()) else {
                return Ok(());
            };
            let own = ends_alone(&entry.job);
            if !ended.remove(&(id, entry.job.state as i64, at.as_millis(), own)) {
                found.push(format!(
                    "job {id} has ended, and neither retention nor listings know it"
                ));
            }
            Ok(())
        })?;
        let strays = "SELECT n FROM aside UNION ALL SELECT n FROM life EXCEPT SELECT n FROM job";
        found.extend(self.all(strays, [], |row| {
            Ok(format!("row key {} is in a place but belongs to no job", row.get::<_, i64>(0)?))
        })?);
        found.extend(listed.keys().map(|id| format!("job {id} is in a place but does not exist")));
        Ok(found)
    }

    /// Compares the lines of groups with the jobs.
    fn misplaced_in_groups(&self) -> Result<Vec<String>> {
        let sql = "SELECT id, 0 FROM group_line UNION ALL SELECT id, 1 FROM group_ready";
        let listed =
            self.all(sql, [], |row| Ok((JobId::from_bytes(row.get(0)?), row.get::<_, bool>(1)?)))?;
        let mut listed: HashMap<JobId, bool> = listed.into_iter().collect();
        let mut found = Vec::new();
        self.each_entry(|entry| {
            let ready = entry.job.state == State::Available;
            let in_line = ready || entry.job.state == State::Blocked;
            let ought = (in_line && !entry.job.limits.is_empty()).then_some(ready);
            if listed.remove(&entry.id()) != ought {
                found.push(format!("the line of its group does not agree with job {}", entry.id()));
            }
            Ok(())
        })?;
        found.extend(listed.keys().map(|id| format!("job {id} is in line but does not exist")));
        Ok(found)
    }

    /// Compares dependencies with the jobs at both of their ends.
    fn lost_dependents(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let edges = self.all("SELECT upstream, id FROM input WHERE open", [], |row| {
            Ok((JobId::from_bytes(row.get(0)?), JobId::from_bytes(row.get(1)?)))
        })?;
        for (upstream, id) in edges {
            let followed = self.with_job(upstream, |entry| entry.job.followed)?;
            if followed != Some(true) {
                found.push(format!("job {id} depends on {upstream}, which does not know it"));
            }
        }
        let counts =
            self.all("SELECT id, count(*), sum(open) FROM input GROUP BY id", [], |row| {
                Ok((JobId::from_bytes(row.get(0)?), (row.get::<_, u32>(1)?, row.get::<_, u32>(2)?)))
            })?;
        let mut counts: HashMap<JobId, (u32, u32)> = counts.into_iter().collect();
        let mut readers: HashMap<JobId, u32> = HashMap::new();
        let mut kept: HashMap<JobId, u32> = HashMap::new();
        let sql = "SELECT id, upstream FROM input WHERE input ->> '$.kept'";
        for (id, upstream) in self.all(sql, [], |row| {
            Ok((JobId::from_bytes(row.get(0)?), JobId::from_bytes(row.get(1)?)))
        })? {
            *kept.entry(id).or_default() += 1;
            *readers.entry(upstream).or_default() += 1;
        }
        let unresolved =
            self.all("SELECT id FROM unresolved", [], |row| row.get(0).map(JobId::from_bytes))?;
        let mut unresolved: HashSet<JobId> = unresolved.into_iter().collect();
        self.each_entry(|entry| {
            let (id, ours) = (entry.id(), entry.job.dependencies);
            let (total, open) = counts.remove(&id).unwrap_or_default();
            if (total, open) != (ours.total, ours.open) {
                let waits = ours.open;
                found.push(format!("job {id} waits for {waits} dependencies, and {open} are open"));
            }
            let (keeps, reads) = (kept.remove(&id), readers.remove(&id));
            let (keeps, reads) = (keeps.unwrap_or_default(), reads.unwrap_or_default());
            if (keeps, reads) != (ours.kept, ours.readers) {
                found.push(format!(
                    "job {id} keeps {keeps} jobs and is read by {reads}, not {} and {}",
                    ours.kept, ours.readers
                ));
            }
            if unresolved.remove(&id) != entry.job.is_unresolved() {
                found.push(format!("job {id} has dependents, and maintenance does not know it"));
            }
            Ok(())
        })?;
        let strays = counts.into_keys().chain(unresolved);
        found.extend(strays.map(|id| format!("dependencies of job {id}, which does not exist")));
        Ok(found)
    }

    /// Returns all jobs in the tables of places.
    fn listed(&self) -> Result<Vec<(JobId, Listed)>> {
        let mut listed = Vec::new();
        let lanes = self.all("SELECT DISTINCT lane FROM ready", [], |row| row.get::<_, i64>(0))?;
        for lane in lanes {
            let jobs = super::ready::all(self.conn, lane)?.into_iter();
            listed.extend(
                jobs.map(|head| (head.id, Listed::Ready { lane, rank: head.rank, seq: head.seq })),
            );
        }
        let scheduled = "SELECT id, run_at, seq FROM scheduled";
        listed.extend(self.all(scheduled, [], |row| {
            let seq = row.get::<_, i64>(2)?.cast_unsigned();
            let place = Listed::Scheduled { run_at: row.get(1)?, seq };
            Ok((JobId::from_bytes(row.get(0)?), place))
        })?);
        let aside = "SELECT j.id, a.state FROM aside a JOIN job j ON j.n = a.n";
        listed.extend(self.all(aside, [], |row| {
            Ok((JobId::from_bytes(row.get(0)?), Listed::Aside { state: row.get(1)? }))
        })?);
        Ok(listed)
    }

    /// Returns the jobs listed as ended: state, time, and whether the job has a retention of its own.
    fn listed_as_ended(&self) -> Result<HashSet<(JobId, i64, i64, bool)>> {
        let rows = self.all("SELECT state, at, jobs FROM ended", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
        })?;
        let mut ended = HashSet::new();
        for (state, at, jobs) in rows {
            let jobs = unpack(&jobs, at)?.into_iter();
            ended.extend(jobs.map(|(id, at)| (id, state, at, false)));
        }
        ended.extend(self.all("SELECT id, state, at FROM ended_own", [], |row| {
            Ok((JobId::from_bytes(row.get(0)?), row.get(1)?, row.get(2)?, true))
        })?);
        Ok(ended)
    }

    fn contradictions(&self, is_open: &dyn Fn(&SessionId) -> bool) -> Result<Vec<String>> {
        let mut found = Vec::new();
        self.each_entry(|entry| {
            found.extend(entry.contradictions(is_open));
            let place = Place::of(entry);
            if place.holds_key || place.in_line {
                let header = &entry.job.header;
                let key = header.key.as_deref().unwrap_or_default();
                let line = self.line_of(header, key)?;
                if place.holds_key && line.holder != Some(entry.id()) {
                    found.push(format!("job {} holds a key it is not known to hold", entry.id()));
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn line_of(
        &self,
        header: &windlass_core::model::Header,
        key: &str,
    ) -> Result<windlass_executor::Line> {
        windlass_executor::Rows::line(self, &header.queue, key)
    }

    fn stray_unique_keys(&self) -> Result<Vec<String>> {
        let sql = "SELECT id, key, until IS NULL FROM unique_key WHERE until IS NULL OR until = ?1";
        let held = self.all(sql, [UniqueHold::WHILE_STORED.as_millis()], |row| {
            Ok((JobId::from_bytes(row.get(0)?), row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
        })?;
        let mut found = Vec::new();
        for (id, key, until_it_ends) in held {
            let state = windlass_executor::Rows::with_job(self, id, |entry| entry.job.state)?;
            if state.is_none_or(|state| until_it_ends && state.is_terminal()) {
                found.push(format!("unique key {key:?} is held by {id}, which has ended"));
            }
        }
        Ok(found)
    }

    /// Calls `look` for every job; running jobs are taken from memory.
    fn each_entry(&self, mut visit: impl FnMut(&Entry) -> Result<()>) -> Result<()> {
        let query = load::query("true");
        let mut statement = self.conn.prepare(&query).map_err(|error| failed(&error))?;
        let mut rows = statement.query([]).map_err(|error| failed(&error))?;
        while let Some(row) = rows.next().map_err(|error| failed(&error))? {
            let loaded = load::read(row, &self.lanes)?;
            let running = self.running.get(&loaded.entry.id());
            visit(running.map_or(&loaded.entry, |running| &running.loaded.entry))?;
        }
        Ok(())
    }

    /// Rebuilds every derived table from the jobs.
    fn rebuild(&mut self) -> Result<()> {
        for table in DERIVED {
            self.run(&format!("DELETE FROM {table}"), [])?;
        }
        let ids = self.all("SELECT id FROM job", [], |row| row.get(0).map(JobId::from_bytes))?;
        for id in ids {
            let running =
                self.running.get(&id).map(|running| (running.loaded.n, &running.loaded.entry));
            let stored = match running {
                Some(_) => None,
                None => self.stored(id)?,
            };
            let stored = stored.as_ref().map(|loaded| (loaded.n, &loaded.entry));
            let Some((n, entry)) = running.or(stored) else { continue };
            let header = &entry.job.header;
            let lane = self.lanes.known(&header.queue, &header.kind);
            let mut saver = saver!(self, entry, lane.unwrap_or(0));
            saver.add_place(n, &Place::of(entry))?;
            saver.add_to_group()?;
            saver.save_unresolved()?;
        }
        self.flush()?;
        self.run(&format!("INSERT INTO ended_count {RECOUNT}"), [])?;
        let sql = "DELETE FROM unique_key WHERE until IS NULL AND id NOT IN
            (SELECT j.id FROM job j LEFT JOIN life l ON l.n = j.n
                WHERE coalesce(l.state, 0) NOT IN (5, 6, 7, 8))";
        self.run(sql, [])?;
        let sql = "DELETE FROM unique_key WHERE until = ?1 AND id NOT IN (SELECT id FROM job)";
        self.run(sql, [UniqueHold::WHILE_STORED.as_millis()])?;
        self.reload()
    }
}

//! Whether every job is in exactly one place, and every derived row agrees.

use super::lanes::Lanes;
use super::save::{Place, Saver};
use super::{SqliteRows, failed, load};
use rusqlite::Row;
use windlass_core::engine::{CheckReport, Finding, SessionId};
use windlass_core::model::State;
use windlass_core::{JobId, Result};
use windlass_executor::Entry;

/// Every place a job can be in, by row key.
const PLACES: &str = "SELECT n FROM ready UNION ALL SELECT n FROM scheduled
    UNION ALL SELECT n FROM aside UNION ALL SELECT n FROM lease
    UNION ALL SELECT n FROM life WHERE finished_at IS NOT NULL";

/// The tables that can be made anew from the jobs.
const DERIVED: [&str; 7] =
    ["ready", "scheduled", "aside", "key_holder", "key_line", "deadline", "aging"];

impl SqliteRows {
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
        if Lanes::read(&self.conn)? != self.lanes {
            found.push("the counts of the lanes do not agree with their jobs".into());
        }
        report.findings =
            found.into_iter().map(|what| Finding { what, repaired: repair }).collect();
        if repair && !report.findings.is_empty() {
            self.rebuild()?;
        }
        Ok(report)
    }

    fn number(&self, sql: &str) -> Result<u64> {
        Ok(self.one(sql, [], |row| row.get::<_, i64>(0))?.unwrap_or(0).cast_unsigned())
    }

    fn misplaced(&self) -> Result<Vec<String>> {
        let told = |what: &'static str| {
            move |row: &Row<'_>| Ok(format!("job with row key {} {what}", row.get::<_, i64>(0)?))
        };
        let twice = format!("SELECT n FROM ({PLACES}) GROUP BY n HAVING count(*) > 1");
        let nowhere = format!("SELECT n FROM job WHERE n NOT IN ({PLACES})");
        let nobody = format!("SELECT n FROM ({PLACES}) WHERE n NOT IN (SELECT n FROM job)");
        let mut found = self.all(&twice, [], told("is in several places"))?;
        found.extend(self.all(&nowhere, [], told("is in no place"))?);
        found.extend(self.all(&nobody, [], told("is in a place but does not exist"))?);
        Ok(found)
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
        let sql = "SELECT id, key FROM unique_key WHERE until IS NULL";
        let held = self
            .all(sql, [], |row| Ok((JobId::from_bytes(row.get(0)?), row.get::<_, String>(1)?)))?;
        let mut found = Vec::new();
        for (id, key) in held {
            let state = windlass_executor::Rows::with_job(self, id, |entry| entry.job.state)?;
            if state.is_none_or(State::is_terminal) {
                found.push(format!("unique key {key:?} is held by {id}, which has ended"));
            }
        }
        Ok(found)
    }

    /// Looks at every job, running ones as they are in memory.
    fn each_entry(&self, mut look: impl FnMut(&Entry) -> Result<()>) -> Result<()> {
        let query = load::query("true");
        let mut statement = self.conn.prepare(&query).map_err(|error| failed(&error))?;
        let mut rows = statement.query([]).map_err(|error| failed(&error))?;
        while let Some(row) = rows.next().map_err(|error| failed(&error))? {
            let loaded = load::read(row, &self.lanes)?;
            let running = self.running.get(&loaded.entry.id());
            look(running.map_or(&loaded.entry, |running| &running.loaded.entry))?;
        }
        Ok(())
    }

    /// Makes every derived table anew from the jobs.
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
                None => load::by_id(&self.conn, &self.lanes, id)?,
            };
            let stored = stored.as_ref().map(|loaded| (loaded.n, &loaded.entry));
            let Some((n, entry)) = running.or(stored) else { continue };
            let header = &entry.job.header;
            let lane = self.lanes.known(&(header.queue.clone(), header.kind.clone()));
            let queue_ages = self.aging.contains(&header.queue);
            let saver = Saver { conn: &self.conn, entry, lane: lane.unwrap_or(0), queue_ages };
            saver.add_place(n, &Place::of(entry))?;
        }
        let sql = "DELETE FROM unique_key WHERE until IS NULL AND id NOT IN
            (SELECT j.id FROM job j LEFT JOIN life l ON l.n = j.n WHERE l.finished_at IS NULL)";
        self.run(sql, [])?;
        self.reload()
    }
}

//! Administration of schedules: put, get, pause, trigger, remove. Independent of fire times.

use super::stored::{CHANGES_KEY, PREFIX, ScheduleView, Stored, key, name};
use super::template::Template;
use crate::records::{get, list, unexpected};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use windlass_core::engine::{
    Cursor, Engine, Enqueue, Enqueued, Expect, RecordOp, RecordReply, Stamped,
};
use windlass_core::limits::PAGE_MAX;
use windlass_core::model::NewJob;
use windlass_core::policy::Schedule;
use windlass_core::random::SystemRandom;
use windlass_core::{Error, JobId, Result, Timestamp};

/// Maximum number of schedules of a store.
pub(super) const SCHEDULES_MAX: usize = 10_000;
/// How often a change is retried after a concurrent write.
const TRIES_MAX: usize = 16;

/// The recurring jobs of a store.
///
/// ```
/// # use std::sync::Arc;
/// # use windlass_memory::MemoryEngine;
/// use windlass_core::model::NewJob;
/// use windlass_core::policy::{Schedule, Unique};
/// use windlass_services::Schedules;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let engine = Arc::new(MemoryEngine::new());
/// let schedules = Schedules::new(engine);
/// // Unique, so that a report that takes longer than a day does not run beside the next.
/// let report = NewJob::new("report").queue("mail").unique(Unique::by("daily-report"));
/// schedules.put("daily-report", Schedule::cron("0 6 * * *", "Europe/Berlin"), report).await?;
///
/// schedules.pause("daily-report").await?;
/// assert!(schedules.get("daily-report").await?.unwrap().next.is_none());
/// # Ok::<(), windlass_core::Error>(())
/// # }).unwrap();
/// ```
///
/// The job of a fire has the id [`fire_id`](windlass_core::policy::fire_id), which contains the time of the
/// fire, so that a handler knows which run it is. Producers cannot choose such an id (it is a reserved UUID
/// version 8), so they cannot block a fire.
#[derive(Clone)]
pub struct Schedules {
    pub(super) engine: Arc<dyn Engine>,
}

impl fmt::Debug for Schedules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schedules")
    }
}

/// A page of schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulePage {
    /// The schedules, by name.
    pub rows: Vec<ScheduleView>,
    /// Names with an unreadable record: written by a later version or by hand. They do not fire.
    pub unreadable: Vec<String>,
    /// The cursor of the next page; `None` means the end.
    pub next: Option<Cursor>,
}

impl Schedules {
    /// The schedules of this store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Creates or replaces a schedule. If the rhythm is unchanged, it continues with the new job; with
    /// another rhythm it starts over and owes no earlier fires.
    ///
    /// Intervals without an anchor are counted from the Unix epoch; see [`Schedule::anchored`] for others.
    pub async fn put(&self, name: &str, schedule: Schedule, job: NewJob) -> Result<ScheduleView> {
        schedule.check()?;
        let template = Template::of(&job)?;
        let bytes_max = self.engine.capabilities().payload_bytes_max;
        let change = |old: Option<Stored>, now: Timestamp| {
            job.check(now, bytes_max).map_err(|error| error.within("job"))?;
            let mut new = Stored::new(schedule.clone(), template.clone(), now);
            if let Some(old) = old {
                new.paused = old.paused;
                new.progress = old.progress.restarted(now);
                if old.schedule == schedule {
                    (new.progress, new.last_fire) = (old.progress, old.last_fire);
                }
            }
            Ok(Some(new))
        };
        let written = self.change(name, true, change).await?;
        written.ok_or_else(|| missing(name))
    }

    /// Returns the schedule with this name.
    pub async fn get(&self, name: &str) -> Result<Option<ScheduleView>> {
        let seen = get(&*self.engine, &key(name)?).await?;
        let stored = seen.value.as_ref().map(Stored::read).transpose()?;
        Ok(stored.map(|stored| stored.view(name, seen.now)))
    }

    /// Returns one page of schedules, by name.
    pub async fn list(&self, after: Option<Cursor>, limit: u32) -> Result<SchedulePage> {
        let Stamped { now, value: page, .. } = list(&*self.engine, PREFIX, after, limit).await?;
        let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
        for record in &page.rows {
            let name = name(&record.key);
            match Stored::read(record) {
                Ok(stored) => rows.push(stored.view(name, now)),
                Err(_) => unreadable.push(name.to_owned()),
            }
        }
        Ok(SchedulePage { rows, unreadable, next: page.next })
    }

    /// Removes a schedule; `false` if there is none. Jobs that it enqueued are kept.
    pub async fn remove(&self, name: &str) -> Result<bool> {
        let delete = RecordOp::Delete { key: key(name)?, expect: Expect::Any };
        let RecordReply::Deleted(was) = self.write(delete).await?.value else {
            return Err(unexpected(&*self.engine));
        };
        Ok(was)
    }

    /// Pauses a schedule: it does not fire until it is resumed.
    pub async fn pause(&self, name: &str) -> Result<ScheduleView> {
        let paused = self.change(name, false, |mut old, _| {
            if let Some(old) = &mut old {
                old.paused = true;
            }
            Ok(old)
        });
        paused.await?.ok_or_else(|| missing(name))
    }

    /// Resumes a schedule from now on. Fires skipped while it was paused are not made up for.
    pub async fn resume(&self, name: &str) -> Result<ScheduleView> {
        let resumed = self.change(name, false, |old, now| {
            Ok(old.map(|mut old| {
                if std::mem::take(&mut old.paused) {
                    old.progress = old.progress.resumed(now);
                }
                old
            }))
        });
        resumed.await?.ok_or_else(|| missing(name))
    }

    /// Enqueues the job of a schedule now, even if it is paused; its rhythm is unchanged. Does not count as a
    /// fire or towards the limit. Calling it twice enqueues two jobs, unless they are unique.
    pub async fn trigger(&self, name: &str) -> Result<Enqueued> {
        let seen = get(&*self.engine, &key(name)?).await?;
        let record = seen.value.ok_or_else(|| missing(name))?;
        let id = JobId::new(seen.now, &SystemRandom);
        let job = Stored::read(&record)?.job.job().id(id);
        let answer = self.engine.enqueue(Enqueue::each([job])).await?;
        let item = answer.value.into_iter().next();
        item.unwrap_or_else(|| Err(unexpected(&*self.engine)))
    }

    /// Reads, changes and writes a schedule; repeats on a concurrent write. `None` if it does not exist and
    /// is not to be created.
    async fn change(
        &self,
        name: &str,
        create: bool,
        change: impl Fn(Option<Stored>, Timestamp) -> Result<Option<Stored>>,
    ) -> Result<Option<ScheduleView>> {
        let key = key(name)?;
        let mut tries = 1;
        loop {
            let seen = get(&*self.engine, &key).await?;
            let (old, expect) = match &seen.value {
                // Putting a schedule replaces an unreadable one.
                Some(record) if create => {
                    (Stored::read(record).ok(), Expect::Version(record.version))
                }
                Some(record) => (Some(Stored::read(record)?), Expect::Version(record.version)),
                None => (None, Expect::Absent),
            };
            let Some(new) = change(old, seen.now)? else { return Ok(None) };
            if expect == Expect::Absent {
                self.check_room().await?;
            }
            let put = RecordOp::Put { key: key.clone(), value: new.encode()?, expect };
            match self.write(put).await {
                Ok(written) => return Ok(Some(new.view(name, written.now))),
                Err(Error::VersionConflict { .. }) if tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes, then updates the change marker. In this order, so that a scheduler that reads in between reads
    /// again.
    async fn write(&self, op: RecordOp) -> Result<Stamped<RecordReply>> {
        let (key, value) = (CHANGES_KEY.to_owned(), Bytes::from_static(b"{}"));
        let put = RecordOp::Put { key, value, expect: Expect::Any };
        let answer = self.engine.records(vec![op, put]).await?;
        let (now, epoch) = (answer.now, answer.epoch);
        let mut items = answer.value.into_iter();
        let value = items.next().unwrap_or_else(|| Err(unexpected(&*self.engine)))?;
        items.next().unwrap_or_else(|| Err(unexpected(&*self.engine)))?;
        Ok(Stamped { now, epoch, value })
    }

    async fn check_room(&self) -> Result<()> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = list(&*self.engine, PREFIX, after, PAGE_MAX).await?.value;
            count += page.rows.len();
            if count >= SCHEDULES_MAX {
                let hint = "remove some, or have one schedule enqueue for many";
                let (size, limit) = (count as u64 + 1, SCHEDULES_MAX as u64);
                return Err(Error::TooLarge { field: "schedules".into(), size, limit, hint });
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

fn missing(name: &str) -> Error {
    Error::missing("schedule", name, "`windlass schedules` and GET /v1/schedules list them")
}

//! The bulk operations of a store: started, shown, cancelled and run.

use super::change::BulkChange;
use super::task::{Bulk, BulkState, Held};
use crate::records::{encode, get, list, one, unexpected};
use bytes::Bytes;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use windlass_core::engine::{Engine, Expect, Filter, Record, RecordOp, RecordReply};
use windlass_core::limits::{BULK_HOLD_MS, BULKS_MAX, NAME_BYTES_MAX};
use windlass_core::random::{Random as _, SystemRandom};
use windlass_core::{Error, JobId, Result, Timestamp, check_text};

/// Key prefix of the records.
pub(crate) const PREFIX: &str = "bulk/";
/// The change marker: a record written when a person starts or cancels an operation, so that the service notices it
/// cheaply, and so that the audit log can tell people from progress.
pub(crate) const CHANGES_KEY: &str = "bulk-changes";
/// How often a cancellation is tried again beside saved progress.
const CANCELS_MAX: usize = 100;
/// How long to wait before looking again at an operation that another process runs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A bulk operation to start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewBulk {
    /// The jobs to change.
    pub filter: Filter,
    /// The change.
    pub change: BulkChange,
    /// Whether to count the jobs only.
    pub dry_run: bool,
    /// Who starts it.
    pub by: String,
}

impl NewBulk {
    /// Changes all jobs that match `filter`.
    pub fn new(filter: Filter, change: BulkChange) -> Self {
        Self { filter, change, dry_run: false, by: "unknown".to_owned() }
    }

    /// Counts the jobs and changes none.
    #[must_use]
    pub const fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets who starts it.
    #[must_use]
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = by.into();
        self
    }
}

/// The bulk operations of a store.
///
/// ```
/// # use std::sync::Arc;
/// # use windlass_core::engine::{Engine, Enqueue, Filter};
/// # use windlass_core::model::NewJob;
/// # use windlass_memory::MemoryEngine;
/// use windlass_services::{BulkChange, Bulks, NewBulk};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
/// # engine.enqueue(Enqueue::each(vec![NewJob::new("send").queue("mail"); 3])).await?;
/// let bulks = Bulks::new(engine);
/// let all = NewBulk::new(Filter::default().queue("mail"), BulkChange::Cancel);
/// let started = bulks.start(all).await?;
/// let done = bulks.run(&started.id, |_| {}).await?;
/// assert_eq!((done.total, done.changed), (3, 3));
/// # Ok::<(), windlass_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Bulks {
    engine: Arc<dyn Engine>,
    /// The name under which this process holds operations.
    holder: String,
}

impl fmt::Debug for Bulks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bulks")
    }
}

/// An operation and the version of its record.
pub(super) type Versioned = (Bulk, u64);

impl Bulks {
    /// The bulk operations of this store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, holder: format!("{:032x}", SystemRandom.next_u128()) }
    }

    /// Starts an operation. A service continues it, or [`run`](Self::run) does in this process.
    pub async fn start(&self, new: NewBulk) -> Result<Bulk> {
        new.filter.check()?;
        check_text("by", &new.by, NAME_BYTES_MAX)?;
        let now = self.engine.health().await?.now;
        new.change.check(now)?;
        self.make_room().await?;
        let bulk = Bulk {
            id: JobId::new(now, &SystemRandom).to_string(),
            filter: new.filter,
            change: new.change,
            dry_run: new.dry_run,
            by: new.by,
            begun: now,
            ended: None,
            state: BulkState::Counting,
            total: 0,
            changed: 0,
            refused: 0,
            error: None,
            examined: 0,
            after: None,
            held: None,
        };
        self.write(&bulk, Expect::Absent, true).await?;
        Ok(bulk)
    }

    /// Returns an operation, if it exists.
    pub async fn get(&self, id: &str) -> Result<Option<Bulk>> {
        Ok(self.read(id).await?.0.map(|(bulk, _)| bulk))
    }

    /// All operations, the oldest first.
    pub async fn all(&self) -> Result<Vec<Bulk>> {
        Ok(self.records().await?.iter().filter_map(|it| decode(it).ok()).collect())
    }

    /// Cancels an operation: it changes no further jobs. An operation that has ended stays as it is.
    pub async fn cancel(&self, id: &str) -> Result<Bulk> {
        for _ in 0..CANCELS_MAX {
            let (found, now) = self.read(id).await?;
            let (mut bulk, version) = found.ok_or_else(|| unknown(id))?;
            if bulk.state.is_over() {
                return Ok(bulk);
            }
            bulk.state = BulkState::Cancelled;
            (bulk.ended, bulk.held) = (Some(now), None);
            match self.write(&bulk, Expect::Version(version), true).await {
                Ok(_) => return Ok(bulk),
                // The process that runs it has saved progress in between.
                Err(Error::VersionConflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let reason = format!("bulk operation {id} changes too quickly: try again");
        Err(Error::Unavailable { store: "the store".to_owned(), reason })
    }

    /// Runs an operation until it ends, or waits while another process runs it. Calls `progress` after every step.
    pub async fn run(&self, id: &str, mut progress: impl FnMut(&Bulk)) -> Result<Bulk> {
        loop {
            let (found, now) = self.read(id).await?;
            let (bulk, version) = found.ok_or_else(|| unknown(id))?;
            if bulk.state.is_over() {
                progress(&bulk);
                return Ok(bulk);
            }
            match self.advance((bulk, version), now).await? {
                Some(((bulk, _), _)) => progress(&bulk),
                None => sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Runs one step and saves it; returns also the number of jobs. `None` if another process runs the operation.
    pub(super) async fn advance(
        &self,
        (mut bulk, version): Versioned,
        now: Timestamp,
    ) -> Result<Option<(Versioned, u64)>> {
        if bulk.is_held_by_other(&self.holder, now) {
            return Ok(None);
        }
        // Hold it before the first change, so that a process that lost it stops at its next save.
        self.hold(&mut bulk, now);
        let Some(version) = self.save(&bulk, version).await? else { return Ok(None) };
        let count = bulk.step(&self.engine).await?;
        let saved = self.save(&bulk, version).await?;
        Ok(saved.map(|version| ((bulk, version), count)))
    }

    fn hold(&self, bulk: &mut Bulk, now: Timestamp) {
        bulk.held = Some(Held { holder: self.holder.clone(), until: now.plus(BULK_HOLD_MS) });
    }

    /// Saves progress; `None` if the record has changed since.
    async fn save(&self, bulk: &Bulk, version: u64) -> Result<Option<u64>> {
        match self.write(bulk, Expect::Version(version), false).await {
            Ok(version) => Ok(Some(version)),
            Err(Error::VersionConflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the record; `marked`: on behalf of a person.
    async fn write(&self, bulk: &Bulk, expect: Expect, marked: bool) -> Result<u64> {
        let put =
            RecordOp::Put { key: format!("{PREFIX}{}", bulk.id), value: encode(bulk)?, expect };
        let (key, value) = (CHANGES_KEY.to_owned(), Bytes::from_static(b"{}"));
        let marker = marked.then_some(RecordOp::Put { key, value, expect: Expect::Any });
        let batch = std::iter::once(put).chain(marker).collect();
        let answers = self.engine.records(batch).await?.value;
        match answers.into_iter().next() {
            Some(Ok(RecordReply::Written { version })) => Ok(version),
            Some(Err(error)) => Err(error),
            _ => Err(unexpected(&*self.engine)),
        }
    }

    pub(super) async fn read(&self, id: &str) -> Result<(Option<Versioned>, Timestamp)> {
        id.parse::<JobId>().map_err(|_| unknown(id))?;
        let found = get(&*self.engine, &format!("{PREFIX}{id}")).await?;
        let bulk = found.value.map(|record| Ok((decode(&record)?, record.version)));
        Ok((bulk.transpose()?, found.now))
    }

    async fn records(&self) -> Result<Vec<Record>> {
        Ok(list(&*self.engine, PREFIX, None, BULKS_MAX as u32).await?.value.rows)
    }

    /// The version of the change marker.
    pub(super) async fn revision(&self) -> Result<(u64, Timestamp)> {
        let marker = get(&*self.engine, CHANGES_KEY).await?;
        Ok((marker.value.map_or(0, |record| record.version), marker.now))
    }

    /// The operations that have not ended, the oldest first.
    pub(super) async fn unfinished(&self) -> Result<Vec<Versioned>> {
        let records = self.records().await?;
        let read = records.iter().filter_map(|it| Some((decode(it).ok()?, it.version)));
        Ok(read.filter(|(bulk, _)| !bulk.state.is_over()).collect())
    }

    /// Removes the oldest ended operation if there are as many as are kept.
    async fn make_room(&self) -> Result<()> {
        let all = self.all().await?;
        if all.len() < BULKS_MAX {
            return Ok(());
        }
        let Some(oldest) = all.into_iter().find(|bulk| bulk.state.is_over()) else {
            let expected = format!("{BULKS_MAX} operations are unfinished: cancel one, or wait");
            return Err(Error::invalid("bulk", BULKS_MAX, expected));
        };
        let key = format!("{PREFIX}{}", oldest.id);
        one(&*self.engine, RecordOp::Delete { key, expect: Expect::Any }).await.map(drop)
    }
}

fn decode(record: &Record) -> Result<Bulk> {
    serde_json::from_slice(&record.value).map_err(|error| Error::Corrupt {
        store: "the store".to_owned(),
        reason: format!("record {}: {error}", record.key),
    })
}

fn unknown(id: &str) -> Error {
    Error::missing("bulk operation", id, "`windlass bulk` and GET /v1/bulk list them")
}

/// The content of a record for the audit log.
pub(crate) fn shown(bytes: &[u8]) -> Value {
    let Ok(bulk) = serde_json::from_slice::<Bulk>(bytes) else { return Value::Null };
    json!({
        "change": bulk.change, "filter": bulk.filter, "dry_run": bulk.dry_run,
        "state": bulk.state, "changed": bulk.changed,
    })
}

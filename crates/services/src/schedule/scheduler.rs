//! Fires schedules that are due. It must not know how fires are computed, nor rely on being alone: the
//! ids of fires make ten schedulers fire once, and progress is saved by compare-and-set.

use super::schedules::{SCHEDULES_MAX, Schedules};
use super::stored::{CHANGES_KEY, PREFIX, ScheduleError, Stored, name};
use crate::board::ServiceName;
use crate::records::{encode, get, list, put};
use crate::service::{Again, Service, Step, Turn};
use metrics::counter;
use std::collections::BTreeMap;
use tracing::warn;
use windlass_core::engine::{Engine, Enqueue, Enqueued, Expect, Item, Record};
use windlass_core::policy::ScheduleDue;
use windlass_core::time::MINUTE_MS;
use windlass_core::{Error, Result, Timestamp};

/// Schedules fired in one step.
const SCHEDULES_STEP_MAX: usize = 100;
/// Fires of one schedule in one step.
const FIRES_STEP_MAX: usize = 100;
/// All schedules are read again after this time, in case a change was not told.
const RELOAD_MS: u64 = MINUTE_MS;
/// A fire that a full queue refused is tried again after this time.
const REFUSED_RETRY_MS: u64 = 2_000;
/// Characters kept of an error in the schedule's record.
const MESSAGE_CHARS_MAX: usize = 400;
/// Records read at once: they may be large.
const RELOAD_PAGE: u32 = 100;

/// The service that fires schedules.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// When each schedule is to be looked at.
    table: BTreeMap<String, Look>,
    /// The version of the record of changes when the table was read, and when that was.
    loaded: Option<(u64, Timestamp)>,
    /// The store's time at the latest step.
    seen: Option<Timestamp>,
}

/// When a schedule is to be looked at.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// The record's version for which this holds.
    version: u64,
    /// `None` while it is paused, when it is over, or while it cannot be read.
    next: Option<Timestamp>,
}

/// What a look at a schedule did.
struct Looked {
    look: Look,
    fires: u64,
}

impl Looked {
    const fn in_vain(version: u64, next: Option<Timestamp>) -> Self {
        Self { look: Look { version, next }, fires: 0 }
    }
}

/// What became of the fires of a schedule.
struct Fired {
    /// How many of them are decided, from the first on.
    decided: usize,
    /// How many of these were refused for good.
    refused: u64,
    /// Why the first that was refused was.
    error: Option<Error>,
}

impl Service for Scheduler {
    fn name(&self) -> ServiceName {
        ServiceName::Schedule
    }

    async fn step(&mut self, turn: Turn<'_>) -> Result<Step> {
        let changes = get(turn.engine, CHANGES_KEY).await?;
        let (version, now) = (changes.value.map_or(0, |record| record.version), changes.now);
        if self.seen.replace(now).is_some_and(|seen| now < seen) {
            // The store's clock went back: each schedule decides anew when it fires next.
            (self.table, self.loaded) = (BTreeMap::new(), None);
        }
        if self.is_stale(version, now) {
            self.reload(turn.engine, now).await?;
            self.loaded = Some((version, now));
        }
        let mut items = 0;
        for key in self.due(now) {
            items += self.look(turn.engine, key).await?;
        }
        let again = match self.table.values().filter_map(|look| look.next).min() {
            Some(next) if next <= now => Again::Now,
            Some(next) => Again::After(next.since(now)),
            None => Again::Idle,
        };
        Ok(Step { now, items, again })
    }
}

impl Schedules {
    /// Fires what all schedules owe now, as the service does at its own pace, and says when the next fire
    /// is due: for tests that move the clock. Safe beside any number of services.
    pub async fn fire_due(&self) -> Result<Option<Timestamp>> {
        let mut scheduler = Scheduler::default();
        loop {
            // No term is needed: fires are fenced by their ids.
            let step = scheduler.step(Turn { engine: &*self.engine, term: 0 }).await?;
            match step.again {
                Again::Now => {}
                Again::After(ms) => return Ok(Some(step.now.plus(ms))),
                Again::Idle | Again::Rested => return Ok(None),
            }
        }
    }
}

impl Scheduler {
    /// Whether the table must be read again.
    fn is_stale(&self, version: u64, now: Timestamp) -> bool {
        self.loaded.is_none_or(|(seen, at)| seen != version || now.since(at) > RELOAD_MS)
    }

    /// The schedules to look at now, those that wait longest first.
    fn due(&self, now: Timestamp) -> Vec<String> {
        let next = self.table.iter().filter_map(|(key, look)| Some((look.next?, key)));
        let mut due: Vec<_> = next.filter(|(next, _)| *next <= now).collect();
        due.sort_unstable();
        due.into_iter().take(SCHEDULES_STEP_MAX).map(|(_, key)| key.clone()).collect()
    }

    /// Reads all schedules; those that are new or changed are to be looked at now.
    async fn reload(&mut self, engine: &dyn Engine, now: Timestamp) -> Result<()> {
        let (mut table, mut after) = (BTreeMap::new(), None);
        loop {
            let page = list(engine, PREFIX, after, RELOAD_PAGE).await?.value;
            for Record { key, version, .. } in page.rows {
                let known = self.table.get(&key).filter(|look| look.version == version);
                let look = known.copied().unwrap_or(Look { version, next: Some(now) });
                table.insert(key, look);
            }
            after = page.next;
            if after.is_none() || table.len() >= SCHEDULES_MAX {
                break;
            }
        }
        self.table = table;
        Ok(())
    }

    /// Fires what a schedule owes; says how many fires that were.
    async fn look(&mut self, engine: &dyn Engine, key: String) -> Result<u64> {
        let seen = get(engine, &key).await?;
        let Some(record) = seen.value else {
            self.table.remove(&key);
            return Ok(0);
        };
        let looked = fire(engine, &record, seen.now).await?;
        self.table.insert(key, looked.look);
        Ok(looked.fires)
    }
}

/// Fires what a schedule owes at `now`. Fails only when the store does: what is wrong with a schedule
/// is noted in it, and harms no other.
async fn fire(engine: &dyn Engine, record: &Record, now: Timestamp) -> Result<Looked> {
    let mut stored = match Stored::read(record) {
        Ok(stored) if stored.paused => return Ok(Looked::in_vain(record.version, None)),
        Ok(stored) => stored,
        Err(error) => {
            warn!(schedule = name(&record.key), %error, "a schedule is passed over");
            return Ok(Looked::in_vain(record.version, None));
        }
    };
    let due = match stored.schedule.due(stored.progress, now) {
        Ok(due) if due.fires.is_empty() && due.progress == stored.progress => {
            return Ok(Looked::in_vain(record.version, due.next));
        }
        Ok(due) if due.fires.is_empty() => {
            // It started over because the store's clock went back: from when on must be remembered.
            stored.progress = due.progress;
            let version = save(engine, record, &stored).await?;
            return Ok(Looked::in_vain(version, due.next));
        }
        Ok(due) => due,
        Err(error) => {
            note(&mut stored, record, &error, now);
            let version = save(engine, record, &stored).await?;
            return Ok(Looked::in_vain(version, None));
        }
    };
    let fires = &due.fires[..due.fires.len().min(FIRES_STEP_MAX)];
    let fired = enqueue(engine, &stored, record, &due, fires).await?;
    let decided = &fires[..fired.decided];
    stored.advance(stored.schedule.advanced(due.from, decided)?, decided, fired.refused);
    match &fired.error {
        Some(error) => note(&mut stored, record, error, now),
        None => stored.last_error = None,
    }
    let version = save(engine, record, &stored).await?;
    let fires_given = decided.len() as u64;
    counter!("windlass_schedule_fires_total").increment(fires_given - fired.refused);
    let next = match decided.len() {
        all if all == due.fires.len() => due.next,
        all if all == fires.len() => Some(now),
        _ => Some(now.plus(REFUSED_RETRY_MS)),
    };
    Ok(Looked { look: Look { version, next }, fires: fires_given })
}

async fn enqueue(
    engine: &dyn Engine,
    stored: &Stored,
    record: &Record,
    due: &ScheduleDue,
    fires: &[Timestamp],
) -> Result<Fired> {
    let name = name(&record.key);
    let template = stored.job.job();
    let jobs = fires.iter().map(|at| template.clone().derived_id(due.from.fire_id(name, *at)));
    match engine.enqueue(Enqueue::each(jobs)).await {
        Ok(answer) => Ok(judge(answer.value)),
        Err(error @ (Error::Unavailable { .. } | Error::Busy { .. } | Error::StoreFull { .. })) => {
            Err(error)
        }
        // Not the store's fault: it would be the same next time, and hold the others up.
        Err(error) => {
            let decided = fires.len();
            Ok(Fired { decided, refused: decided as u64, error: Some(error) })
        }
    }
}

/// What became of fires, by the answers to their jobs. A full queue or a busy store is not the last word:
/// the fire stays owed, and what becomes of it when it takes too long is for the schedule's policy on
/// missed fires. Any other refusal would be repeated for ever: that fire is passed over.
fn judge(answers: Vec<Item<Enqueued>>) -> Fired {
    let mut fired = Fired { decided: 0, refused: 0, error: None };
    for answer in answers {
        if let Err(error) = answer {
            let later = matches!(error, Error::QueueFull { .. } | Error::Busy { .. });
            fired.refused += u64::from(!later);
            fired.error.get_or_insert(error);
            if later {
                break;
            }
        }
        fired.decided += 1;
    }
    fired
}

fn note(stored: &mut Stored, record: &Record, error: &Error, now: Timestamp) {
    let message: String = error.to_string().chars().take(MESSAGE_CHARS_MAX).collect();
    if stored.last_error.as_ref().is_none_or(|last| last.message != message) {
        warn!(schedule = name(&record.key), error = message, "a schedule cannot fire");
    }
    counter!("windlass_schedule_errors_total").increment(1);
    stored.last_error = Some(ScheduleError { at: now, message });
}

/// Saves how far a schedule got, unless somebody else wrote meanwhile: another scheduler that fired
/// the same, or a person, whose change counts from the next look on. Answers the version saved, 0 if
/// it is not known.
async fn save(engine: &dyn Engine, record: &Record, stored: &Stored) -> Result<u64> {
    let value = encode(stored)?;
    match put(engine, &record.key, value, Expect::Version(record.version)).await {
        Ok(written) => Ok(written.value),
        Err(Error::VersionConflict { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

//! Fires due schedules. Does not compute fire times. Safe beside other schedulers: fires have deterministic
//! job ids, so ten schedulers enqueue each fire once, and progress is saved by compare-and-set.

use super::schedules::{SCHEDULES_MAX, Schedules};
use super::stored::{CHANGES_KEY, PREFIX, ScheduleError, Stored, name};
use crate::board::ServiceName;
use crate::records::{encode, get, list, put};
use crate::service::{NextRun, Service, Step, StepContext};
use metrics::counter;
use std::collections::{BTreeMap, HashMap};
use tracing::warn;
use windlass_core::engine::{Engine, Enqueue, Enqueued, Expect, Get, Item, Record};
use windlass_core::model::Job;
use windlass_core::policy::{ScheduleDue, Timing};
use windlass_core::time::MINUTE_MS;
use windlass_core::{Error, JobId, Result, Timestamp};

/// Maximum number of schedules fired per step.
const SCHEDULES_STEP_MAX: usize = 100;
/// Maximum number of fires of one schedule per step.
const FIRES_STEP_MAX: usize = 100;
/// All schedules are reloaded after this time, in case a change marker was missed.
const RELOAD_MS: u64 = MINUTE_MS;
/// Retry delay of a fire that a full queue refused.
const REFUSED_RETRY_MS: u64 = 2_000;
/// Minimum interval between reads of the jobs whose end is awaited. Shorter than the interval of the service, so that
/// only steps between two intervals skip the read.
const LOOK_MS: u64 = 500;
/// Maximum characters of an error in the schedule's record.
const MESSAGE_CHARS_MAX: usize = 400;
/// Records read per call, because they may be large.
const RELOAD_PAGE: u32 = 100;

/// The service that fires schedules.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// When to check each schedule.
    table: BTreeMap<String, Check>,
    /// The version of the change marker when the table was read, and the time of reading.
    loaded: Option<(u64, Timestamp)>,
    /// The store's time at the latest step.
    seen: Option<Timestamp>,
    /// When the awaited jobs were last read.
    looked: Option<Timestamp>,
}

/// When to check a schedule.
#[derive(Clone, Copy, Debug)]
struct Check {
    /// The record version that this is based on.
    version: u64,
    /// `None` while the schedule is paused, over, or unreadable, or awaits the end of a job.
    next: Option<Timestamp>,
    /// The job whose end is awaited.
    awaits: Option<Awaited>,
}

impl Check {
    const fn at(version: u64, next: Option<Timestamp>) -> Self {
        Self { version, next, awaits: None }
    }
}

/// A job whose end is awaited.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    id: JobId,
    /// When it ended, or was found to be gone.
    ended: Option<Timestamp>,
}

/// The result of checking a schedule.
struct Checked {
    check: Check,
    fires: u64,
}

impl Checked {
    const fn in_vain(version: u64, next: Option<Timestamp>) -> Self {
        Self { check: Check::at(version, next), fires: 0 }
    }

    /// Waits for the job that the schedule awaits, if any.
    fn awaiting(mut self, id: Option<JobId>) -> Self {
        self.check.awaits = id.map(|id| Awaited { id, ended: None });
        self
    }
}

/// The results of the fires of a schedule.
struct Fired {
    /// Number of fires that are decided, from the first on.
    decided: usize,
    /// Number of them that were refused permanently.
    refused: u64,
    /// The job of the latest fire.
    job: Option<JobId>,
    /// The error of the first refusal.
    error: Option<Error>,
}

impl Service for Scheduler {
    fn name(&self) -> ServiceName {
        ServiceName::Schedule
    }

    async fn step(&mut self, context: StepContext<'_>) -> Result<Step> {
        let changes = get(context.engine, CHANGES_KEY).await?;
        let (version, now) = (changes.value.map_or(0, |record| record.version), changes.now);
        if self.seen.replace(now).is_some_and(|seen| now < seen) {
            // The store's clock went back: recompute the next fire of every schedule.
            (self.table, self.loaded, self.looked) = (BTreeMap::new(), None, None);
        }
        if self.is_stale(version, now) {
            self.reload(context.engine, now).await?;
            self.loaded = Some((version, now));
        }
        let mut items = 0;
        for key in self.due(now) {
            items += self.check(context.engine, key).await?;
        }
        self.look(context.engine, now).await?;
        let again = match self.table.values().filter_map(|check| check.next).min() {
            Some(next) if next <= now => NextRun::Now,
            Some(next) => NextRun::After(next.since(now)),
            None => NextRun::Idle,
        };
        Ok(Step { now, items, again })
    }
}

impl Schedules {
    /// Fires everything that all schedules owe now, as the service does at its own interval, and returns when
    /// the next fire is due. For tests that move the clock. Safe beside any number of services.
    pub async fn fire_due(&self) -> Result<Option<Timestamp>> {
        let mut scheduler = Scheduler::default();
        loop {
            let step = scheduler.step(StepContext { engine: &*self.engine }).await?;
            match step.again {
                NextRun::Now => {}
                NextRun::After(ms) => return Ok(Some(step.now.plus(ms))),
                NextRun::Idle | NextRun::Rested => return Ok(None),
            }
        }
    }
}

impl Scheduler {
    /// Whether the table must be reloaded.
    fn is_stale(&self, version: u64, now: Timestamp) -> bool {
        self.loaded.is_none_or(|(seen, at)| seen != version || now.since(at) > RELOAD_MS)
    }

    /// The schedules to check now, longest overdue first.
    fn due(&self, now: Timestamp) -> Vec<String> {
        let next = self.table.iter().filter_map(|(key, check)| Some((check.next?, key)));
        let mut due: Vec<_> = next.filter(|(next, _)| *next <= now).collect();
        due.sort_unstable();
        due.into_iter().take(SCHEDULES_STEP_MAX).map(|(_, key)| key.clone()).collect()
    }

    /// Reloads all schedules; new and changed ones are checked now.
    async fn reload(&mut self, engine: &dyn Engine, now: Timestamp) -> Result<()> {
        let (mut table, mut after) = (BTreeMap::new(), None);
        loop {
            let page = list(engine, PREFIX, after, RELOAD_PAGE).await?.value;
            for Record { key, version, .. } in page.rows {
                let known = self.table.get(&key).filter(|check| check.version == version);
                let check = known.copied().unwrap_or(Check::at(version, Some(now)));
                table.insert(key, check);
            }
            after = page.next;
            if after.is_none() || table.len() >= SCHEDULES_MAX {
                break;
            }
        }
        self.table = table;
        Ok(())
    }

    /// Reads all awaited jobs in one call; the schedules of those that have ended or are gone are checked next.
    async fn look(&mut self, engine: &dyn Engine, now: Timestamp) -> Result<()> {
        let awaited = self.table.values_mut().filter_map(|check| match check.awaits.as_mut() {
            Some(awaited) if awaited.ended.is_none() => Some((&mut check.next, awaited)),
            _ => None,
        });
        let awaited: Vec<_> = awaited.collect();
        if awaited.is_empty() || self.looked.is_some_and(|at| now.since(at) < LOOK_MS) {
            return Ok(());
        }
        let mut ids: Vec<JobId> = awaited.iter().map(|(_, awaited)| awaited.id).collect();
        ids.sort_unstable();
        // Several schedules await one job if its unique key is theirs.
        ids.dedup();
        let found = engine.get(Get::new(ids)).await?;
        let jobs = found.value.into_iter().flatten().map(|job| (job.header.id, job));
        let jobs: HashMap<JobId, Job> = jobs.collect();
        for (next, awaited) in awaited {
            awaited.ended = match jobs.get(&awaited.id) {
                Some(job) if !job.state.is_terminal() => continue,
                Some(job) => Some(job.finished_at.unwrap_or(job.changed_at)),
                // Removed by retention or discarded.
                None => Some(found.now),
            };
            *next = Some(now);
        }
        self.looked = Some(now);
        Ok(())
    }

    /// Fires everything that a schedule owes; returns the number of fires.
    async fn check(&mut self, engine: &dyn Engine, key: String) -> Result<u64> {
        let seen = get(engine, &key).await?;
        let Some(record) = seen.value else {
            self.table.remove(&key);
            return Ok(0);
        };
        let awaited = self.table.get(&key).and_then(|check| check.awaits);
        let checked = fire(engine, &record, awaited, seen.now).await?;
        self.table.insert(key, checked.check);
        Ok(checked.fires)
    }
}

/// Fires everything that a schedule owes at `now`. Fails only if the store does: errors of a schedule are
/// recorded in it and do not affect others.
async fn fire(
    engine: &dyn Engine,
    record: &Record,
    awaited: Option<Awaited>,
    now: Timestamp,
) -> Result<Checked> {
    let mut stored = match Stored::read(record) {
        Ok(stored) if stored.paused => return Ok(Checked::in_vain(record.version, None)),
        Ok(stored) => stored,
        Err(error) => {
            warn!(schedule = name(&record.key), %error, "skipping a schedule with an error");
            return Ok(Checked::in_vain(record.version, None));
        }
    };
    if let Some(Awaited { id, ended: Some(ended) }) = awaited
        && stored.awaits() == Some(id)
    {
        // Saved before anything fires: the next fire has one time, whichever scheduler noticed the end.
        stored.progress = stored.progress.after_end(ended);
        let version = save(engine, record, &stored).await?;
        return Ok(Checked::in_vain(version, Some(now)));
    }
    let due = match stored.schedule.due(stored.progress, now) {
        Ok(due) if due.fires.is_empty() && due.progress == stored.progress => {
            return Ok(Checked::in_vain(record.version, due.next).awaiting(due.awaits));
        }
        Ok(due) if due.fires.is_empty() => {
            // It started over because the store's clock went back: its new start must be saved.
            stored.progress = due.progress;
            let version = save(engine, record, &stored).await?;
            return Ok(Checked::in_vain(version, due.next).awaiting(due.awaits));
        }
        Ok(due) => due,
        Err(error) => {
            note(&mut stored, record, &error, now);
            let version = save(engine, record, &stored).await?;
            return Ok(Checked::in_vain(version, None));
        }
    };
    let fires = &due.fires[..due.fires.len().min(FIRES_STEP_MAX)];
    let fired = enqueue(engine, &stored, record, &due, fires).await?;
    let decided = &fires[..fired.decided];
    let mut progress = stored.schedule.advanced(due.from, decided)?;
    if matches!(stored.schedule.timing, Timing::AfterCompletion { .. }) {
        progress.awaits = fired.job;
    }
    stored.advance(progress, decided, fired.refused);
    match &fired.error {
        Some(error) => note(&mut stored, record, error, now),
        None => stored.last_error = None,
    }
    let version = save(engine, record, &stored).await?;
    let fires_given = decided.len() as u64;
    counter!("windlass_schedule_fires_total").increment(fires_given - fired.refused);
    let next = match decided.len() {
        // The check of the saved progress says whether its job is still to be awaited.
        _ if stored.awaits().is_some() => Some(now),
        all if all == due.fires.len() => due.next,
        all if all == fires.len() => Some(now),
        _ => Some(now.plus(REFUSED_RETRY_MS)),
    };
    Ok(Checked { check: Check::at(version, next), fires: fires_given })
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
        Ok(answer) => Ok(count_fires(answer.value)),
        Err(error @ (Error::Unavailable { .. } | Error::Busy { .. } | Error::StoreFull { .. })) => {
            Err(error)
        }
        // Not an outage: the same error would recur and delay the other schedules.
        Err(error) => {
            let decided = fires.len();
            Ok(Fired { decided, refused: decided as u64, job: None, error: Some(error) })
        }
    }
}

/// Decides fires by the replies to their enqueues. A full queue or a busy store is temporary: the fire stays
/// owed, and the schedule's policy for missed runs applies if it takes too long. Any other refusal would
/// recur forever, so the fire is skipped.
fn count_fires(answers: Vec<Item<Enqueued>>) -> Fired {
    let mut fired = Fired { decided: 0, refused: 0, job: None, error: None };
    for answer in answers {
        match answer {
            Ok(enqueued) => fired.job = Some(enqueued.id),
            Err(error) => {
                let later = matches!(error, Error::QueueFull { .. } | Error::Busy { .. });
                fired.refused += u64::from(!later);
                fired.error.get_or_insert(error);
                if later {
                    break;
                }
            }
        }
        fired.decided += 1;
    }
    fired
}

fn note(stored: &mut Stored, record: &Record, error: &Error, now: Timestamp) {
    let message: String = error.to_string().chars().take(MESSAGE_CHARS_MAX).collect();
    if stored.last_error.as_ref().is_none_or(|last| last.message != message) {
        warn!(schedule = name(&record.key), error = message, "schedule cannot fire");
    }
    counter!("windlass_schedule_errors_total").increment(1);
    stored.last_error = Some(ScheduleError { at: now, message });
}

/// Saves the progress of a schedule by compare-and-set. A concurrent write wins: another scheduler made the
/// same fires, or a person changed the schedule, which takes effect at the next check. Returns the saved
/// version, 0 if unknown.
async fn save(engine: &dyn Engine, record: &Record, stored: &Stored) -> Result<u64> {
    let value = encode(stored)?;
    match put(engine, &record.key, value, Expect::Version(record.version)).await {
        Ok(written) => Ok(written.value),
        Err(Error::VersionConflict { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

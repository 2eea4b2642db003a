//! Steps: parts of a handler that run once per job, however often the handler runs.
//!
//! A handler with steps runs from the top in every attempt. Steps that have finished return their recorded results, so
//! it continues where it was. A step that waits ends the attempt: the job holds no slot, no lease and no limit meanwhile.

use crate::ctx::Ctx;
use crate::stop::{Stop, code};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass_core::engine::{Outcome, UpdateItem};
use windlass_core::limits::{BACKOFF_MAX_MS, FOLLOW_UPS_MAX};
use windlass_core::model::{Input, Join, NewJob, Signal, SignalWait, Step, StepKind, Wake};
use windlass_core::{Error, check_name};

/// The result of a step that created children: where they are among the job's inputs.
#[derive(Serialize, Deserialize)]
struct Children {
    from: usize,
    count: usize,
}

/// Steps.
impl Ctx {
    /// Runs code once per job: stores its result before it continues, and returns the stored result in later attempts.
    ///
    /// If the process dies between the end of the code and the storing of its result, the code runs again: what it does
    /// elsewhere must bear that, for example by an idempotency key made of the job's id and the step's name. Steps are found
    /// by name, so a changed handler may add, remove and reorder them. A name that is used for another type makes the job
    /// dead, with the code `step_mismatch`. Results take at most 64 KiB of JSON each and 512 KiB in all.
    ///
    /// ```
    /// use windlass_worker::{Ctx, Json, Stop};
    ///
    /// async fn order(Json(cents): Json<u64>, ctx: Ctx) -> Result<String, Stop> {
    ///     let charge: String = ctx.step("charge", async || Ok(format!("ch-{cents}"))).await?;
    ///     let parcel: String = ctx.step("ship", async || Ok(format!("parcel for {charge}"))).await?;
    ///     Ok(parcel)
    /// }
    /// ```
    pub async fn step<T, F>(&self, name: &str, run: impl FnOnce() -> F) -> Result<T, Stop>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, Stop>>,
    {
        if let Some(step) = self.recorded(name, StepKind::Run).await? {
            return read(&step);
        }
        let value = run().await?;
        let step = write(name, StepKind::Run, &value)?;
        self.record(step).await?;
        Ok(value)
    }

    /// Waits for a time without occupying a slot, once per job.
    ///
    /// Ends the attempt with an error that must be passed on with `?`; the handler runs again from the top after the time.
    /// An operator who promotes or replays the job ends the wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_worker::{Ctx, Stop};
    ///
    /// async fn trial(ctx: Ctx) -> Result<&'static str, Stop> {
    ///     ctx.sleep("trial period", Duration::from_secs(14 * 86_400)).await?;
    ///     Ok("the trial is over")
    /// }
    /// ```
    pub async fn sleep(&self, name: &str, time: Duration) -> Result<(), Stop> {
        if self.recorded(name, StepKind::Sleep).await?.is_some() {
            return Ok(());
        }
        let delay_ms = bounded_ms(name, time)?;
        let step = Step::new(name, StepKind::Sleep);
        Err(Stop::suspend(Outcome::Snooze { delay_ms }, Some(step), Vec::new()))
    }

    /// Waits for a signal with this name without occupying a slot; `None` if the time ran out. A signal that arrived before
    /// is taken at once. Its name is the name of the step, so wait for it once.
    ///
    /// Ends the attempt with an error that must be passed on with `?`; the handler runs again from the top.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_worker::{Ctx, Stop};
    ///
    /// async fn expense(ctx: Ctx) -> Result<&'static str, Stop> {
    ///     let three_days = Duration::from_secs(3 * 86_400);
    ///     match ctx.signal("approved", three_days).await? {
    ///         Some(_) => Ok("paid"),
    ///         None => Err(Stop::cancel("no approval in time")),
    ///     }
    /// }
    /// ```
    pub async fn signal(
        &self,
        name: &str,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<Signal>, Stop> {
        if let Some(step) = self.recorded(name, StepKind::Signal).await? {
            return read(&step);
        }
        let mut wait = SignalWait::for_signals([name]);
        wait.timeout_ms = timeout.into().map(|time| bounded_ms(name, time)).transpose()?;
        let arrived = match self.remembered(|remembered| remembered.wake.clone()).await? {
            Some(Wake::Signal(signal)) if &*signal.name == name => Some(signal),
            Some(Wake::TimedOut(names)) if matches!(&*names, [only] if &**only == name) => None,
            // It has not waited for this signal yet.
            _ => return Err(Stop::suspend(Outcome::Wait(wait), None, Vec::new())),
        };
        self.record(write(name, StepKind::Signal, &arrived)?).await?;
        Ok(arrived)
    }

    /// Creates jobs and waits for them without occupying a slot, once per job; returns how they ended, with their results,
    /// in their order. A child that fails does not end this job, unless its [`NewJob::joins`] says so.
    ///
    /// Ends the attempt with an error that must be passed on with `?`; the handler runs again from the top.
    ///
    /// ```
    /// use windlass_core::model::NewJob;
    /// use windlass_worker::{Ctx, Stop};
    ///
    /// async fn album(ctx: Ctx) -> Result<usize, Stop> {
    ///     let pages = (0..3).map(|page| NewJob::new("render_page").json(page.to_string()));
    ///     let rendered = ctx.children("pages", pages).await?;
    ///     Ok(rendered.iter().filter(|page| page.result.is_some()).count())
    /// }
    /// ```
    pub async fn children(
        &self,
        name: &str,
        jobs: impl IntoIterator<Item = NewJob>,
    ) -> Result<Vec<Input>, Stop> {
        if let Some(step) = self.recorded(name, StepKind::Children).await? {
            let Children { from, count } = read(&step)?;
            let inputs = self.inputs().await?;
            return Ok(inputs.into_iter().skip(from).take(count).collect());
        }
        let child = |mut job: NewJob| {
            job.joins.get_or_insert(Join::SELF).to = None;
            job
        };
        let children: Vec<NewJob> = jobs.into_iter().map(child).collect();
        if children.len() > FOLLOW_UPS_MAX {
            let count = children.len();
            return Err(Stop::fatal(format!(
                "step {name:?} has {count} children, the limit is {FOLLOW_UPS_MAX}: let children create some of them"
            )));
        }
        let from = self.inputs().await?.len();
        let step = write(name, StepKind::Children, &Children { from, count: children.len() })?;
        Err(Stop::suspend(Outcome::WaitForJobs, Some(step), children))
    }

    /// The recorded step with this name. One of another kind is a mistake of the handler.
    async fn recorded(&self, name: &str, kind: StepKind) -> Result<Option<Step>, Stop> {
        check_name("step", name).map_err(|error| Stop::fatal(error).code(code::STEP_MISMATCH))?;
        let found = |step: &&Step| &*step.name == name;
        let step = self.remembered(|known| known.steps.iter().find(found).cloned()).await?;
        match step {
            Some(step) if step.kind != kind => {
                Err(mismatch(&step, &format!("now it is of kind {kind}")))
            }
            step => Ok(step),
        }
    }

    /// Reads what the job remembers; fetched from the store once per attempt, and never in the first.
    async fn remembered<T>(
        &self,
        read: impl Fn(&windlass_core::model::Continuation) -> T,
    ) -> Result<T, Stop> {
        let known = || self.running().draft(|draft| draft.remembered.as_ref().map(&read));
        if let Some(value) = known() {
            return Ok(value);
        }
        let fetched = match self.attempt() {
            1 => None,
            _ => self.update(UpdateItem::recall).await?.continuation,
        };
        let fetched = fetched.map(|kept| *kept).unwrap_or_default();
        Ok(self.running().draft(|draft| read(draft.remembered.get_or_insert(fetched))))
    }

    /// Stores a step. Once this returns, it does not run again.
    async fn record(&self, step: Step) -> Result<(), Stop> {
        let stored = self.update(|item| item.step(step.clone())).await;
        match stored {
            Ok(_) => {}
            Err(error @ (Error::Invalid { .. } | Error::TooLarge { .. })) => {
                return Err(Stop::fatal(error).code(code::STEP_MISMATCH));
            }
            Err(error) => return Err(error.into()),
        }
        self.running().draft(|draft| {
            draft.remembered.get_or_insert_default().record(std::slice::from_ref(&step));
        });
        Ok(())
    }
}

fn bounded_ms(name: &str, time: Duration) -> Result<u64, Stop> {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if ms > BACKOFF_MAX_MS {
        return Err(Stop::fatal(format!("step {name:?} waits for {time:?}: wait at most a year")));
    }
    Ok(ms)
}

fn write(name: &str, kind: StepKind, value: &impl Serialize) -> Result<Step, Stop> {
    let text = serde_json::to_string(value).map_err(|error| {
        Stop::fatal(format!("the result of step {name:?} cannot be written as JSON: {error}"))
            .code(code::UNSTORABLE_RESULT)
    })?;
    Ok(Step::new(name, kind).json(text))
}

fn read<T: DeserializeOwned>(step: &Step) -> Result<T, Stop> {
    let text = step.result.as_deref().unwrap_or("null");
    let expected = std::any::type_name::<T>();
    serde_json::from_str(text)
        .map_err(|error| mismatch(step, &format!("its result is not a {expected}: {error}")))
}

/// The job must not run on with a wrong result: it is dead, and visible.
fn mismatch(step: &Step, what: &str) -> Stop {
    let Step { name, kind, .. } = step;
    let way_out = "give the new step another name, or replay the job without its checkpoint, which forgets its steps";
    Stop::fatal(format!("step {name:?} was recorded with kind {kind}; {what}: {way_out}"))
        .code(code::STEP_MISMATCH)
}

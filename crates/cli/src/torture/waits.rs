//! Handlers that wait, in runs with graphs: for children that they create, and for signals that operators send. Both check
//! what they find when they run again.

use super::stage::Stage;
use super::{BACKOFF, FOLLOW_UP};
use std::sync::Arc;
use windlass_core::engine::Change;
use windlass_core::model::{NewJob, Signal, SignalWait, Wake};
use windlass_core::random::Random;
use windlass_core::{JobId, Result};
use windlass_worker::{Ctx, Stop};

/// The signal that handlers wait for.
const SIGNAL: &str = "go";
/// Maximum time that they wait for it, so that a run ends without operators.
const WAIT_MAX_MS: u64 = 1_500;
/// Maximum number of children of an attempt.
const CHILDREN_MAX: u64 = 5;

/// Creates children and waits for them.
pub(super) fn for_children(ctx: &Ctx, stage: &Stage, random: &dyn Random) -> Result<Stop> {
    for _ in 0..=random.below(CHILDREN_MAX) {
        let child = NewJob::new(FOLLOW_UP).queue(stage.spec.queue.clone()).backoff(BACKOFF);
        ctx.child(child)?;
    }
    Ok(Stop::wait_for_children())
}

/// Waits for a signal, for a short time.
pub(super) fn for_signal(random: &dyn Random) -> Stop {
    let wait = SignalWait::for_signals([SIGNAL]);
    Stop::wait_for(wait.timeout_ms(1 + random.below(WAIT_MAX_MS)))
}

/// A signal to this job, which says so.
pub(super) fn signal_to(id: JobId, random: &dyn Random) -> Change {
    let signal = Signal::new(SIGNAL).json(format!("\"{id}\""));
    signal.id(random.below(u64::MAX).to_string()).into()
}

/// Checks that all jobs before this one have ended, and that the signal that it got was sent to it.
pub(super) async fn check(ctx: &Ctx, stage: &Arc<Stage>) -> Result<()> {
    for input in ctx.inputs().await? {
        if input.outcome.is_none() {
            let (id, upstream) = (ctx.id(), input.job);
            stage.bad("start", format!("job {id} runs although {upstream} has not ended"));
        }
    }
    if let Some(Wake::Signal(signal)) = ctx.wake().await?
        && signal.payload != Some(format!("\"{}\"", ctx.id()))
    {
        stage.bad("signal", format!("job {} got {signal:?}", ctx.id()));
    }
    Ok(())
}

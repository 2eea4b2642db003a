//! Explains why a job is not running. An engine knows that a kind has no permits; the record of the kind's circuit
//! breaker says since when, and when the next probe starts.

use crate::breaker::Breakers;
use std::sync::Arc;
use windlass_core::engine::{CauseCode, Engine, Explanation, Stamped};
use windlass_core::policy::Breaker;
use windlass_core::{Error, JobId, Result};

/// Explains why a job is not running, including the circuit breaker of its kind.
///
/// ```
/// # use std::sync::Arc;
/// # use windlass_core::engine::{CauseCode, Engine, Enqueue};
/// # use windlass_core::model::NewJob;
/// # use windlass_memory::MemoryEngine;
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
/// # let stored = engine.enqueue(Enqueue::each([NewJob::new("hello")])).await?.value.remove(0)?;
/// let why = windlass_services::explain(&engine, stored.id).await?.value;
/// assert_eq!(why.causes[0].code, CauseCode::NoWorker);
/// # Ok::<(), windlass_core::Error>(())
/// # }).unwrap();
/// ```
pub async fn explain(engine: &Arc<dyn Engine>, id: JobId) -> Result<Stamped<Explanation>> {
    let mut why = engine.why(id).await?;
    let Explanation { kind, causes, .. } = &mut why.value;
    let Some(cause) = causes.iter_mut().find(|cause| cause.code == CauseCode::Permits) else {
        return Ok(why);
    };
    let breaker = match Breakers::new(Arc::clone(engine)).get(kind).await {
        // A server has added the breaker for keys that may not read records. The service reports unreadable records.
        Err(Error::Forbidden { .. } | Error::Corrupt { .. }) => None,
        breaker => breaker?,
    };
    let (since, until) = match breaker {
        Some(Breaker::Open { since, next_probe_at }) => (since, next_probe_at),
        Some(Breaker::Probing { since, until }) => (since, until),
        _ => return Ok(why),
    };
    cause.code = CauseCode::BreakerOpen;
    (cause.since, cause.until) = (Some(since), Some(until));
    Ok(why)
}

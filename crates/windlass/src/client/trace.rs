//! Trace propagation (feature `otel`): jobs inherit the trace context of the span that enqueues them.

use windlass_core::model::NewJob;

/// Sets the current span's trace context on jobs that have none.
#[cfg(feature = "otel")]
pub(super) fn hand_on(jobs: &mut [NewJob]) {
    if jobs.iter().all(|job| job.trace.is_some()) {
        return;
    }
    let Some(current) = windlass_traces::current() else { return };
    for job in jobs {
        job.trace.get_or_insert_with(|| current.clone());
    }
}

#[cfg(not(feature = "otel"))]
pub(super) const fn hand_on(_: &mut [NewJob]) {}

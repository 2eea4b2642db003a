//! Enqueues and changes jobs.

use super::{job_id, merged, only, take_out};
use crate::access::Who;
use crate::admit::Principal;
use crate::app::App;
use crate::beside::on_items;
use crate::body::{Json, Path};
use crate::idempotency::IdempotencyKey;
use crate::openapi::tag;
use crate::reply::{Reply, stamped, stamped_with};
use crate::traces::Trace;
use axum::extract::State;
use http::StatusCode;
use windlass_core::engine::{self, Admin as _, Mode};
use windlass_core::model;
use windlass_core::policy::Pacer;
use windlass_core::{Error, Result};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Enqueue one job
///
/// Only `kind` is required. The job is durable once the reply is sent.
#[utoipa::path(
    post, path = paths::JOBS, tag = tag::JOBS, operation_id = "enqueue_job",
    params(wire::openapi::TraceHeaders, wire::openapi::IdempotencyHeaders),
    request_body = wire::NewJob,
    responses(
        (status = 201, body = wire::Enqueued, description = "Stored."),
        (status = 200, body = wire::Enqueued, description = "The job exists already, or was throttled."),
        (status = 409, description = "Its unique key is held by another job, and its conflict policy is `reject`."),
        (status = 429, description = "The queue is full or the rate limit is exceeded. Retry after `Retry-After`."),
    ),
)]
pub(super) async fn enqueue_one(
    State(app): State<App>,
    who: Who,
    principal: Principal,
    trace: Trace,
    key: IdempotencyKey,
    job: Json<wire::NewJob>,
) -> Reply {
    app.rate_limits.check(&principal, 1)?;
    let mut job = job.value.into_core()?;
    who.may_enqueue(&job)?;
    key.apply(0, &mut job)?;
    let mut request = engine::Enqueue::each([job]);
    let span = trace.forward(&mut request.jobs, app.options.traces, paths::JOBS);
    let reply = span.around(app.call(app.engine.enqueue(request))).await?;
    let enqueued = wire::Enqueued::from(only(reply.value)?);
    let status = if enqueued.is_new() { StatusCode::CREATED } else { StatusCode::OK };
    let reply = engine::Stamped { now: reply.now, epoch: reply.epoch, value: enqueued };
    Ok(stamped_with(status, reply))
}

/// Enqueue many jobs
///
/// With `atomic`, either all jobs are stored or none; otherwise each job succeeds or fails alone.
#[utoipa::path(
    post, path = paths::JOBS_BATCH, tag = tag::JOBS, operation_id = "enqueue_jobs",
    params(wire::openapi::TraceHeaders, wire::openapi::IdempotencyHeaders),
    request_body = wire::Enqueue,
    responses(
        (status = 200, body = wire::openapi::EnqueuedItems, description = "The result of each item."),
        (status = 429, description = "The rate limit is exceeded. Retry after `Retry-After`."),
    ),
)]
pub(super) async fn enqueue(
    State(app): State<App>,
    who: Who,
    principal: Principal,
    trace: Trace,
    key: IdempotencyKey,
    batch: Json<wire::Enqueue>,
) -> Reply {
    app.rate_limits.check(&principal, batch.value.jobs.len())?;
    let pace = batch.value.pace.map(wire::Pace::into_core).transpose()?;
    let (mut request, bad) = on_items(batch.value.jobs.len(), || {
        let (mut request, mut bad) = batch.value.into_core();
        request.jobs = take_out(request.jobs, &mut bad, |place, job| {
            who.may_enqueue(job).and_then(|()| key.apply(place, job))
        });
        (request, bad)
    });
    if let Some(pace) = pace {
        let now = app.call(app.engine.health()).await?.now;
        let mut pacer = Pacer::new(pace, now);
        request.jobs.iter_mut().for_each(|job| job.due = pacer.due(job.due));
    }
    let total = request.jobs.len() + bad.len();
    let reply = match bad.first() {
        Some((culprit, _)) if request.mode == Mode::AllOrNothing => {
            // One bad job fails the whole batch, so the engine is not called.
            let aborted: Result<_> = Err(Error::Aborted { culprit: *culprit });
            let answers = vec![aborted; total - bad.len()];
            app.call(app.engine.health()).await?.map(|()| answers)
        }
        _ => {
            let span = trace.forward(&mut request.jobs, app.options.traces, paths::JOBS_BATCH);
            span.around(app.call(app.engine.enqueue(request))).await?
        }
    };
    let turn = |answers| wire::Items::new(merged(answers, bad), wire::Enqueued::from);
    Ok(on_items(total, || stamped(reply.map(turn))))
}

/// Import jobs of another store
///
/// Keeps id, counters, history, times, state, result, error and progress. A running job arrives as available. An id that
/// exists already is not changed.
#[utoipa::path(
    post, path = paths::JOBS_IMPORT, tag = tag::JOBS, operation_id = "import_jobs",
    request_body = wire::Import,
    responses(
        (status = 200, body = wire::openapi::EnqueuedItems, description = "The result of each item."),
    ),
)]
pub(super) async fn import(State(app): State<App>, who: Who, batch: Json<wire::Import>) -> Reply {
    let (request, bad) = batch.value.into_core();
    let reply = app.call(app.acting(&who).import(request)).await?;
    let turn = |answers| wire::Items::new(merged(answers, bad), wire::Enqueued::from);
    Ok(stamped(reply.map(turn)))
}

/// Change many jobs
#[utoipa::path(
    post, path = paths::JOBS_CHANGE, tag = tag::JOBS, operation_id = "change_jobs",
    request_body = wire::ChangeBatch,
    responses(
        (status = 200, body = wire::openapi::ChangedItems, description = "The result of each item."),
    ),
)]
pub(super) async fn change(
    State(app): State<App>,
    who: Who,
    batch: Json<wire::ChangeBatch>,
) -> Reply {
    let (mut items, mut bad) = (Vec::new(), Vec::new());
    for (index, item) in batch.value.items.into_iter().enumerate() {
        match item.into_core() {
            Ok(item) => items.push(item),
            Err(error) => bad.push((index, error)),
        }
    }
    let reply = app.call(app.acting(&who).change(items)).await?;
    let turn = |answers| wire::Items::new(merged(answers, bad), wire::Changed::from);
    Ok(stamped(reply.map(turn)))
}

/// Send a signal to a job
///
/// A job that waits for the signal runs again; otherwise the signal is kept in its inbox. The same id again is accepted and
/// changes nothing.
#[utoipa::path(
    post, path = paths::JOB_SIGNAL, tag = tag::JOBS, operation_id = "signal_job",
    request_body = wire::Signal,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "The signal is delivered or stored."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job has ended."),
        (status = 413, description = "The signal is too large, or the inbox is full."),
    ),
)]
pub(super) async fn signal(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    signal: Json<wire::Signal>,
) -> Reply {
    let signal = model::Signal::from(signal.value);
    let item = engine::ChangeItem::new(job_id(&id)?, signal.into());
    let reply = app.call(app.acting(&who).change(vec![item])).await?;
    let changed = wire::Changed::from(only(reply.value)?);
    Ok(stamped(engine::Stamped { now: reply.now, epoch: reply.epoch, value: changed }))
}

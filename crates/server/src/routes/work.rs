//! Worker routes: sessions, claims, reports.

use super::{merged, take_out};
use crate::access::{self, Who};
use crate::app::App;
use crate::body::{Json, Path};
use crate::long_poll;
use crate::openapi::tag;
use crate::reply::{Reply, stamped, stamped_with};
use axum::extract::State;
use http::StatusCode;
use windlass_core::engine::SessionId;
use windlass_core::random::SystemRandom;
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Open a session
#[utoipa::path(
    post, path = paths::SESSIONS, tag = tag::WORK, operation_id = "open_session",
    request_body = wire::OpenSession,
    responses(
        (status = 201, body = wire::Session, description = "The session."),
    ),
)]
pub(super) async fn open_session(
    State(app): State<App>,
    who: Who,
    open: Json<wire::OpenSession>,
) -> Reply {
    let mut reply = app.call(app.engine.open_session(open.value.into_core())).await?;
    reply.value.id = access::issue(&who, &reply.value.id);
    Ok(stamped_with(StatusCode::CREATED, reply.map(wire::Session::from)))
}

/// Close a session
///
/// Releases its leases at once. Succeeds if the session is already closed.
#[utoipa::path(
    delete, path = paths::SESSION, tag = tag::WORK, operation_id = "close_session",
    params(("session" = wire::openapi::SessionId, Path, description = "The session.")),
    responses(
        (status = 200, body = wire::Empty, description = "The session is closed."),
    ),
)]
pub(super) async fn close_session(
    State(app): State<App>,
    who: Who,
    Path(session): Path<String>,
) -> Reply {
    let session = access::close(&who, &SessionId::new(session))?;
    let reply = app.call(app.engine.close_session(session)).await?;
    Ok(stamped(reply.map(|()| wire::Empty {})))
}

/// Keep a session alive
///
/// Declares the leases that the worker holds; other leases of the session are released.
#[utoipa::path(
    post, path = paths::HEARTBEAT, tag = tag::WORK, operation_id = "heartbeat",
    request_body = wire::Heartbeat,
    responses(
        (status = 200, body = wire::HeartbeatReply, description = "The new expiry, lost leases and jobs to cancel."),
        (status = 409, description = "The session has ended."),
    ),
)]
pub(super) async fn heartbeat(
    State(app): State<App>,
    who: Who,
    mut beat: Json<wire::Heartbeat>,
) -> Reply {
    beat.value.session = access::close(&who, &beat.value.session)?;
    let reply = app.call(app.engine.heartbeat(beat.value.into())).await?;
    Ok(stamped(reply.map(wire::HeartbeatReply::from)))
}

/// Claim jobs
///
/// With a session: `claim_no`. Without: `lease_ms`, `worker`, `claim_id`. An empty reply is a hint,
/// not proof of an empty queue.
#[utoipa::path(
    post, path = paths::CLAIM, tag = tag::WORK, operation_id = "claim",
    request_body = wire::Claim,
    responses(
        (status = 200, body = wire::Claimed, description = "The jobs, in the order to start them."),
        (status = 409, description = "The session has ended."),
    ),
)]
pub(super) async fn claim(State(app): State<App>, who: Who, claim: Json<wire::Claim>) -> Reply {
    let wait_ms = claim.value.wait_ms;
    let claim = claim.value.into_core(&SystemRandom)?;
    who.may_claim(&claim)?;
    let claim = app.limited(access::bind_claim(&who, claim)?);
    let reply = match wait_ms {
        Some(wait_ms) => long_poll::claim(&app, &who, claim, wait_ms).await?,
        None => app.call(app.engine.claim(claim)).await?,
    };
    Ok(stamped(reply.map(wire::Claimed::from)))
}

/// Wait for claimable jobs
#[utoipa::path(
    post, path = paths::WAIT, tag = tag::WORK, operation_id = "wait",
    request_body = wire::Wait,
    responses(
        (status = 200, body = wire::Ready, description = "Whether jobs may be claimable."),
    ),
)]
pub(super) async fn wait(State(app): State<App>, who: Who, wait: Json<wire::Wait>) -> Reply {
    wait.value.queues.iter().try_for_each(|queue| who.may_work(queue))?;
    let reply = long_poll::wait(&app, &who, wait.value.into()).await?;
    Ok(stamped(reply.map(|ready| wire::Ready { ready })))
}

/// Settle jobs
///
/// Reports results and optionally claims the next jobs in the same round trip. The results are
/// durable once the reply is sent.
#[utoipa::path(
    post, path = paths::SETTLE, tag = tag::WORK, operation_id = "settle",
    request_body = wire::Settle,
    responses(
        (status = 200, body = wire::SettleReply, description = "The result of each item."),
    ),
)]
pub(super) async fn settle(State(app): State<App>, who: Who, settle: Json<wire::Settle>) -> Reply {
    let (mut request, mut bad) = settle.value.into_core(&SystemRandom)?;
    if let Some(claim) = request.claim.take() {
        who.may_claim(&claim)?;
        let bound = access::bind_claim(&who, claim).map_err(|error| error.within("claim"))?;
        request.claim = Some(app.limited(bound));
    }
    // A follow-up that the worker may not enqueue is refused like an invalid one; the job keeps its
    // lease.
    // A worker may move its job to queues that it may work on.
    request.items = take_out(request.items, &mut bad, |_, item| {
        who.may_enqueue_all(&item.follow_ups)?;
        item.queue.as_ref().map_or(Ok(()), |queue| who.may_work(queue))
    });
    let reply = app.call(app.engine.settle(request)).await?;
    let reply = reply.map(|mut reply| {
        reply.items = merged(reply.items, bad);
        wire::SettleReply::from(reply)
    });
    Ok(stamped(reply))
}

/// Update running jobs
///
/// Reports progress, checkpoints and log lines, reads parts, and extends leases.
#[utoipa::path(
    post, path = paths::UPDATE, tag = tag::WORK, operation_id = "update",
    request_body = wire::Update,
    responses(
        (status = 200, body = wire::openapi::UpdatedItems, description = "The result of each item."),
    ),
)]
pub(super) async fn update(State(app): State<App>, update: Json<wire::Update>) -> Reply {
    let (request, bad) = update.value.into_core();
    let reply = app.call(app.engine.update(request)).await?;
    let turn = |answers| wire::Items::new(merged(answers, bad), wire::Updated::from);
    Ok(stamped(reply.map(turn)))
}

//! The verbs of workers: sessions, claims, reports.

use super::merged;
use crate::app::App;
use crate::body::{Json, Path};
use crate::long_poll;
use crate::reply::{Reply, stamped, stamped_with};
use axum::extract::State;
use http::StatusCode;
use windlass_core::engine::SessionId;
use windlass_core::random::SystemRandom;
use windlass_wire as wire;

/// `POST /v1/sessions`
pub(super) async fn open_session(State(app): State<App>, open: Json<wire::OpenSession>) -> Reply {
    let reply = app.call(app.engine.open_session(open.value.into_core())).await?;
    Ok(stamped_with(StatusCode::CREATED, reply.map(wire::Session::from)))
}

/// `DELETE /v1/sessions/{session}`
pub(super) async fn close_session(State(app): State<App>, Path(session): Path<String>) -> Reply {
    let reply = app.call(app.engine.close_session(SessionId::new(session))).await?;
    Ok(stamped(reply.map(|()| wire::Empty {})))
}

/// `POST /v1/heartbeat`
pub(super) async fn heartbeat(State(app): State<App>, beat: Json<wire::Heartbeat>) -> Reply {
    let reply = app.call(app.engine.heartbeat(beat.value.into())).await?;
    Ok(stamped(reply.map(wire::HeartbeatReply::from)))
}

/// `POST /v1/claim`
pub(super) async fn claim(State(app): State<App>, claim: Json<wire::Claim>) -> Reply {
    let wait_ms = claim.value.wait_ms;
    let claim = claim.value.into_core(&SystemRandom)?;
    let reply = match wait_ms {
        Some(wait_ms) => long_poll::claim(&app, claim, wait_ms).await?,
        None => app.call(app.engine.claim(claim)).await?,
    };
    Ok(stamped(reply.map(wire::Claimed::from)))
}

/// `POST /v1/wait`
pub(super) async fn wait(State(app): State<App>, wait: Json<wire::Wait>) -> Reply {
    let reply = long_poll::wait(&app, wait.value.into()).await?;
    Ok(stamped(reply.map(|ready| wire::Ready { ready })))
}

/// `POST /v1/settle`
pub(super) async fn settle(State(app): State<App>, settle: Json<wire::Settle>) -> Reply {
    let (request, bad) = settle.value.into_core(&SystemRandom)?;
    let reply = app.call(app.engine.settle(request)).await?;
    let reply = reply.map(|mut reply| {
        reply.items = merged(reply.items, bad);
        wire::SettleReply::from(reply)
    });
    Ok(stamped(reply))
}

/// `POST /v1/update`
pub(super) async fn update(State(app): State<App>, update: Json<wire::Update>) -> Reply {
    let (request, bad) = update.value.into_core();
    let reply = app.call(app.engine.update(request)).await?;
    let turn = |answers| wire::Items::new(merged(answers, bad), wire::Updated::from);
    Ok(stamped(reply.map(turn)))
}

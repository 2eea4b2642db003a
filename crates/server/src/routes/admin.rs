//! Settings, records, maintenance.

use super::{merged, only};
use crate::app::App;
use crate::body::{Json, Path};
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::engine::Configure;
use windlass_wire as wire;

/// How long a check of the whole store may take beyond the usual.
const CHECK_MS_MAX: u64 = 60 * 60 * 1_000;

/// `GET /v1/settings`
pub(super) async fn settings(State(app): State<App>) -> Reply {
    let reply = app.call(app.engine.settings()).await?;
    Ok(stamped(reply.map(wire::Settings::from)))
}

/// `POST /v1/settings`
pub(super) async fn configure(State(app): State<App>, batch: Json<wire::ConfigureBatch>) -> Reply {
    let items = batch.value.items.into_iter().map(Into::into).collect();
    let reply = app.call(app.engine.configure(items)).await?;
    Ok(stamped(reply.map(|answers| wire::Items::new(answers, |()| wire::Empty {}))))
}

/// `PATCH /v1/queues/{queue}`
pub(super) async fn configure_queue(
    State(app): State<App>,
    Path(queue): Path<String>,
    patch: Json<wire::QueuePatch>,
) -> Reply {
    configure_one(&app, Configure::queue(queue, patch.value.into())).await
}

/// `PATCH /v1/kinds/{kind}`
pub(super) async fn configure_kind(
    State(app): State<App>,
    Path(kind): Path<String>,
    patch: Json<wire::KindPatch>,
) -> Reply {
    configure_one(&app, Configure::kind(kind, patch.value.into())).await
}

async fn configure_one(app: &App, change: Configure) -> Reply {
    let mut reply = app.call(app.engine.configure(vec![change])).await?;
    only(std::mem::take(&mut reply.value))?;
    Ok(stamped(reply.map(|_| wire::Empty {})))
}

/// `POST /v1/records`
pub(super) async fn records(State(app): State<App>, batch: Json<wire::RecordBatch>) -> Reply {
    let (mut items, mut bad) = (Vec::new(), Vec::new());
    for (index, item) in batch.value.items.into_iter().enumerate() {
        match item.into_core() {
            Ok(item) => items.push(item),
            Err(error) => bad.push((index, error)),
        }
    }
    let reply = app.call(app.engine.records(items)).await?;
    let reply = reply.map(|answers| {
        let answers = answers.into_iter().map(|answer| answer.and_then(TryInto::try_into));
        wire::Items::new(merged(answers.collect(), bad), |reply| wire::RecordAnswer { reply })
    });
    Ok(stamped(reply))
}

/// `POST /v1/maintain`
pub(super) async fn maintain(State(app): State<App>, step: Json<wire::Maintain>) -> Reply {
    let reply = app.call(app.engine.maintain(step.value.into_core()?)).await?;
    Ok(stamped(reply.map(wire::MaintainReply::from)))
}

/// `POST /v1/check`
pub(super) async fn check(State(app): State<App>, check: Json<wire::Check>) -> Reply {
    let reply = app.call_within(app.engine.check(check.value.repair), CHECK_MS_MAX).await?;
    Ok(stamped(reply.map(wire::CheckReport::from)))
}

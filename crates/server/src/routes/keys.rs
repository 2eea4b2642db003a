//! Access keys.

use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Path, Query};
use crate::documents;
use crate::openapi::tag;
use crate::reply::{Reply, stamped, stamped_with};
use axum::extract::State;
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::Stamped;
use windlass_services::{Grants, Keys, NewKey};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// List access keys
///
/// Without their secrets, revoked and expired ones included. A store has a limited number of keys.
#[utoipa::path(
    get, path = paths::KEYS, tag = tag::STORE, operation_id = "list_keys",
    responses(
        (status = 200, body = wire::Keys, description = "The keys, by the time of their creation."),
    ),
)]
pub(super) async fn list(State(app): State<App>, _: Query<wire::Nothing>) -> Reply {
    let reply = app.in_time(Keys::new(app.engine.clone()).list(), 0).await?;
    let keys = |keys: Vec<_>| keys.into_iter().map(documents::key).collect();
    Ok(stamped(reply.map(|all| wire::Keys { keys: keys(all) })))
}

/// Create an access key
///
/// The reply has its secret, which cannot be read again. With the first key, requests without one are refused.
#[utoipa::path(
    post, path = paths::KEYS, tag = tag::STORE, operation_id = "create_key",
    request_body = wire::NewKey,
    responses(
        (status = 201, body = wire::CreatedKey, description = "The key, with its secret."),
    ),
)]
pub(super) async fn create(State(app): State<App>, who: Who, new: Json<wire::NewKey>) -> Reply {
    let wire::NewKey { name, may, expires_ms, certificate } = new.value;
    let mut key = NewKey::new(name, may.join(",").parse::<Grants>()?);
    (key.expires, key.certificate) = (expires_ms.map(Duration::from_millis), certificate);
    let keys = Keys::new(Arc::new(app.acting(&who)));
    let (key, secret) = app.in_time(keys.create(key), 0).await?;
    let secret = secret.map(|secret| secret.expose().to_owned());
    let created = wire::CreatedKey { key: documents::key(key), secret };
    let Stamped { now, epoch, .. } = app.call(app.engine.health()).await?;
    Ok(stamped_with(StatusCode::CREATED, Stamped { now, epoch, value: created }))
}

/// Revoke an access key
///
/// Permanently; revoking it again changes nothing. This server refuses it at once, others within seconds.
#[utoipa::path(
    delete, path = paths::KEY, tag = tag::STORE, operation_id = "revoke_key",
    params(("key" = String, Path, description = "The id of the key.")),
    responses(
        (status = 200, body = wire::Key, description = "The key."),
        (status = 404, description = "There is no such key."),
    ),
)]
pub(super) async fn revoke(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    let keys = Keys::new(Arc::new(app.acting(&who)));
    let key = app.in_time(keys.revoke(&id), 0).await?;
    let Stamped { now, epoch, .. } = app.call(app.engine.health()).await?;
    Ok(stamped(Stamped { now, epoch, value: documents::key(key) }))
}

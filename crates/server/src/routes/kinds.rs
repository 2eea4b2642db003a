//! Kinds: their settings, statistics, rules and circuit breakers.

use super::queues::settings_and_lanes;
use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Path, Query};
use crate::openapi::tag;
use crate::reply::{Refusal, Reply, stamped};
use axum::extract::State;
use http::StatusCode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_core::engine::{LaneStats, Stamped, StatsRequest};
use windlass_core::model::{CheckRule, KindRules, KindSettings, Name};
use windlass_core::{Error, Result, check_name};
use windlass_services::{Breakers, Kinds};
use windlass_wire as wire;
use windlass_wire::routes as paths;
use windlass_wire::{KindOverview, Overview};

/// List kinds
///
/// All kinds with jobs, settings or rules.
#[utoipa::path(
    get, path = paths::KINDS, tag = tag::SETTINGS, operation_id = "list_kinds",
    responses(
        (status = 200, body = wire::Kinds, description = "The kinds, by name."),
    ),
)]
pub(super) async fn list(State(app): State<App>, _: Query<wire::Nothing>) -> Reply {
    let registered = app.in_time(registered(&app), 0).await?;
    let breakers = app.in_time(breakers(&app), 0).await?;
    let (mut settings, lanes) = settings_and_lanes(&app, StatsRequest::default()).await?;
    let set: BTreeSet<Name> = settings.kinds.iter().map(|(name, _)| name.clone()).collect();
    let only_registered = registered.keys().filter(|kind| !set.contains(*kind));
    settings.kinds.extend(only_registered.map(|kind| (kind.clone(), KindSettings::default())));
    let now = lanes.now;
    let all_lanes = lanes.value.clone();
    let checks = |rule: &CheckRule| wire::Checks::of(rule, &all_lanes);
    let view = |overview: Overview<KindSettings>| KindOverview {
        registered: registered.contains_key(&overview.name),
        rules: None,
        breaker: breakers.get(&overview.name).copied(),
        checks: registered.get(&overview.name).and_then(|rule| Some(checks(rule.as_ref()?))),
        overview,
    };
    let all = |lanes: Vec<LaneStats>| Overview::all(settings.kinds, &lanes, |it| &it.kind, now);
    let all = |lanes| all(lanes).into_iter().map(view).collect();
    Ok(stamped(lanes.map(|lanes| wire::Kinds { kinds: all(lanes) })))
}

/// The registered kinds, with the rule for their checks.
async fn registered(app: &App) -> Result<BTreeMap<Name, Option<CheckRule>>> {
    let all = Kinds::new(app.engine.clone()).all().await?;
    let check = |rules: Result<KindRules>| rules.ok().and_then(|rules| rules.check);
    Ok(all.into_iter().map(|it| (it.kind, check(it.rules))).collect())
}

async fn breakers(app: &App) -> Result<BTreeMap<Name, wire::Breaker>> {
    let all = Breakers::new(app.engine.clone()).all().await?;
    Ok(all.iter().map(|(kind, breaker)| (kind.clone(), breaker.into())).collect())
}

/// Get a kind
///
/// Statistics cover all queues. An unused kind has zeros and default settings.
#[utoipa::path(
    get, path = paths::KIND, tag = tag::SETTINGS, operation_id = "get_kind",
    params(("kind" = wire::openapi::Name, Path, description = "The kind; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::openapi::KindOverview, description = "The kind."),
    ),
)]
pub(super) async fn get(
    State(app): State<App>,
    Path(kind): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    check_name("kind", &kind)?;
    let rules = match app.in_time(Kinds::new(app.engine.clone()).get(&kind), 0).await {
        // A name that is too long to be registered cannot have rules.
        Err(error) if error.field() == Some("kind") => None,
        answer => answer?,
    };
    let breaker = app.in_time(Breakers::new(app.engine.clone()).get(&kind), 0).await?;
    let kind = Name::from(kind);
    let (settings, lanes) = settings_and_lanes(&app, StatsRequest::default()).await?;
    let now = lanes.now;
    let checks = rules.as_ref().and_then(|rules| rules.check.as_ref());
    let checks = checks.map(|rule| wire::Checks::of(rule, &lanes.value));
    Ok(stamped(lanes.map(|mut lanes| {
        lanes.retain(|lane| lane.kind == kind);
        KindOverview {
            overview: Overview::of(kind, settings.kinds, lanes, now),
            registered: rules.is_some(),
            rules: rules.map(Into::into),
            breaker: breaker.as_ref().map(Into::into),
            checks,
        }
    })))
}

/// Register a kind
///
/// Replaces all rules of the kind. They apply here at once, and on other servers within about a
/// second.
#[utoipa::path(
    put, path = paths::KIND, tag = tag::SETTINGS, operation_id = "register_kind",
    request_body = wire::KindRules,
    params(("kind" = wire::openapi::Name, Path, description = "The kind; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::KindRules, description = "The current rules."),
    ),
)]
pub(super) async fn put(
    State(app): State<App>,
    who: Who,
    Path(kind): Path<String>,
    rules: Json<wire::KindRules>,
) -> Reply {
    let rules = rules.value.into_core();
    if let Some(schema) = &rules.schema {
        crate::check_schema(schema)?;
    }
    app.in_time(Kinds::new(Arc::new(app.acting(&who))).put(&kind, &rules), 0).await?;
    app.registry.forget();
    answer(&app, wire::KindRules::from(rules)).await
}

/// Unregister a kind
///
/// Removes its rules. Its jobs stay.
#[utoipa::path(
    delete, path = paths::KIND, tag = tag::SETTINGS, operation_id = "unregister_kind",
    params(("kind" = wire::openapi::Name, Path, description = "The kind; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::Empty, description = "The rules are removed."),
        (status = 404, description = "The kind is not registered."),
    ),
)]
pub(super) async fn remove(
    State(app): State<App>,
    who: Who,
    Path(kind): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    let was = app.in_time(Kinds::new(Arc::new(app.acting(&who))).remove(&kind), 0).await?;
    app.registry.forget();
    if !was {
        let error = Error::invalid("kind", kind, "it is not registered; list /v1/kinds");
        return Err(Refusal::with(StatusCode::NOT_FOUND, error));
    }
    answer(&app, wire::Empty {}).await
}

/// Adds the store's time and epoch to an answer.
async fn answer<T: serde::Serialize>(app: &App, value: T) -> Reply {
    let Stamped { now, epoch, .. } = app.call(app.engine.health()).await?;
    Ok(stamped(Stamped { now, epoch, value }))
}

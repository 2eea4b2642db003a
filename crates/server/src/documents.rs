//! The documents of the API about results of services: what routes reply, and what the command line prints with
//! `--json`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_core::engine::{Engine, LaneStats, Stamped, StatsRequest};
use windlass_core::model::{CheckRule, KindRules, KindSettings, Name};
use windlass_core::{Error, Result};
use windlass_services::{AuditRow, Breakers, Bulk, Key, Kinds, Scale, ScheduleView};
use windlass_wire as wire;
use windlass_wire::{KindOverview, Overview};

/// A schedule with its status.
pub fn schedule(view: ScheduleView) -> wire::ScheduleView {
    let error = |error: windlass_services::ScheduleError| wire::ScheduleError {
        at: error.at,
        message: error.message,
    };
    wire::ScheduleView {
        name: view.name,
        schedule: view.schedule.into(),
        job: view.job.into(),
        paused: view.paused,
        next: view.next,
        awaits: view.awaits,
        last_fire: view.last_fire,
        fired: view.fired,
        refused: view.refused,
        last_error: view.last_error.map(error),
    }
}

/// An entry of the audit log.
pub fn action(row: AuditRow) -> wire::Action {
    let AuditRow { id, at, action, .. } = row;
    wire::Action {
        id,
        at,
        who: action.who,
        key: action.key,
        action: action.action,
        targets: action.targets,
        count: action.count,
        refused: action.refused,
        before: action.before,
        after: action.after,
    }
}

/// A bulk operation with its progress.
pub fn bulk(bulk: Bulk) -> wire::Bulk {
    wire::Bulk {
        id: bulk.id,
        filter: bulk.filter.into(),
        change: bulk.change.as_str().to_owned(),
        dry_run: bulk.dry_run,
        by: bulk.by,
        begun: bulk.begun,
        ended: bulk.ended,
        state: bulk.state.as_str().to_owned(),
        total: bulk.total,
        changed: bulk.changed,
        refused: bulk.refused,
        error: bulk.error,
    }
}

/// An access key, without its secret.
pub fn key(key: Key) -> wire::Key {
    wire::Key {
        id: key.id,
        name: key.name,
        may: key.may.iter().map(ToString::to_string).collect(),
        certificate: key.certificate,
        created_at: key.created_at,
        expires_at: key.expires_at,
        revoked_at: key.revoked_at,
    }
}

/// The number of workers that a queue needs.
pub fn scale(scale: &Scale) -> wire::Scale {
    wire::Scale {
        desired: scale.desired,
        available: scale.available,
        running: scale.running,
        arrivals_per_second: scale.arrivals_per_second,
        run_ms: scale.run_ms,
    }
}

/// All kinds with jobs, settings or rules, by name.
pub async fn kinds(engine: &Arc<dyn Engine>) -> Result<Stamped<Vec<KindOverview>>> {
    let registered = registered(engine).await?;
    let breakers: BTreeMap<Name, wire::Breaker> = Breakers::new(engine.clone())
        .all()
        .await?
        .iter()
        .map(|(kind, it)| (kind.clone(), it.into()))
        .collect();
    let mut settings = engine.settings().await?.value.kinds;
    let lanes = engine.stats(StatsRequest::default()).await?;
    let set: BTreeSet<Name> = settings.iter().map(|(name, _)| name.clone()).collect();
    let only_registered = registered.keys().filter(|kind| !set.contains(*kind));
    settings.extend(only_registered.map(|kind| (kind.clone(), KindSettings::default())));
    let now = lanes.now;
    let view = |all: &[LaneStats], overview: Overview<KindSettings>| KindOverview {
        registered: registered.contains_key(&overview.name),
        rules: None,
        breaker: breakers.get(&overview.name).copied(),
        checks: registered
            .get(&overview.name)
            .and_then(|rule| Some(wire::Checks::of(rule.as_ref()?, all))),
        overview,
    };
    Ok(lanes.map(|lanes| {
        let all = Overview::all(settings, &lanes, |it| &it.kind, now);
        all.into_iter().map(|overview| view(&lanes, overview)).collect()
    }))
}

/// The registered kinds, with the rule for their checks.
async fn registered(engine: &Arc<dyn Engine>) -> Result<BTreeMap<Name, Option<CheckRule>>> {
    let all = Kinds::new(engine.clone()).all().await?;
    let check = |rules: Result<KindRules>| rules.ok().and_then(|rules| rules.check);
    Ok(all.into_iter().map(|it| (it.kind, check(it.rules))).collect())
}

/// One kind. An unused one has zeros and default settings.
pub async fn kind(engine: &Arc<dyn Engine>, name: Name) -> Result<Stamped<KindOverview>> {
    let rules = match Kinds::new(engine.clone()).get(&name).await {
        // A name that is too long to be registered cannot have rules.
        Err(Error::Invalid { field, .. }) if field == "kind" => None,
        answer => answer?,
    };
    let breaker = Breakers::new(engine.clone()).get(&name).await?;
    let settings = engine.settings().await?.value.kinds;
    let lanes = engine.stats(StatsRequest::default()).await?;
    let now = lanes.now;
    let checks = rules.as_ref().and_then(|rules| rules.check.as_ref());
    let checks = checks.map(|rule| wire::Checks::of(rule, &lanes.value));
    Ok(lanes.map(|mut lanes| {
        lanes.retain(|lane| lane.kind == name);
        KindOverview {
            overview: Overview::of(name, settings, lanes, now),
            registered: rules.is_some(),
            rules: rules.map(Into::into),
            breaker: breaker.as_ref().map(Into::into),
            checks,
        }
    }))
}

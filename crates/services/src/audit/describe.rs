//! Translates engine calls to audit actions: which calls are logged, under which name, and which of their
//! content may be included. Must not call an engine.

use super::action::Action;
use crate::breaker;
use crate::bulk;
use crate::keys::{self, Principal};
use crate::kinds;
use crate::schedule::{self as schedules};
use serde_json::{Value, json};
use windlass_core::engine::*;
use windlass_core::model::{Due, Name, PartEdit, State};
use windlass_core::{JobId, Result};

/// Maximum number of settings per call that are logged one by one; more are logged as one action.
const EACH_MAX: usize = 20;
/// Records that services write continuously and that are not logged.
const SERVICES: [&str; 2] = ["leader/", breaker::PREFIX];

/// The name of a change, and the part of its content that may be logged.
pub(super) fn change(change: &Change) -> (&'static str, Option<Value>) {
    match change {
        Change::Cancel => ("job.cancel", None),
        Change::Promote => ("job.promote", None),
        Change::Reschedule(due) => ("job.reschedule", Some(time(*due))),
        Change::Reprioritise(priority) => {
            ("job.reprioritise", Some(json!({ "priority": priority })))
        }
        Change::Move(queue) => ("job.move", Some(json!({ "queue": &**queue }))),
        Change::Kill => ("job.kill", None),
        Change::Pause => ("job.pause", None),
        Change::Resume => ("job.resume", None),
        Change::Signal(signal) => ("job.signal", Some(json!({ "signal": &*signal.name }))),
        Change::Discard => ("job.discard", None),
        Change::Replay(edits) => ("job.replay", edited(edits)),
        _ => ("job.change", None),
    }
}

/// A due time, as in the API.
fn time(due: Due) -> Value {
    match due {
        Due::At(at) => json!({ "run_at": at }),
        Due::After(ms) => json!({ "delay_ms": ms }),
        Due::Now => json!({ "delay_ms": 0 }),
    }
}

/// The names of the edited parts; payloads are not logged.
fn edited(edits: &Edits) -> Option<Value> {
    let touched = [
        ("payload", edits.payload != PartEdit::Keep),
        ("checkpoint", edits.checkpoint != PartEdit::Keep),
        ("priority", edits.priority.is_some()),
        ("policy", edits.policy.is_some()),
        ("queue", edits.queue.is_some()),
    ];
    let names: Vec<_> = touched.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    (!names.is_empty()).then(|| json!({ "edited": names }))
}

/// The actions of a batch of changes: one for each type of change.
pub(super) fn changes(
    who: &Principal,
    reported: &[(JobId, (&'static str, Option<Value>))],
    answers: &[Item<Changed>],
    before: Option<State>,
) -> Vec<Action> {
    let mut actions: Vec<Action> = Vec::new();
    for ((id, (name, _)), answer) in reported.iter().zip(answers) {
        let place = actions.iter().position(|action| action.action == *name);
        let place = place.unwrap_or_else(|| {
            actions.push(Action::new(who, *name));
            actions.len() - 1
        });
        actions[place].target(id.to_string(), answer.is_ok());
    }
    if let ([(_, (_, content))], [Ok(changed)]) = (reported, answers) {
        let mut after = json!({ "state": changed.state });
        if let (Some(Value::Object(content)), Some(after)) = (content, after.as_object_mut()) {
            after.extend(content.clone());
        }
        let before = before.map(|state| json!({ "state": state }));
        actions = actions
            .into_iter()
            .map(|action| action.before(before.clone()).after(Some(after.clone())))
            .collect();
    }
    actions
}

/// Settings before and after a call.
pub(super) struct Settled {
    pub(super) before: Settings,
    pub(super) after: Settings,
}

/// The actions of a batch of settings.
pub(super) fn settings(
    who: &Principal,
    reported: &[Configure],
    answers: &[Item<()>],
    settled: &Settled,
) -> Vec<Action> {
    let named = |change: &Configure| match change {
        Configure::Queue(name, _) => ("queue.configure", name.clone()),
        Configure::Kind(name, _) => ("kind.configure", name.clone()),
        Configure::Limit(name, _) => ("limit.configure", name.clone()),
        _ => ("settings.configure", Name::from("settings")),
    };
    if reported.len() > EACH_MAX {
        let mut action = Action::new(who, "settings.configure");
        for (change, answer) in reported.iter().zip(answers) {
            action.target(&*named(change).1, answer.is_ok());
        }
        return vec![action];
    }
    let one = |(change, answer): (&Configure, &Item<()>)| {
        let (name, target) = named(change);
        let mut action = Action::new(who, name);
        action.target(&*target, answer.is_ok());
        let [before, after] = [&settled.before, &settled.after].map(|all| of(all, change));
        action.before(before).after(after)
    };
    reported.iter().zip(answers).map(one).collect()
}

/// The settings that a change applies to; `None` means the defaults.
fn of(all: &Settings, change: &Configure) -> Option<Value> {
    match change {
        Configure::Queue(name, _) => {
            let found = all.queues.iter().find(|(known, _)| known == name);
            found.and_then(|(_, settings)| serde_json::to_value(settings).ok())
        }
        Configure::Kind(name, _) => {
            let found = all.kinds.iter().find(|(known, _)| known == name);
            found.and_then(|(_, settings)| serde_json::to_value(settings).ok())
        }
        Configure::Limit(name, _) => {
            let found = all.limits.iter().find(|(known, _)| known == name);
            found.and_then(|(_, limit)| serde_json::to_value(limit).ok())
        }
        _ => None,
    }
}

/// A write to a record that is logged.
pub(super) struct Write {
    pub(super) key: String,
    /// Its index in the batch.
    index: usize,
    value: Option<bytes::Bytes>,
    sort: Sort,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Key,
    Kind,
    Schedule,
    Bulk,
    Other,
}

/// The writes of a batch that are logged: those of people, not of services.
pub(super) fn written(batch: &[RecordOp]) -> Vec<Write> {
    let puts =
        |name: &str| batch.iter().any(|op| matches!(op, RecordOp::Put { key, .. } if key == name));
    // A write by a person also writes the change marker; the scheduler that saves progress does not.
    let by_people = puts(schedules::CHANGES_KEY) || puts(bulk::CHANGES_KEY);
    let sort = |key: &str| match key {
        schedules::CHANGES_KEY | keys::CHANGES_KEY | kinds::CHANGES_KEY | bulk::CHANGES_KEY => None,
        _ if SERVICES.iter().any(|prefix| key.starts_with(prefix)) => None,
        _ if key.starts_with(keys::PREFIX) => Some(Sort::Key),
        _ if key.starts_with(kinds::PREFIX) => Some(Sort::Kind),
        _ if key.starts_with(bulk::PREFIX) => by_people.then_some(Sort::Bulk),
        _ if key.starts_with(schedules::PREFIX) => by_people.then_some(Sort::Schedule),
        _ => Some(Sort::Other),
    };
    let write = |(index, op): (usize, &RecordOp)| {
        let (key, value) = match op {
            RecordOp::Put { key, value, .. } => (key, Some(value.clone())),
            RecordOp::Delete { key, .. } => (key, None),
            RecordOp::Get { .. }
            | RecordOp::List { .. }
            | RecordOp::Append { .. }
            | RecordOp::Read { .. }
            | _ => return None,
        };
        Some(Write { key: key.clone(), index, value, sort: sort(key)? })
    };
    batch.iter().enumerate().filter_map(write).collect()
}

/// The actions of such writes.
pub(super) fn writes(
    who: &Principal,
    reported: Vec<Write>,
    before: Vec<Item<RecordReply>>,
    answers: &[Item<RecordReply>],
) -> Vec<Action> {
    let before = before.into_iter().map(|seen| match seen {
        Ok(RecordReply::Record(record)) => record.map(|record| record.value),
        _ => None,
    });
    let action = |(write, before): (Write, Option<bytes::Bytes>)| {
        let (prefix, show): (&str, fn(&[u8]) -> Value) = match write.sort {
            Sort::Key => (keys::PREFIX, keys::shown),
            Sort::Kind => (kinds::PREFIX, kinds::shown),
            Sort::Schedule => (schedules::PREFIX, schedules::shown),
            Sort::Bulk => (bulk::PREFIX, bulk::shown),
            // Records of applications: their content is not logged.
            Sort::Other => ("", |bytes| json!({ "bytes": bytes.len() })),
        };
        let done = answers.get(write.index).is_some_and(Result::is_ok);
        let mut action = Action::new(who, name(&write, before.is_some()));
        action.target(write.key.strip_prefix(prefix).unwrap_or(&write.key), done);
        action.before(before.as_deref().map(show)).after(write.value.as_deref().map(show))
    };
    reported.into_iter().zip(before).map(action).collect()
}

const fn name(write: &Write, existed: bool) -> &'static str {
    match (write.sort, write.value.is_some(), existed) {
        (Sort::Key, true, false) => "key.create",
        // The only possible change of a key is its revocation.
        (Sort::Key, true, true) => "key.revoke",
        (Sort::Key, false, _) => "key.remove",
        (Sort::Kind, true, _) => "kind.register",
        (Sort::Kind, false, _) => "kind.unregister",
        (Sort::Schedule, true, false) => "schedule.create",
        (Sort::Schedule, true, true) => "schedule.change",
        (Sort::Schedule, false, _) => "schedule.remove",
        (Sort::Bulk, true, false) => "bulk.start",
        (Sort::Bulk, true, true) => "bulk.cancel",
        (Sort::Bulk, false, _) => "bulk.remove",
        (Sort::Other, true, _) => "record.put",
        (Sort::Other, false, _) => "record.delete",
    }
}

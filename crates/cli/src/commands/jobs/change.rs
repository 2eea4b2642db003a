//! Applies one change to many jobs, with a result for each.

use crate::exit;
use crate::output::{print, print_json};
use crate::store::Common;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;
use windlass::Client;
use windlass_core::JobId;
use windlass_core::engine::{self, Change, ChangeItem, Get};
use windlass_core::limits::BATCH_MAX;
use windlass_core::model::State;
use windlass_services::Kinds;
use windlass_wire::{Changed, Item};

/// Changes jobs, with `if_state` only those in that state, and prints the result of each.
pub(in crate::commands) async fn change_all(
    client: &Client,
    common: &Common,
    ids: Vec<JobId>,
    change: &Change,
    if_state: Option<State>,
) -> Result<ExitCode> {
    check_sensitive(client, &ids, change).await?;
    let item = |id: &JobId| {
        let mut item = ChangeItem::new(*id, change.clone());
        item.if_state = if_state;
        item
    };
    let answers = client.change_each(ids.iter().map(item)).await;
    let (count, mut refused) = (ids.len(), Vec::new());
    for (id, answer) in ids.into_iter().zip(answers) {
        match answer {
            Ok(changed) => done(common, changed)?,
            Err(error) if common.json => {
                let (code, detail) = (error.code(), error.to_string());
                print_json(&json!({ "ok": false, "id": id, "code": code, "detail": detail }))?;
                refused.push(error);
            }
            Err(error) => refused.push(error),
        }
    }
    // With a single job, its error is the error of the command.
    if count == 1
        && let Some(error) = refused.pop()
    {
        return Err(error.into());
    }
    if !common.json {
        refused.iter().for_each(|error| eprintln!("error: {error}"));
    }
    Ok(if refused.is_empty() { ExitCode::SUCCESS } else { exit::partly() })
}

/// Fails if a replay includes jobs of sensitive kinds without confirmation. A server checks this itself; an
/// engine that is opened directly does not.
pub(in crate::commands) async fn check_sensitive(
    client: &Client,
    ids: &[JobId],
    change: &Change,
) -> Result<()> {
    let Change::Replay(edits) = change else { return Ok(()) };
    let mut kinds = Vec::new();
    for ids in ids.chunks(BATCH_MAX) {
        let found = client.engine().get(Get::new(ids.iter().copied())).await?.value;
        kinds.extend(found.into_iter().flatten().map(|job| job.header.kind));
    }
    let registered = Kinds::new(client.engine().clone());
    Ok(registered.check_replay(kinds, edits.confirm.as_deref()).await?)
}

fn done(common: &Common, changed: engine::Changed) -> Result<()> {
    if common.json {
        return print_json(&Item(Ok(Changed::from(changed))));
    }
    let state = changed.state.map_or("gone", State::as_str);
    print(&format!("{}  {state}\n", changed.id))
}

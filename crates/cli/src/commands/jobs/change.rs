//! The same change for many jobs, with an answer for each.

use crate::exit;
use crate::output::{print, print_json};
use crate::store::Common;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;
use windlass::Client;
use windlass_core::JobId;
use windlass_core::engine::{Change, Changed};

/// Changes jobs, and says what became of each.
pub(in crate::commands) async fn change_all(
    client: &Client,
    common: &Common,
    ids: Vec<JobId>,
    change: &Change,
) -> Result<ExitCode> {
    let answers = client.change_all(ids.iter().copied(), change.clone()).await;
    let (count, mut refused) = (ids.len(), Vec::new());
    for (id, answer) in ids.into_iter().zip(answers) {
        match answer {
            Ok(changed) => done(common, changed)?,
            Err(error) if common.json => {
                let (code, message) = (error.code(), error.to_string());
                print_json(&json!({ "id": id, "error": { "code": code, "message": message } }))?;
                refused.push(error);
            }
            Err(error) => refused.push(error),
        }
    }
    // One job, one error: that is the error of the command.
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

fn done(common: &Common, changed: Changed) -> Result<()> {
    if common.json {
        return print_json(&json!({ "id": changed.id, "state": changed.state }));
    }
    let state = changed.state.map_or("gone", windlass_core::model::State::as_str);
    print(&format!("{}  {state}\n", changed.id))
}

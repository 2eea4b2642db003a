//! `windlass jobs why`: why a job is not running, and what to do about it.

use super::list::colour;
use crate::output::{Colour, ago, paint, print, print_json};
use crate::store::Common;
use crate::views::instant;
use anyhow::Result;
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;
use windlass_core::engine::{Cause, Explanation};
use windlass_core::{JobId, Timestamp};
use windlass_services::explain;

/// Explains why a job is not running.
pub(super) async fn why(common: &Common, id: JobId) -> Result<ExitCode> {
    let client = common.open().await?;
    let answer = explain(client.engine(), id).await?;
    if common.json {
        print_json(&view(answer.value)?)?;
    } else {
        print(&described(&answer.value, answer.now)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The explanation as in the API, with times in the format of the other commands.
fn view(why: Explanation) -> Result<Value> {
    let mut view = serde_json::to_value(windlass_wire::Explanation::from(why))?;
    let causes = view["causes"].as_array_mut().into_iter().flatten();
    for cause in causes.filter_map(Value::as_object_mut) {
        for field in ["since", "until"] {
            if let Some(at) = cause.get_mut(field)
                && let Some(ms) = at.as_i64()
            {
                *at = instant(Timestamp::from_millis(ms)).into();
            }
        }
    }
    Ok(view)
}

fn described(why: &Explanation, now: Timestamp) -> Result<String> {
    let mut text = String::new();
    let state = paint(why.state.as_str(), colour(why.state));
    writeln!(text, "{}  {state}  queue {}, kind {}", why.id, why.queue, why.kind)?;
    for (number, cause) in (1..).zip(&why.causes) {
        let code = paint(cause.code.as_str(), Colour::Strong);
        writeln!(text, "{number}. {code}: {}{}", why.message(cause), times(cause, now))?;
        if let Some(error) = &cause.error {
            writeln!(text, "   {}", paint(&error.to_string(), Colour::Bad))?;
        }
        writeln!(text, "   {}", paint(&why.way_out(cause), Colour::Faint))?;
    }
    Ok(text)
}

/// Since when a cause applies, and until when.
fn times(cause: &Cause, now: Timestamp) -> String {
    let times = [("since", cause.since), ("until", cause.until)];
    let times = times.into_iter().filter_map(|(label, at)| Some((label, at?)));
    let times: Vec<String> =
        times.map(|(label, at)| format!("{label} {at}, {}", ago(at, now))).collect();
    if times.is_empty() { String::new() } else { format!(" ({})", times.join("; ")) }
}

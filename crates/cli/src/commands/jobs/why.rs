//! `windlass jobs why`: why a job is not running, and what to do about it.

use super::list::colour;
use crate::hints;
use crate::ids::{self, IdArg};
use crate::output::{Colour, ago, paint, print, print_json};
use crate::store::Common;
use anyhow::Result;
use std::fmt::Write as _;
use std::process::ExitCode;
use windlass_core::Timestamp;
use windlass_core::engine::{Cause, Explanation};
use windlass_services::explain;

/// Explains why a job is not running.
pub(super) async fn why(common: &Common, id: IdArg) -> Result<ExitCode> {
    let client = common.open().await?;
    let id = ids::one(&client, id).await?;
    let answer = explain(client.engine(), id).await?;
    if common.json {
        print_json(&windlass_wire::Explanation::from(answer.value))?;
    } else {
        print(&described(&answer.value, answer.now)?)?;
    }
    Ok(ExitCode::SUCCESS)
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
        writeln!(text, "   {}", paint(&hints::complete(&why.way_out(cause)), Colour::Faint))?;
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

//! `windlass status`: the state of a store in a few lines.

use crate::output::{Colour, paint, print, print_json};
use crate::store::{Common, block_on};
use anyhow::Result;
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;
use windlass_core::engine::{LaneSums, StatsRequest};
use windlass_core::time::rough_span;
use windlass_wire::{Capabilities, Counts};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        block_on(status(&self.common))
    }
}

async fn status(common: &Common) -> Result<ExitCode> {
    let client = common.open().await?;
    let engine = client.engine();
    let stats = engine.stats(StatsRequest::default()).await?;
    let sums = LaneSums::of(&stats.value);
    let settings = client.settings().await?;
    let paused = settings.queues.iter().filter(|(_, settings)| settings.paused);
    let paused: Vec<&str> = paused.map(|(name, _)| &**name).collect();
    let workers = client.sessions().await?;
    let slots: u64 =
        workers.iter().filter_map(|worker| worker.info.concurrency).map(u64::from).sum();
    let (url, capabilities) = (common.url()?, engine.capabilities());
    let (now, age) = (stats.now, sums.oldest.map(|at| stats.now.since(at)));
    if common.json {
        print_json(&json!({
            "store": url.to_string(), "capabilities": Capabilities::from(capabilities), "now": now,
            "counts": Counts::from(sums), "head_age_ms": age, "workers": workers.len(),
            "paused_queues": paused,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let oldest = age.map(|age| format!(", the first for {}", rough_span(age))).unwrap_or_default();
    let dead = match sums.dead {
        0 => "none".to_owned(),
        dead => paint(&format!("{dead}; see `windlass dead`"), Colour::Bad),
    };
    let facts = [
        ("store", format!("{url} ({})", capabilities.engine)),
        ("waiting", format!("{} jobs", sums.depth)),
        ("ready", format!("{} jobs{oldest}", sums.available)),
        ("running", format!("{} jobs", sums.running)),
        ("dead", dead),
        ("paused", if paused.is_empty() { "no queue".to_owned() } else { paused.join(", ") }),
        ("workers", format!("{}, with {slots} slots", workers.len())),
    ];
    let mut text = String::new();
    for (name, value) in facts {
        writeln!(text, "{} {value}", paint(&format!("{name:<8}"), Colour::Faint))?;
    }
    print(&crate::hints::complete(&text))?;
    Ok(ExitCode::SUCCESS)
}

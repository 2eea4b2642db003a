//! `windlass kinds`: depth, age and settings by kind, on whatever queue; pause, resume, set.

use super::queues::{Sums, configure};
use crate::output::{Cell, Colour, Table, print, print_json};
use crate::store::{Common, block_on};
use crate::values::{self, Limit};
use anyhow::Result;
use clap::Subcommand;
use std::collections::BTreeMap;
use std::process::ExitCode;
use windlass_core::engine::{Configure, StatsRequest};
use windlass_core::model::{KindPatch, KindSettings};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List kinds (also without a word)
    List,
    /// Let no job of these kinds start; what runs goes on
    Pause(Names),
    /// Let their jobs start again
    Resume(Names),
    /// Change the settings of a kind
    Set {
        /// The kind
        kind: String,
        /// How many more of its jobs may start; `none` lifts the limit
        #[arg(long, value_name = "N", value_parser = values::count_limit::<u32>)]
        permits: Limit<u32>,
    },
}

#[derive(Debug, clap::Args)]
struct Names {
    /// The kinds
    #[arg(required = true, value_name = "KIND")]
    names: Vec<String>,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { common, action } = self;
        let paused = |names: Names, paused| {
            let patch = |name: String| Configure::kind(name, KindPatch::paused(paused));
            names.names.into_iter().map(patch).collect()
        };
        let changes = match action {
            None | Some(Action::List) => return block_on(list(&common)),
            Some(Action::Pause(names)) => paused(names, true),
            Some(Action::Resume(names)) => paused(names, false),
            Some(Action::Set { kind, permits }) => {
                vec![Configure::kind(kind, KindPatch::permits(permits.0))]
            }
        };
        block_on(async {
            configure(&common, changes).await?;
            list(&common).await
        })
    }
}

async fn list(common: &Common) -> Result<ExitCode> {
    let client = common.open().await?;
    let stats = client.engine().stats(StatsRequest::default()).await?;
    let mut kinds: BTreeMap<String, (Sums, KindSettings)> = BTreeMap::new();
    for (name, settings) in client.settings().await?.kinds {
        kinds.entry(name.to_string()).or_default().1 = settings;
    }
    for lane in &stats.value {
        kinds.entry(lane.kind.to_string()).or_default().0.add(lane);
    }
    if common.json {
        let view = |(name, (sums, settings)): (&String, &(Sums, KindSettings))| {
            let mut value = sums.value();
            value["kind"] = name.as_str().into();
            value["paused"] = settings.paused.into();
            value["permits"] = settings.permits.into();
            value
        };
        print_json(&kinds.iter().map(view).collect::<Vec<_>>())?;
    } else if kinds.is_empty() {
        eprintln!("no kinds: nothing was enqueued yet");
    } else {
        let heads = [
            "KIND",
            "DEPTH",
            "READY",
            "SCHEDULED",
            "BLOCKED",
            "RUNNING",
            "DEAD",
            "OLDEST",
            "SETTINGS",
        ];
        let mut table = Table::new(heads);
        for (name, (sums, settings)) in &kinds {
            let mut cells = vec![Cell::text(name)];
            cells.extend(sums.cells(stats.now));
            cells.push(words(settings));
            table.row(cells);
        }
        print(&table.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn words(settings: &KindSettings) -> Cell {
    let permits = settings.permits.map(|permits| format!("{permits} permits"));
    let paused = settings.paused.then(|| "paused".to_owned());
    let words: Vec<_> = [paused, permits].into_iter().flatten().collect();
    Cell::text(words.join(", ")).colour(Colour::Notice)
}

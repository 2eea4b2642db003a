//! `windlass kinds`: lists depth, age and settings per kind across all queues; pauses, resumes, configures and
//! registers kinds.

mod register;

use super::queues::{configure, count_cells, listed};
use crate::output::{Cell, Colour, Table, note, print, print_json};
use crate::store::{Common, block_on};
use crate::values::{self, Limit};
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;
use windlass_core::engine::Configure;
use windlass_core::model::KindPatch;
use windlass_server::documents;
use windlass_wire::KindOverview;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List kinds (the default)
    List,
    /// Pause kinds: none of their jobs starts; running jobs continue
    Pause(Names),
    /// Resume kinds
    Resume(Names),
    /// Register a kind, or replace all its rules: schema, limits and breaker
    Register(Box<register::Register>),
    /// Remove the rules of a kind; its jobs stay
    Unregister {
        /// Name of the kind
        kind: String,
    },
    /// Show the rules of a kind and the state of its breaker
    Show {
        /// Name of the kind
        kind: String,
    },
    /// Change the settings of a kind
    Set {
        /// Name of the kind
        kind: String,
        /// Number of further jobs of the kind that may start; `none` removes the limit
        #[arg(long, value_name = "N", value_parser = values::count_limit::<u32>, required_unless_present = "limit")]
        permits: Option<Limit<u32>>,
        /// Limit that jobs of the kind run under, beside those of their queues; repeat it for more. `none` removes all
        #[arg(long, value_name = "NAME")]
        limit: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Names {
    /// Names of the kinds
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
            Some(Action::Register(args)) => return block_on(args.run(&common)),
            Some(Action::Unregister { kind }) => return block_on(register::forget(&common, &kind)),
            Some(Action::Show { kind }) => return block_on(register::show(&common, &kind)),
            Some(Action::Pause(names)) => paused(names, true),
            Some(Action::Resume(names)) => paused(names, false),
            Some(Action::Set { kind, permits, limit }) => {
                let mut patch = KindPatch::default();
                patch.permits = permits.map(|permits| permits.0);
                patch.limits = listed(&limit);
                vec![Configure::kind(kind, patch)]
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
    let kinds = documents::kinds(client.engine()).await?.value;
    if common.json {
        print_json(&windlass_wire::Kinds { kinds, next: None })?;
    } else if kinds.is_empty() {
        note("no kinds: nothing has been enqueued");
    } else {
        let heads = [
            "KIND",
            "DEPTH",
            "READY",
            "SCHEDULED",
            "BLOCKED",
            "PAUSED",
            "RUNNING",
            "COMPLETED",
            "DEAD",
            "OLDEST",
            "SETTINGS",
        ];
        let mut table = Table::new(heads);
        for kind in &kinds {
            let overview = &kind.overview;
            let mut cells = vec![Cell::text(&*overview.name)];
            cells.extend(count_cells(&overview.counts, overview.head_age_ms));
            cells.push(words(kind));
            table.row(cells);
        }
        print(&table.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn words(kind: &KindOverview) -> Cell {
    let open = kind.breaker.as_ref().and_then(|breaker| breaker.since);
    let settings = &kind.overview.settings;
    // While the breaker is open, it controls the permits.
    let permits = settings.permits.filter(|_| open.is_none());
    let words = [
        settings.paused.then(|| "paused".to_owned()),
        open.map(|_| "breaker open".to_owned()),
        permits.map(|permits| format!("{permits} permits")),
        kind.registered.then(|| "registered".to_owned()),
        kind.checks.as_ref().map(|checks| match checks.failed {
            0 => format!("checked by {}", checks.kind),
            failed => format!("checked by {} ({failed} failed)", checks.kind),
        }),
        (!settings.limits.is_empty()).then(|| format!("limits {}", settings.limits.join(" "))),
    ];
    let words: Vec<_> = words.into_iter().flatten().collect();
    let cell = Cell::text(words.join(", "));
    let has_failed = kind.checks.as_ref().is_some_and(|checks| checks.failed > 0);
    let is_held = settings.paused || open.is_some() || permits.is_some() || has_failed;
    if is_held { cell.colour(Colour::Notice) } else { cell }
}

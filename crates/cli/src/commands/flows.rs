//! `windlass flows`: shows, cancels and replays graphs of jobs; stores one for `windlass enqueue --flow`.

mod definition;
mod graph;

use crate::output::{Cell, Table, print, print_json};
use crate::store::{Common, block_on};
use anyhow::{Result, bail};
use clap::Subcommand;
use std::process::ExitCode;
use windlass_core::engine::{Changed, Enqueue, Item};
use windlass_core::id::Ids;
use windlass_core::model::{Finish, Job, Name, State};
use windlass_core::random::SystemRandom;
use windlass_services::{cancel_flow, flow_jobs, replay_flow};
use windlass_wire::{Flow, StoredFlow};

/// Characters of a result that the table shows; `--json` has them all.
const RESULT_CHARS_MAX: usize = 60;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the jobs of a flow, their states, and what they run after
    Show {
        /// Name of the flow
        flow: String,
        /// Print the graph in the language of Graphviz
        #[arg(long, conflicts_with = "mermaid")]
        dot: bool,
        /// Print the graph as a Mermaid flowchart
        #[arg(long)]
        mermaid: bool,
    },
    /// Cancel all jobs of a flow that have not ended
    Cancel {
        /// Name of the flow
        flow: String,
    },
    /// Replay all jobs of a flow that ended without being completed, in the order of their dependencies
    #[command(visible_alias = "retry")]
    Replay {
        /// Name of the flow
        flow: String,
    },
}

/// A format of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Dot,
    Mermaid,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { common, action } = self;
        block_on(async {
            match action {
                Action::Show { flow, dot, mermaid } => {
                    let format = match (dot, mermaid) {
                        (true, _) => Format::Dot,
                        (false, true) => Format::Mermaid,
                        (false, false) => Format::Text,
                    };
                    show(&common, &flow.into(), format).await
                }
                Action::Cancel { flow } => {
                    let client = common.open().await?;
                    let changed = cancel_flow(&**client.engine(), &flow.into()).await?;
                    report("cancelled", changed.value)
                }
                Action::Replay { flow } => {
                    let client = common.open().await?;
                    let changed = replay_flow(&**client.engine(), &flow.into()).await?;
                    report("replayed", changed.value)
                }
            }
        })
    }
}

/// Stores a graph of jobs, all or nothing.
pub(super) async fn add(common: &Common, graph: &str) -> Result<ExitCode> {
    let graph = definition::read(graph)?;
    let client = common.open_or_create().await?;
    let engine = client.engine();
    let now = engine.health().await?.now;
    let mut ids = Ids::default();
    let (flow, nodes) = graph.into_core(|| ids.next(now, &SystemRandom))?;
    let (names, jobs): (Vec<String>, Vec<_>) = nodes.into_iter().unzip();
    let items = engine.enqueue(Enqueue::all_or_nothing(jobs)).await?.value;
    let mut stored = StoredFlow { flow, nodes: Default::default() };
    for (name, item) in names.into_iter().zip(items) {
        match item {
            Ok(enqueued) => drop(stored.nodes.insert(name, enqueued.into())),
            // Another node of the graph is the reason.
            Err(windlass_core::Error::Aborted { .. }) => {}
            Err(error) => return Err(error.within(format_args!("nodes.{name}")).into()),
        }
    }
    if common.json {
        print_json(&stored)?;
    } else {
        print(&format!("{}\n", stored.flow))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(common: &Common, flow: &Name, format: Format) -> Result<ExitCode> {
    let client = common.open().await?;
    let jobs = flow_jobs(&**client.engine(), flow).await?.value;
    if common.json {
        print_json(&Flow::new(flow.clone(), jobs))?;
        return Ok(ExitCode::SUCCESS);
    }
    if jobs.is_empty() {
        bail!("no jobs belong to flow {flow:?}");
    }
    match format {
        Format::Text => print(&format!("{}\n{}", summary(flow, &jobs), table(&jobs)))?,
        Format::Dot => print(&graph::dot(&jobs))?,
        Format::Mermaid => print(&graph::mermaid(&jobs))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The number of jobs by state, e.g. `flow f: 3 jobs, 2 completed, 1 blocked`.
fn summary(flow: &Name, jobs: &[Job]) -> String {
    let count = |state| jobs.iter().filter(|job| job.state == state).count();
    let states = State::ALL.map(|state| (state, count(state))).into_iter();
    let states = states.filter(|(_, count)| *count > 0);
    let states: String = states.map(|(state, count)| format!(", {count} {state}")).collect();
    let jobs = jobs.len();
    format!("flow {flow}: {jobs} job{}{states}", if jobs == 1 { "" } else { "s" })
}

/// The result of a job, or why it ended without one.
fn outcome(job: &Job) -> String {
    let text = match (&job.result, &job.finish) {
        (Some(result), _) if result.envelope().is_some() => "(encoded)".to_owned(),
        (Some(result), _) => String::from_utf8_lossy(&result.bytes).into_owned(),
        (None, Some(Finish::Dependency(upstream))) => format!("after {upstream}"),
        (None, _) if job.state == State::Completed => String::new(),
        (None, Some(_)) => {
            job.error.as_ref().map_or_else(String::new, |error| error.message.clone())
        }
        (None, None) => String::new(),
    };
    match text.char_indices().nth(RESULT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn table(jobs: &[Job]) -> String {
    let mut table = Table::new(["ID", "KIND", "QUEUE", "STATE", "AFTER", "RESULT"]);
    for job in jobs {
        let after = job.inputs.iter().map(|input| match &input.name {
            Some(name) => name.clone(),
            None => input.job.to_string(),
        });
        table.row(vec![
            Cell::text(job.header.id.to_string()),
            Cell::text(&*job.header.kind),
            Cell::text(&*job.header.queue),
            Cell::text(job.state.as_str()),
            Cell::text(after.collect::<Vec<_>>().join(", ")),
            Cell::text(outcome(job)),
        ]);
    }
    table.to_string()
}

/// Prints the number of changed jobs, and each refusal.
fn report(done: &str, items: Vec<Item<Changed>>) -> Result<ExitCode> {
    let (changed, refused): (Vec<_>, Vec<_>) = items.into_iter().partition(Result::is_ok);
    for error in refused.iter().filter_map(|item| item.as_ref().err()) {
        eprintln!("{error}");
    }
    print(&format!("{done} {}\n", changed.len()))?;
    Ok(if refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

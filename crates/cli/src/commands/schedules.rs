//! `windlass schedules`: manages recurring jobs. They fire in any process that hosts the services (`work`,
//! `serve`).

use crate::job_args::{self, JobArgs};
use crate::output::{Cell, Colour, Table, ago, note, paint, print, print_json, warn};
use crate::store::{Common, OpenStore, block_on};
use crate::values::{self, When};
use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_core::limits::PAGE_MAX;
use windlass_core::policy::{Missed, Schedule, Timing};
use windlass_core::time::{Clock as _, SystemClock, rough_span};
use windlass_server::documents;
use windlass_services::{ScheduleView, Schedules};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List schedules (the default)
    List,
    /// Show a schedule, with the job that it enqueues
    Show {
        /// Name of the schedule
        name: String,
    },
    /// Add a schedule, or replace the one with this name
    Add(Box<Add>),
    /// Remove schedules; jobs that they enqueued stay
    Remove(Names),
    /// Pause schedules
    Pause(Names),
    /// Resume schedules; runs missed while paused are not made up
    Resume(Names),
    /// Enqueue the job of a schedule now; its timing does not change
    Trigger {
        /// Name of the schedule
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct Names {
    /// Names of the schedules
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass schedules add report send_report '{\"to\":\"ada\"}' --cron '0 6 * * *' --zone Europe/Berlin
  windlass schedules add sweep clean_up --every 15m --queue slow
  windlass schedules add sync pull_orders --after-completion 5m")]
struct Add {
    /// Name of the schedule
    name: String,
    /// Kind of the jobs to enqueue
    kind: String,
    /// Payload of the jobs as JSON; `-` reads it from stdin, `@FILE` from a file
    #[arg(value_name = "JSON|-|@FILE")]
    payload: Option<String>,
    /// Cron line: minute, hour, day, month, weekday; or @daily and similar
    #[arg(long, value_name = "LINE", required_unless_present_any = ["every", "after_completion"])]
    cron: Option<String>,
    /// Time zone of the cron line
    #[arg(long, value_name = "ZONE", default_value = "UTC", requires = "cron")]
    zone: String,
    /// Interval between runs
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms, conflicts_with = "cron")]
    every: Option<u64>,
    /// Time between the end of a job and the next run: runs do not overlap
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms, conflicts_with_all = ["cron", "every"])]
    after_completion: Option<u64>,
    /// Time before which the schedule does not fire: 2030-01-31T09:00:00Z, or +1h (in an hour)
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    start: Option<When>,
    /// Time after which the schedule does not fire
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    end: Option<When>,
    /// Maximum number of runs in total
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// How to handle missed runs
    #[arg(long, value_enum, default_value_t = MissedName::Once)]
    missed: MissedName,
    #[command(flatten)]
    job: JobArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MissedName {
    /// Skip all missed runs
    Skip,
    /// Make up for all missed runs with one
    Once,
    /// Make up for each missed run
    All,
}

impl Add {
    fn schedule(&self, now: Timestamp) -> Result<Schedule> {
        let mut schedule = match (&self.cron, self.every, self.after_completion) {
            (Some(line), _, _) => Schedule::cron(line, &self.zone),
            (None, Some(ms), _) => Schedule::every_ms(ms),
            (None, None, Some(ms)) => Schedule::after_completion_ms(ms),
            (None, None, None) => bail!(
                "the timing is missing: use --cron LINE, --every TIME or --after-completion TIME"
            ),
        };
        schedule.start = self.start.map(|start| start.at(now));
        schedule.end = self.end.map(|end| end.at(now));
        schedule.limit = self.limit;
        Ok(schedule.missed(match self.missed {
            MissedName::Skip => Missed::Skip,
            MissedName::Once => Missed::Once,
            MissedName::All => Missed::All,
        }))
    }
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        block_on(self.act())
    }

    async fn act(self) -> Result<ExitCode> {
        let (common, action) = (&self.common, self.action.unwrap_or(Action::List));
        let OpenStore { client, audited } = match &action {
            Action::Add(_) => common.reach_or_create().await?,
            _ => common.reach().await?,
        };
        let schedules = Schedules::new(Arc::clone(client.engine()));
        match action {
            Action::List => list(common, &schedules).await?,
            Action::Show { name } => {
                let Some(schedule) = schedules.get(&name).await? else {
                    bail!("schedule {name:?} does not exist; see `windlass schedules list`");
                };
                describe(common, schedule)?;
            }
            Action::Add(add) => {
                let now = client.engine().health().await?.now;
                let mut job = add.job.job(&add.kind);
                if let Some(text) = &add.payload {
                    job = job.payload(job_args::payload(text, false)?);
                }
                show(common, schedules.put(&add.name, add.schedule(now)?, job).await?)?;
            }
            Action::Remove(names) => {
                for name in &names.names {
                    if !schedules.remove(name).await? {
                        bail!("schedule {name:?} does not exist; see `windlass schedules list`");
                    }
                }
            }
            Action::Pause(names) => {
                for name in &names.names {
                    show(common, schedules.pause(name).await?)?;
                }
            }
            Action::Resume(names) => {
                for name in &names.names {
                    show(common, schedules.resume(name).await?)?;
                }
            }
            Action::Trigger { name } => {
                let enqueued = schedules.trigger(&name).await?;
                if let Some(audited) = audited {
                    audited.record("schedule.trigger", &name).await;
                }
                match common.json {
                    true => print_json(&windlass_wire::Enqueued::from(enqueued))?,
                    false => print(&format!("{}\n", enqueued.id))?,
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn list(common: &Common, schedules: &Schedules) -> Result<()> {
    let (mut rows, mut unreadable, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = schedules.list(after, PAGE_MAX).await?;
        rows.extend(page.rows);
        unreadable.extend(page.unreadable);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if common.json {
        let schedules = rows.into_iter().map(documents::schedule).collect();
        return print_json(&windlass_wire::SchedulePage { schedules, unreadable, next: None });
    }
    for name in unreadable {
        warn(&format!(
            "schedule {name:?} cannot be read and does not fire; add it again or remove it"
        ));
    }
    if rows.is_empty() {
        note("no schedules");
        return Ok(());
    }
    print(&table(&rows).to_string())
}

/// Shows one schedule.
fn show(common: &Common, schedule: ScheduleView) -> Result<()> {
    match common.json {
        true => print_json(&documents::schedule(schedule)),
        false => print(&table(&[schedule]).to_string()),
    }
}

fn table(rows: &[ScheduleView]) -> Table {
    let now = SystemClock.now();
    let mut table = Table::new(["NAME", "WHEN", "KIND", "QUEUE", "NEXT", "LAST", "FIRED", "ERROR"]);
    for row in rows {
        let next = match (row.paused, row.next, row.awaits) {
            (true, _, _) => Cell::text("paused").colour(Colour::Notice),
            (false, Some(next), _) => Cell::text(ago(next, now)),
            (false, None, Some(job)) => Cell::text(format!("after {job}")),
            (false, None, None) => Cell::text("over").colour(Colour::Faint),
        };
        table.row([
            Cell::text(&row.name),
            Cell::text(timing(&row.schedule.timing)),
            Cell::text(&*row.job.kind),
            Cell::text(&*row.job.queue),
            next,
            Cell::text(row.last_fire.map(|at| ago(at, now)).unwrap_or_default()),
            Cell::count(row.fired),
            Cell::text(
                row.last_error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
            )
            .colour(Colour::Bad),
        ]);
    }
    table
}

fn timing(timing: &Timing) -> String {
    match timing {
        Timing::Cron { line, zone } => format!("{line} ({zone})"),
        Timing::Every { every_ms, .. } => format!("every {}", rough_span(*every_ms)),
        Timing::AfterCompletion { after_ms } => {
            format!("{} after completion", rough_span(*after_ms))
        }
        _ => "otherwise".to_owned(),
    }
}

/// Shows a schedule with its job.
fn describe(common: &Common, schedule: ScheduleView) -> Result<()> {
    if common.json {
        return show(common, schedule);
    }
    let (start, end) = (schedule.schedule.start, schedule.schedule.end);
    let limit = schedule.schedule.limit;
    let mut text = table(std::slice::from_ref(&schedule)).to_string();
    let facts = [
        ("starts", start.map(|at| at.to_string())),
        ("ends", end.map(|at| at.to_string())),
        ("runs at most", limit.map(|limit| format!("{limit} times"))),
        ("job", Some(serde_json::to_string(&windlass_wire::NewJob::from(schedule.job))?)),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            writeln!(text, "{} {value}", paint(&format!("{name:<12}"), Colour::Faint))?;
        }
    }
    print(&text)
}

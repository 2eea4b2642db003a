//! Lists jobs page by page, as a table or as JSON.

use crate::output::{Cell, Colour, Table, ago, note, print, print_json};
use crate::store::Common;
use crate::values::{self, When};
use crate::views::{JobView, PageView};
use anyhow::Result;
use std::process::ExitCode;
use windlass_core::engine::{Cursor, Field, Filter, List, ListOrder};
use windlass_core::limits::{PAGE_DEFAULT, PAGE_MAX};
use windlass_core::model::{Job, State};
use windlass_core::{IdPrefix, JobId, Timestamp};

/// Maximum number of characters of an error in the table.
const ERROR_CHARS_MAX: usize = 60;
/// Maximum number of pages read for one list: the pages of a filter that matches few jobs may be short.
const PAGES_MAX: usize = 100;

/// Selects the jobs to list.
#[derive(Debug, PartialEq, clap::Args)]
pub(in crate::commands) struct ListArgs {
    /// Only jobs of this queue
    #[arg(long, short, value_name = "NAME")]
    pub(in crate::commands) queue: Option<String>,
    /// Only jobs of this kind
    #[arg(long, short, value_name = "NAME")]
    pub(in crate::commands) kind: Option<String>,
    #[command(flatten)]
    search: SearchArgs,
    /// Maximum number of jobs
    #[arg(long, short, value_name = "N", default_value_t = PAGE_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_MAX)))]
    limit: u32,
    /// List the earliest first, by the time the list is about; the default for scheduled jobs
    #[arg(long, conflicts_with = "newest")]
    oldest: bool,
    /// List the latest first, by the time the list is about; the default for all other jobs
    #[arg(long)]
    newest: bool,
    /// Cursor printed by an earlier list, after which to continue
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl Default for ListArgs {
    fn default() -> Self {
        Self {
            queue: None,
            kind: None,
            search: SearchArgs::default(),
            limit: PAGE_DEFAULT,
            oldest: false,
            newest: false,
            after: None,
        }
    }
}

/// Filters by attributes, times and content.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(in crate::commands) struct SearchArgs {
    /// Only jobs of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only jobs with this ordering key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only jobs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only children of this job
    #[arg(long, value_name = "ID")]
    parent: Option<JobId>,
    /// Only jobs of this flow
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
    /// Only jobs that were enqueued, or, in a state of ended jobs, that ended, at or after this time:
    /// 2030-01-31T09:00:00Z, 1h (an hour ago), +1h (in an hour)
    #[arg(long, value_name = "TIME", value_parser = values::when, conflicts_with_all = ["created_from", "ended_from"])]
    since: Option<When>,
    /// The same before this time
    #[arg(long, value_name = "TIME", value_parser = values::when, conflicts_with_all = ["created_until", "ended_until"])]
    until: Option<When>,
    /// Only jobs enqueued at or after this time
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    created_from: Option<When>,
    /// Only jobs enqueued before this time
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    created_until: Option<When>,
    /// Only jobs due at or after this time
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    due_from: Option<When>,
    /// Only jobs due before this time
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    due_until: Option<When>,
    /// Only jobs that ended at or after this time
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    ended_from: Option<When>,
    /// Only jobs that ended before this time
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    ended_until: Option<When>,
    /// Only jobs whose id starts with these hex digits
    #[arg(long = "id", value_name = "DIGITS")]
    id_prefix: Option<IdPrefix>,
    /// Only jobs with this text in their payload or last error; upper and lower case are the same
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only jobs with this value in a field of their JSON, e.g. payload.customer=42 or metadata.source=import; can be
    /// repeated
    #[arg(long = "where", value_name = "FIELD=VALUE", value_parser = values::field)]
    fields: Vec<(Field, String)>,
}

impl SearchArgs {
    /// Whether a time is relative to the store's clock.
    fn needs_now(&self) -> bool {
        let times = [self.since, self.until, self.created_from, self.created_until];
        let others = [self.due_from, self.due_until, self.ended_from, self.ended_until];
        times.into_iter().chain(others).flatten().any(|when| !matches!(when, When::At(_)))
    }

    /// Adds these criteria to `filter`, which has the state.
    pub(in crate::commands) fn narrow(&self, mut filter: Filter, now: Timestamp) -> Filter {
        let at = |when: Option<When>| when.map(|when| when.at(now));
        let (since, until) = (at(self.since), at(self.until));
        let (ended, created) = match filter.state.is_some_and(State::is_terminal) {
            true => ((since, until), (None, None)),
            false => ((None, None), (since, until)),
        };
        filter.tenant.clone_from(&self.tenant);
        filter.key.clone_from(&self.key);
        filter.tag.clone_from(&self.tag);
        filter.parent = self.parent;
        filter.flow = self.flow.as_deref().map(Into::into);
        filter.created_from = created.0.or(at(self.created_from));
        filter.created_until = created.1.or(at(self.created_until));
        (filter.due_from, filter.due_until) = (at(self.due_from), at(self.due_until));
        filter.ended_from = ended.0.or(at(self.ended_from));
        filter.ended_until = ended.1.or(at(self.ended_until));
        filter.id = self.id_prefix;
        filter.text.clone_from(&self.text);
        filter.fields.clone_from(&self.fields);
        filter
    }
}

/// A filter by queue, kind and state.
pub(in crate::commands) fn filter(
    queue: Option<&str>,
    kind: Option<&str>,
    state: Option<State>,
) -> Filter {
    let mut filter = Filter::default();
    filter.state = state;
    filter.queue = queue.map(Into::into);
    filter.kind = kind.map(Into::into);
    filter
}

/// Lists jobs.
pub(in crate::commands) async fn list(
    common: &Common,
    state: Option<State>,
    args: &ListArgs,
) -> Result<ExitCode> {
    let client = common.open().await?;
    let filter = filter(args.queue.as_deref(), args.kind.as_deref(), state);
    let now = match args.search.needs_now() {
        true => client.engine().health().await?.now,
        false => Timestamp::EPOCH,
    };
    let mut request = List::new(args.search.narrow(filter, now));
    request.order = match (args.oldest, args.newest) {
        (true, _) => ListOrder::Oldest,
        (_, true) => ListOrder::Newest,
        (false, false) => request.order,
    };
    let (mut jobs, mut next) = (Vec::new(), args.after.as_deref().map(Cursor::new));
    let (mut now, mut searched, mut cut_short) = (now, 0, false);
    for _ in 0..PAGES_MAX {
        let wanted = args.limit - jobs.len() as u32;
        let page = client.engine().list(request.clone().after(next.take()).limit(wanted)).await?;
        now = page.now;
        searched += page.value.examined;
        cut_short = page.value.cut_short;
        jobs.extend(page.value.rows);
        next = page.value.next;
        if next.is_none() || jobs.len() >= args.limit as usize {
            break;
        }
    }
    if common.json {
        let jobs = jobs.into_iter().map(JobView::from).collect();
        print_json(&PageView { jobs, next, examined: searched, cut_short })?;
    } else {
        print_table(&jobs, now)?;
        match next.as_ref().map(Cursor::as_str) {
            Some(next) if jobs.len() < args.limit as usize => {
                note(&format!("searched {searched} jobs so far: continue with --after {next}"));
            }
            Some(next) => note(&format!("more jobs follow: continue with --after {next}")),
            None => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_table(jobs: &[Job], now: Timestamp) -> Result<()> {
    if jobs.is_empty() {
        note("no jobs");
        return Ok(());
    }
    let mut table = Table::new(["ID", "KIND", "QUEUE", "STATE", "TRIES", "CREATED", "", "ERROR"]);
    for job in jobs {
        let header = &job.header;
        table.row([
            Cell::text(header.id.to_string()),
            Cell::text(&*header.kind),
            Cell::text(&*header.queue),
            state_cell(job.state),
            Cell::text(format!("{}/{}", header.counters.failures, header.policy.max_attempts))
                .right(),
            Cell::text(ago(header.created_at, now)),
            Cell::text(when(job, now)),
            Cell::text(
                job.error.as_ref().map(|error| short(&error.to_string())).unwrap_or_default(),
            ),
        ]);
    }
    print(&table.to_string())
}

/// The most relevant time in the job's state.
fn when(job: &Job, now: Timestamp) -> String {
    match (job.state, job.started_at, job.finished_at) {
        (State::Scheduled, ..) => format!("due {}", ago(job.header.run_at, now)),
        (State::Running, Some(at), _) => format!("started {}", ago(at, now)),
        (state, _, Some(at)) if state.is_terminal() => format!("ended {}", ago(at, now)),
        _ => String::new(),
    }
}

/// A state in its colour.
pub(in crate::commands) fn state_cell(state: State) -> Cell {
    Cell::text(state.as_str()).colour(colour(state))
}

/// The colour of a state.
pub(super) const fn colour(state: State) -> Colour {
    match state {
        State::Completed => Colour::Good,
        State::Dead | State::Expired => Colour::Bad,
        State::Running | State::Available => Colour::Strong,
        State::Paused | State::Blocked => Colour::Notice,
        State::Scheduled | State::Cancelled => Colour::Faint,
        _ => Colour::Faint,
    }
}

fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(ERROR_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

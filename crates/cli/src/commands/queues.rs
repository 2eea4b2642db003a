//! `windlass queues`: lists depth, age and settings per queue; pauses, resumes and configures queues.

use super::jobs::How;
use super::subscriptions::{Subscribe, named, unsubscribe};
use crate::output::{Cell, Colour, Table, note, paint, print, print_json, warn};
use crate::similar;
use crate::store::{Common, block_on};
use crate::values::{self, Events, Limit};
use anyhow::{Result, bail};
use clap::Subcommand;
use std::fmt::Write as _;
use std::process::ExitCode;
use windlass::Client;
use windlass_core::check_name;
use windlass_core::engine::{Configure, Filter, StatsRequest};
use windlass_core::model::{EventBounds, Name, Order, QueuePatch, QueueSettings};
use windlass_core::policy::Retention;
use windlass_core::time::rough_span;
use windlass_server::documents;
use windlass_services::BulkChange;
use windlass_wire::{Counts, Overview};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List queues (the default)
    List,
    /// Show a queue with its settings and kinds
    Show {
        /// Name of the queue
        queue: String,
    },
    /// Pause queues: none of their jobs starts; running jobs continue
    Pause(Names),
    /// Resume queues
    Resume(Names),
    /// Change the settings of a queue
    Set(Box<Set>),
    /// Make a queue a topic: a queue gets a copy of each new job. Replaces the subscription with this name
    Subscribe(Box<Subscribe>),
    /// Remove a subscription of a topic. Copies that its queue has got stay there
    Unsubscribe {
        /// Name of the topic
        topic: String,
        /// Name of the subscription
        name: String,
    },
    /// Delete all jobs of a queue, in any state. Running jobs are asked to stop, and stay until then
    Obliterate {
        /// Name of the queue
        queue: String,
        /// Name of the queue again, as a confirmation
        #[arg(long, value_name = "QUEUE", required_unless_present = "dry_run")]
        confirm: Option<String>,
        #[command(flatten)]
        how: How,
    },
}

#[derive(Debug, clap::Args)]
struct Names {
    /// Names of the queues
    #[arg(required = true, value_name = "QUEUE")]
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Set {
    /// Name of the queue
    queue: String,
    /// Maximum number of waiting jobs; more are refused. `none` removes the limit
    #[arg(long, value_name = "N", value_parser = values::count_limit::<u64>)]
    max_depth: Option<Limit<u64>>,
    /// Order of ready jobs: strict, lifo, fair, or ageing=TIME (the waiting time that outweighs one step of
    /// priority)
    #[arg(long, value_parser = values::order)]
    order: Option<Order>,
    /// Retention of all ended jobs, e.g. 7d
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    retention: Option<u64>,
    /// Retention of completed and cancelled jobs
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    keep_finished: Option<u64>,
    /// Retention of dead letters
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    keep_dead: Option<u64>,
    /// Retention of expired jobs
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    keep_expired: Option<u64>,
    /// Maximum number of completed jobs; beyond it the oldest are removed. `none` removes the limit
    #[arg(long, value_name = "N", value_parser = values::count_limit::<u64>)]
    max_completed: Option<Limit<u64>>,
    /// Maximum number of cancelled jobs. `none` removes the limit
    #[arg(long, value_name = "N", value_parser = values::count_limit::<u64>)]
    max_cancelled: Option<Limit<u64>>,
    /// Maximum number of dead letters. `none` removes the limit
    #[arg(long, value_name = "N", value_parser = values::count_limit::<u64>)]
    max_dead: Option<Limit<u64>>,
    /// Maximum number of expired jobs. `none` removes the limit
    #[arg(long, value_name = "N", value_parser = values::count_limit::<u64>)]
    max_expired: Option<Limit<u64>>,
    /// Maximum total size of dead letters, e.g. 1G; beyond it the oldest are removed. `none` removes the limit
    #[arg(long, value_name = "SIZE", value_parser = values::bytes_limit)]
    dead_bytes_max: Option<Limit<u64>>,
    /// Maximum wait of a due job, after which it expires. `none` removes the limit
    #[arg(long, value_name = "TIME", value_parser = values::time_limit)]
    max_wait: Option<Limit<u64>>,
    /// Limit that jobs of the queue run under; repeat it for more. `none` removes all
    #[arg(long, value_name = "NAME")]
    limit: Vec<String>,
    /// Record the transitions of its jobs as events: `on`, `off` (drops them), or how many to keep
    #[arg(long, value_name = "on|off|N", value_parser = values::events)]
    events: Option<Events>,
    /// Maximum age of events, e.g. 1d. Switches events on
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    events_max_age: Option<u64>,
}

impl Set {
    /// The settings to change. `now` are the current settings; the parts of its retention stay unless they are given.
    fn patch(&self, now: &QueueSettings) -> Result<QueuePatch> {
        let mut patch = QueuePatch::default();
        patch.max_depth = self.max_depth.map(|limit| limit.0);
        patch.order = self.order;
        let mut kept = self.retention.map_or(now.retention, Retention::uniform_ms);
        kept.finished_ms = self.keep_finished.unwrap_or(kept.finished_ms);
        kept.dead_ms = self.keep_dead.unwrap_or(kept.dead_ms);
        kept.expired_ms = self.keep_expired.unwrap_or(kept.expired_ms);
        let ages = [self.retention, self.keep_finished, self.keep_dead, self.keep_expired];
        patch.retention = ages.iter().any(Option::is_some).then_some(kept);
        let mut most = now.keep_max;
        let counts = [
            (&mut most.completed, self.max_completed),
            (&mut most.cancelled, self.max_cancelled),
            (&mut most.dead, self.max_dead),
            (&mut most.expired, self.max_expired),
        ];
        for (most, given) in counts {
            *most = given.map_or(*most, |limit| limit.0);
        }
        let given = [self.max_completed, self.max_cancelled, self.max_dead, self.max_expired];
        patch.keep_max = given.iter().any(Option::is_some).then_some(most);
        patch.dead_bytes_max = self.dead_bytes_max.map(|limit| limit.0);
        patch.max_wait_ms = self.max_wait.map(|limit| limit.0);
        patch.limits = listed(&self.limit);
        patch.events = self.events(now)?;
        if patch == QueuePatch::default() {
            bail!(
                "nothing to set; use --max-depth, --order, --retention, --keep-finished, --keep-dead, \
                 --keep-expired, --max-completed, --max-cancelled, --max-dead, --max-expired, \
                 --dead-bytes-max, --max-wait, --limit, --events or --events-max-age"
            );
        }
        Ok(patch)
    }

    /// The bounds of its events, as they are now except for what is given.
    fn events(&self, now: &QueueSettings) -> Result<Option<Option<EventBounds>>> {
        let mut bounds = now.events.unwrap_or_default();
        match (self.events, self.events_max_age) {
            (None, None) => return Ok(None),
            (Some(Events::Off), Some(_)) => bail!("--events off cannot have --events-max-age"),
            (Some(Events::Off), None) => return Ok(Some(None)),
            (Some(Events::On(Some(max))), _) => bounds.max = max,
            (Some(Events::On(None)) | None, _) => {}
        }
        bounds.max_age_ms = self.events_max_age.unwrap_or(bounds.max_age_ms);
        Ok(Some(Some(bounds)))
    }
}

/// The limits that are given by name; `none` stands for an empty list.
pub(super) fn listed(names: &[String]) -> Option<Vec<Name>> {
    let named = names.iter().filter(|name| *name != "none");
    (!names.is_empty()).then(|| named.map(|name| Name::from(name.as_str())).collect())
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { common, action } = self;
        let paused = |names: Names, paused| {
            let patch = |name: String| Configure::queue(name, QueuePatch::paused(paused));
            names.names.into_iter().map(patch).collect()
        };
        let changes = match action {
            None | Some(Action::List) => return block_on(list(&common)),
            Some(Action::Show { queue }) => return block_on(show(&common, queue)),
            Some(Action::Pause(names)) => paused(names, true),
            Some(Action::Resume(names)) => paused(names, false),
            Some(Action::Set(args)) => return block_on(set(&common, &args)),
            Some(Action::Subscribe(args)) => return block_on(args.run(&common)),
            Some(Action::Unsubscribe { topic, name }) => {
                return block_on(unsubscribe(&common, &topic, &name));
            }
            Some(Action::Obliterate { queue, confirm, how }) => {
                if confirm.as_ref().is_some_and(|confirm| *confirm != queue) {
                    bail!("--confirm must be the name of the queue, {queue:?}");
                }
                let filter = Filter::default().queue(queue);
                let how = if confirm.is_some() { how.confirmed() } else { how };
                return block_on(how.change(&common, |_| filter, |_| BulkChange::Purge));
            }
        };
        block_on(async {
            configure(&common, changes).await?;
            list(&common).await
        })
    }
}

/// Changes settings of a queue. Retention periods that are not given stay as they are.
async fn set(common: &Common, args: &Set) -> Result<ExitCode> {
    // Checked before the store is created: a command without settings must not leave a new store behind.
    args.patch(&QueueSettings::default())?;
    let client = common.open_or_create().await?;
    let queues = client.settings().await?.queues;
    let now = queues.into_iter().find(|(name, _)| **name == *args.queue).map(|(_, it)| it);
    let patch = args.patch(&now.unwrap_or_default())?;
    drop(client);
    configure(common, vec![Configure::queue(args.queue.as_str(), patch)]).await?;
    list(common).await
}

/// Changes settings. Creates the store if it does not exist: settings may precede the first job.
pub(super) async fn configure(common: &Common, changes: Vec<Configure>) -> Result<()> {
    let client = common.open_or_create().await?;
    warn_of_unknown(&client, &changes).await?;
    for answer in client.engine().configure(changes).await?.value {
        answer?;
    }
    Ok(())
}

pub(super) async fn list(common: &Common) -> Result<ExitCode> {
    let client = common.open().await?;
    let stats = client.engine().stats(StatsRequest::default()).await?;
    let (now, queues) = (stats.now, client.settings().await?.queues);
    let all = Overview::all(queues, &stats.value, |lane| &lane.queue, now);
    if common.json {
        print_json(&windlass_wire::Queues { queues: all, next: None })?;
    } else if all.is_empty() {
        note("no queues: nothing has been enqueued");
    } else {
        print(&table(&all).to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(common: &Common, name: String) -> Result<ExitCode> {
    check_name("queue", &name)?;
    let client = common.open().await?;
    let queue = Name::from(name);
    let stats = client.engine().stats(StatsRequest::queue(queue.clone())).await?;
    let (now, settings) = (stats.now, client.settings().await?.queues);
    if stats.value.is_empty() && !settings.iter().any(|(name, _)| *name == queue) {
        let known = queue_names(&client).await?;
        warn(&similar::note("queue", &queue, known.iter().map(|name| &**name)));
    }
    let overview = Overview::of(queue, settings, stats.value, now);
    if common.json {
        print_json(&overview)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lanes =
        Table::new(["KIND", "READY", "SCHEDULED", "BLOCKED", "PAUSED", "RUNNING", "DEAD"]);
    for lane in &overview.lanes {
        let counts = [lane.available, lane.scheduled, lane.blocked, lane.paused, lane.running];
        let kind = std::iter::once(Cell::text(&*lane.kind));
        lanes.row(kind.chain(counts.map(Cell::count)).chain([dead_cell(lane.dead)]));
    }
    let settings = serde_json::to_value(&overview.settings)?;
    let mut text = table(std::slice::from_ref(&overview)).to_string();
    for (name, value) in settings.as_object().into_iter().flatten() {
        writeln!(text, "{} {value}", paint(&format!("{name:<16}"), Colour::Faint))?;
    }
    print(&format!("{text}{lanes}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Names of all queues with jobs or settings.
async fn queue_names(client: &Client) -> Result<Vec<Name>> {
    let lanes = client.engine().stats(StatsRequest::default()).await?.value;
    let set = client.settings().await?.queues.into_iter().map(|(name, _)| name);
    Ok(set.chain(lanes.into_iter().map(|lane| lane.queue)).collect())
}

/// Warns about queues and kinds that have neither jobs nor settings: their names may be misspelled.
async fn warn_of_unknown(client: &Client, changes: &[Configure]) -> Result<()> {
    for change in changes {
        let (noun, name, known) = match change {
            Configure::Queue(name, _) => ("queue", name, queue_names(client).await?),
            Configure::Kind(name, _) => {
                let kinds = documents::kinds(client.engine()).await?.value;
                ("kind", name, kinds.into_iter().map(|kind| kind.overview.name).collect())
            }
            _ => continue,
        };
        if !known.contains(name) {
            warn(&similar::note(noun, name, known.iter().map(|name| &**name)));
        }
    }
    Ok(())
}

/// The columns that every list shares.
pub(super) fn count_cells(counts: &Counts, head_age_ms: Option<u64>) -> [Cell; 9] {
    [
        Cell::count(counts.depth),
        Cell::count(counts.available),
        Cell::count(counts.scheduled),
        Cell::count(counts.blocked),
        Cell::count(counts.paused),
        Cell::count(counts.running),
        Cell::count(counts.completed),
        dead_cell(counts.dead),
        Cell::text(head_age_ms.map(rough_span).unwrap_or_default()).right(),
    ]
}

fn dead_cell(dead: u64) -> Cell {
    let cell = Cell::count(dead);
    if dead > 0 { cell.colour(Colour::Bad) } else { cell }
}

fn table(rows: &[Overview<QueueSettings>]) -> Table {
    let heads = [
        "QUEUE",
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
    for row in rows {
        let mut cells = vec![Cell::text(&*row.name)];
        cells.extend(count_cells(&row.counts, row.head_age_ms));
        let words = Cell::text(words(&row.settings));
        cells.push(if row.settings.paused { words.colour(Colour::Notice) } else { words });
        table.row(cells);
    }
    table
}

/// The settings that differ from the defaults.
fn words(settings: &QueueSettings) -> String {
    let default = QueueSettings::default();
    let order = match settings.order {
        Order::Strict => None,
        Order::Ageing { quantum_ms } => Some(format!("ageing {}", rough_span(quantum_ms))),
        Order::Lifo => Some("lifo".to_owned()),
        Order::Fair => Some("fair".to_owned()),
        _ => Some("other order".to_owned()),
    };
    let kept = settings.retention;
    let most = settings.keep_max.limits().map(|(state, most)| format!("up to {most} {state}"));
    let most: Vec<String> = most.collect();
    let words = [
        settings.paused.then(|| "paused".to_owned()),
        settings.max_depth.map(|limit| format!("max depth {limit}")),
        order,
        (kept.finished_ms != default.retention.finished_ms)
            .then(|| format!("kept {}", rough_span(kept.finished_ms))),
        (kept.dead_ms != default.retention.dead_ms)
            .then(|| format!("dead kept {}", rough_span(kept.dead_ms))),
        (!most.is_empty()).then(|| most.join(", ")),
        settings.dead_bytes_max.map(|bytes| format!("dead up to {bytes} bytes")),
        settings.max_wait_ms.map(|ms| format!("max wait {}", rough_span(ms))),
        (!settings.limits.is_empty()).then(|| format!("limits {}", settings.limits.join(" "))),
        settings.events.map(|events| format!("events up to {}", events.max)),
        (!settings.subscriptions.is_empty()).then(|| named(&settings.subscriptions)),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

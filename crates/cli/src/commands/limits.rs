//! `windlass limits`: lists, shows, creates, changes, simulates and removes limits.

mod simulate;

use super::queues::configure;
use crate::output::{Cell, Table, note, print, print_json};
use crate::store::{Common, block_on};
use crate::values;
use anyhow::{Result, anyhow, bail};
use clap::Subcommand;
use simulate::Simulate;
use std::process::ExitCode;
use windlass_core::Timestamp;
use windlass_core::engine::Configure;
use windlass_core::model::{Limit, Rate, Rule};
use windlass_core::time::rough_span;
use windlass_wire::{GroupStats, LimitView};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List limits (the default)
    List,
    /// Show a limit with its groups: their rules, jobs and tokens
    Show {
        /// Name of the limit
        name: String,
    },
    /// Create or replace a limit; `queues set --limit` and `kinds set --limit` apply it to jobs
    Set(Set),
    /// Show when jobs would start under a limit; no store is involved
    Simulate(Simulate),
    /// Remove a limit that no queue and no kind lists
    Remove {
        /// Name of the limit
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct Set {
    /// Name of the limit
    name: String,
    #[command(flatten)]
    rules: Rules,
}

/// The rules of a limit.
#[derive(Debug, clap::Args)]
struct Rules {
    /// Maximum number of jobs that run at the same time
    #[arg(long, value_name = "N")]
    max_running: Option<u32>,
    /// Starts per period, evenly and with bursts, e.g. 100/1m
    #[arg(long, value_name = "N/TIME", value_parser = values::rate, conflicts_with = "window")]
    rate: Option<(u32, u64)>,
    /// Starts that may happen at once under --rate [default: the starts of one period]
    #[arg(long, value_name = "N", requires = "rate")]
    burst: Option<u32>,
    /// Maximum number of starts within any period of this length, e.g. 100/1m
    #[arg(long, value_name = "N/TIME", value_parser = values::rate)]
    window: Option<(u32, u64)>,
    /// Count each group of jobs separately
    #[arg(long)]
    by_group: bool,
    /// Rule of a single group: `GROUP=max_running`, or `GROUP=none` for no limit. May be repeated
    #[arg(long, value_name = "GROUP=N", value_parser = group_rule, requires = "by_group")]
    group: Vec<(String, Rule)>,
}

/// Parses the rule of a single group.
fn group_rule(text: &str) -> Result<(String, Rule), String> {
    let wrong = || format!("invalid rule {text:?} (try acme=10, or acme=none)");
    let (group, rule) = text.rsplit_once('=').ok_or_else(wrong)?;
    let rule = match rule {
        "none" => Rule::default(),
        number => Rule::running(number.parse().map_err(|_| wrong())?),
    };
    Ok((group.to_owned(), rule))
}

impl Rules {
    fn limit(&self) -> Result<Limit> {
        let rate = match (self.rate, self.window) {
            (Some((amount, per_ms)), _) => {
                let burst = self.burst.unwrap_or(amount);
                Some(Rate::Bucket { amount, per_ms, burst })
            }
            (None, Some((max, per_ms))) => Some(Rate::window(max, per_ms)),
            (None, None) => None,
        };
        if self.max_running.is_none() && rate.is_none() {
            bail!("nothing to limit; use --max-running, --rate or --window");
        }
        let mut limit = Limit::default();
        (limit.rule.max_running, limit.rule.rate) = (self.max_running, rate);
        limit.by_group = self.by_group;
        limit.overrides = self.group.iter().cloned().collect();
        limit.check()?;
        Ok(limit)
    }
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { common, action } = self;
        let change = match action {
            None | Some(Action::List) => return block_on(list(&common)),
            Some(Action::Show { name }) => return block_on(show(&common, &name)),
            Some(Action::Simulate(args)) => return args.run(common.json),
            // Checked before the store is created: a wrong command must not leave a new store behind.
            Some(Action::Set(args)) => Configure::limit(args.name.as_str(), args.rules.limit()?),
            Some(Action::Remove { name }) => Configure::remove_limit(name),
        };
        block_on(async {
            configure(&common, vec![change]).await?;
            list(&common).await
        })
    }
}

/// All limits with their jobs, and the store's time.
async fn views(common: &Common) -> Result<(Vec<(LimitView, Limit)>, Timestamp)> {
    let client = common.open().await?;
    let settings = client.settings().await?;
    let stats = client.engine().limits().await?;
    let limits: Vec<Limit> = settings.limits.iter().map(|(_, limit)| limit.clone()).collect();
    let views = LimitView::all(settings, stats.value);
    Ok((views.into_iter().zip(limits).collect(), stats.now))
}

async fn list(common: &Common) -> Result<ExitCode> {
    let (limits, _) = views(common).await?;
    if common.json {
        let limits = limits.into_iter().map(|(view, _)| view).collect();
        print_json(&windlass_wire::Limits { limits, next: None })?;
    } else if limits.is_empty() {
        note("no limits: create one with `windlass limits set`");
    } else {
        let heads =
            ["LIMIT", "MAX RUNNING", "RATE", "COUNTED", "RUNNING", "WAITING", "QUEUES", "KINDS"];
        let mut table = Table::new(heads);
        for (view, limit) in &limits {
            table.row(vec![
                Cell::text(&*view.name),
                Cell::text(max_running(limit.rule)),
                Cell::text(rate(limit.rule)),
                Cell::text(if limit.by_group { "by group" } else { "together" }),
                Cell::count(view.running),
                Cell::count(view.waiting),
                Cell::text(view.queues.join(", ")),
                Cell::text(view.kinds.join(", ")),
            ]);
        }
        print(&table.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(common: &Common, name: &str) -> Result<ExitCode> {
    let (limits, now) = views(common).await?;
    let found = limits.into_iter().find(|(view, _)| *view.name == *name);
    let (view, limit) = found.ok_or_else(|| anyhow!("no limit {name:?}; see `windlass limits`"))?;
    if common.json {
        print_json(&view)?;
        return Ok(ExitCode::SUCCESS);
    }
    let heads = ["GROUP", "MAX RUNNING", "RATE", "RUNNING", "WAITING", "TOKENS", "HELD"];
    let mut table = Table::new(heads);
    for (shown, rule) in rows(view, &limit) {
        let GroupStats { group, running, waiting, tokens, held_until } = shown;
        let rule = rule.map(|rule| (max_running(rule), rate(rule))).unwrap_or_default();
        let held = held_until.map_or_else(String::new, |until| rough_span(until.since(now)));
        table.row(vec![
            Cell::text(group),
            Cell::text(rule.0),
            Cell::text(rule.1),
            Cell::count(running),
            Cell::count(waiting),
            Cell::text(tokens.map_or_else(String::new, |tokens| tokens.to_string())),
            Cell::text(held),
        ]);
    }
    print(&table.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The rows of `show`: all jobs, the groups with jobs or with a rule of their own, and all other groups together. The
/// rule of a limit by group is shown for the others.
fn rows(view: LimitView, limit: &Limit) -> Vec<(GroupStats, Option<Rule>)> {
    let LimitView { running, waiting, tokens, held_until, groups, .. } = view;
    let all = if limit.by_group { "all groups" } else { "all jobs" };
    let all = GroupStats { group: all.to_owned(), running, waiting, tokens, held_until };
    let sum = |count: fn(&GroupStats) -> u64| groups.iter().map(count).sum::<u64>();
    let others = GroupStats {
        group: "each other group".to_owned(),
        running: running.saturating_sub(sum(|group| group.running)),
        waiting: waiting.saturating_sub(sum(|group| group.waiting)),
        tokens: None,
        held_until: None,
    };
    let idle = |group: &String| {
        let (group, tokens) = (group.clone(), None);
        GroupStats { group, running: 0, waiting: 0, tokens, held_until: None }
    };
    let own = limit.overrides.keys();
    let own = own.filter(|own| !groups.iter().any(|group| group.group == **own)).map(idle);
    let own: Vec<GroupStats> = own.collect();
    let ruled = |group: GroupStats| (limit.rule_for(&group.group), group);
    let groups = groups.into_iter().chain(own).map(ruled);
    let mut rows = vec![(all, Some(limit.rule).filter(|_| !limit.by_group))];
    rows.extend(groups.map(|(rule, group)| (group, Some(rule))));
    if limit.by_group {
        rows.push((others, Some(limit.rule)));
    }
    rows
}

fn max_running(rule: Rule) -> String {
    rule.max_running.map_or_else(|| "any".to_owned(), |max| max.to_string())
}

fn rate(rule: Rule) -> String {
    let per = crate::config::time;
    match rule.rate {
        None => "any".to_owned(),
        Some(Rate::Bucket { amount, per_ms, burst }) => {
            format!("{amount}/{}, burst {burst}", per(per_ms))
        }
        Some(Rate::Window { max, per_ms }) => format!("at most {max} in {}", per(per_ms)),
        Some(_) => "other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_a_group_is_a_number_or_none() {
        assert_eq!(group_rule("acme=10"), Ok(("acme".into(), Rule::running(10))));
        assert_eq!(group_rule("a=b=none"), Ok(("a=b".into(), Rule::default())));
        for text in ["acme", "acme=", "acme=x", "acme=-1"] {
            assert!(group_rule(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_shown_with_their_periods() {
        let shown = |rate_| rate(Rule::rate(rate_));
        assert_eq!(shown(Rate::bucket(100, 60_000)), "100/1m, burst 100");
        assert_eq!(shown(Rate::window(5, 1_500)), "at most 5 in 1s500ms");
        assert_eq!(rate(Rule::default()), "any");
    }
}

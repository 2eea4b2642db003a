//! `windlass limits`: lists, shows, creates, changes and removes limits.

use super::queues::configure;
use crate::output::{Cell, Table, print, print_json};
use crate::store::{Common, block_on};
use crate::values;
use anyhow::{Result, anyhow, bail};
use clap::Subcommand;
use std::process::ExitCode;
use windlass_core::engine::Configure;
use windlass_core::model::{Limit, Rate, Rule};
use windlass_wire::LimitView;

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
    /// Show a limit with the rules of single groups
    Show {
        /// Name of the limit
        name: String,
    },
    /// Create or replace a limit; `queues set --limit` and `kinds set --limit` apply it to jobs
    Set(Set),
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

impl Set {
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
            // Checked before the store is created: a wrong command must not leave a new store behind.
            Some(Action::Set(args)) => Configure::limit(args.name.as_str(), args.limit()?),
            Some(Action::Remove { name }) => Configure::remove_limit(name),
        };
        block_on(async {
            configure(&common, vec![change]).await?;
            list(&common).await
        })
    }
}

async fn views(common: &Common) -> Result<Vec<(LimitView, Limit)>> {
    let settings = common.open().await?.settings().await?;
    let limits: Vec<Limit> = settings.limits.iter().map(|(_, limit)| limit.clone()).collect();
    Ok(LimitView::all(settings).into_iter().zip(limits).collect())
}

async fn list(common: &Common) -> Result<ExitCode> {
    let limits = views(common).await?;
    if common.json {
        print_json(&limits.iter().map(|(view, _)| view).collect::<Vec<_>>())?;
    } else if limits.is_empty() {
        eprintln!("no limits: create one with `windlass limits set`");
    } else {
        let mut table = Table::new(["LIMIT", "RUNNING", "RATE", "COUNTED", "QUEUES", "KINDS"]);
        for (view, limit) in &limits {
            table.row(vec![
                Cell::text(&*view.name),
                Cell::text(running(limit.rule)),
                Cell::text(rate(limit.rule)),
                Cell::text(if limit.by_group { "by group" } else { "together" }),
                Cell::text(view.queues.join(", ")),
                Cell::text(view.kinds.join(", ")),
            ]);
        }
        print(&table.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(common: &Common, name: &str) -> Result<ExitCode> {
    let found = views(common).await?.into_iter().find(|(view, _)| *view.name == *name);
    let (view, limit) = found.ok_or_else(|| anyhow!("no limit {name:?}; see `windlass limits`"))?;
    if common.json {
        print_json(&view)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["GROUP", "RUNNING", "RATE"]);
    let all = if limit.by_group { "each group" } else { "all jobs" };
    table.row(vec![Cell::text(all), Cell::text(running(limit.rule)), Cell::text(rate(limit.rule))]);
    for (group, rule) in &limit.overrides {
        table.row(vec![Cell::text(group), Cell::text(running(*rule)), Cell::text(rate(*rule))]);
    }
    print(&table.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn running(rule: Rule) -> String {
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

//! `windlass limits simulate`: when jobs would start under a limit. No store is involved: core's rules decide, as they
//! do in every engine.

use super::Rules;
use crate::config::time;
use crate::output::{Cell, Table, print, print_json};
use crate::values;
use anyhow::{Result, bail};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;
use std::process::ExitCode;
use windlass_core::Timestamp;
use windlass_core::model::{Limit, Rate};
use windlass_core::policy::{Ahead, Meter, Room};
use windlass_core::time::DAY_MS;

/// Maximum number of simulated jobs.
const JOBS_MAX: u64 = 100_000;
/// Maximum number of groups.
const GROUPS_MAX: u32 = 10_000;
/// Longest simulated time.
const DURATION_MAX_MS: u64 = 366 * DAY_MS;
/// Maximum number of jobs that are printed one by one.
const LISTED_MAX: usize = 20;
/// Maximum number of lines of the chart.
const CHART_LINES: u64 = 20;
/// Maximum length of a bar of the chart.
const CHART_WIDTH: usize = 50;
/// Lengths of time that a line of the chart may cover; longer ones are whole days.
const STEPS_MS: [u64; 17] = [
    1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000,
    3_600_000, 21_600_000, DAY_MS,
];

#[derive(Debug, clap::Args)]
pub(super) struct Simulate {
    #[command(flatten)]
    rules: Rules,
    /// Number of jobs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=JOBS_MAX))]
    jobs: u64,
    /// Time between two jobs; by default all arrive at once
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms, default_value = "0ms")]
    every: u64,
    /// Cost of each job
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    cost: u32,
    /// Run time of each job
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms, default_value = "0ms")]
    run_time: u64,
    /// Number of groups that the jobs belong to in turn: g1, g2 and so on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(GROUPS_MAX)))]
    groups: u32,
    /// Time after which the simulation ends
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms, default_value = "366d")]
    duration: u64,
}

/// A simulated job; times in milliseconds since the start of the simulation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Job {
    job: u64,
    group: String,
    arrives_ms: u64,
    /// `None`: not before the end of the simulation.
    starts_ms: Option<u64>,
}

/// The counters of one group, or of all jobs.
#[derive(Default)]
struct Counters {
    meter: Meter,
    /// When the running jobs end.
    ends: BinaryHeap<Reverse<Timestamp>>,
    /// When the previous job started: the next one does not overtake it.
    previous: Timestamp,
}

impl Simulate {
    /// Prints when jobs would start; all of them as JSON, or the first ones and a chart.
    pub(super) fn run(&self, json: bool) -> Result<ExitCode> {
        let jobs = self.simulate()?;
        if json {
            print_json(&jobs)?;
        } else {
            print(&self.report(&jobs))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn simulate(&self) -> Result<Vec<Job>> {
        let limit = self.rules.limit()?;
        if self.duration > DURATION_MAX_MS {
            bail!("--duration is {}; use at most {}", time(self.duration), time(DURATION_MAX_MS));
        }
        let mut counters: BTreeMap<String, Counters> = BTreeMap::new();
        let mut jobs = Vec::new();
        for n in 0..self.jobs {
            let group = format!("g{}", n % u64::from(self.groups) + 1);
            self.check_cost(&limit, &group)?;
            let arrives_ms = n.saturating_mul(self.every);
            let counters = counters.entry(limit.counted_in(&group).to_owned()).or_default();
            let at = counters.start(&limit, &group, self, Timestamp::EPOCH.plus(arrives_ms));
            let starts_ms = Some(at.since(Timestamp::EPOCH)).filter(|ms| *ms <= self.duration);
            jobs.push(Job { job: n + 1, group, arrives_ms, starts_ms });
        }
        Ok(jobs)
    }

    fn check_cost(&self, limit: &Limit, group: &str) -> Result<()> {
        let capacity = limit.rule_for(group).rate.map(Rate::capacity);
        if let Some(capacity) = capacity.filter(|capacity| self.cost > *capacity) {
            bail!("--cost is {}, but the limit allows at most {capacity} at once", self.cost);
        }
        Ok(())
    }

    fn report(&self, jobs: &[Job]) -> String {
        let starts: Vec<u64> = jobs.iter().filter_map(|job| job.starts_ms).collect();
        let mut text = table(jobs);
        let left = jobs.len() - starts.len();
        let Some(last) = starts.iter().max() else {
            return format!("{text}\nnone of {} jobs starts\n", jobs.len());
        };
        let waits = jobs.iter().filter_map(|job| Some(job.starts_ms? - job.arrives_ms));
        let wait = waits.max().unwrap_or(0);
        let _ = write!(
            text,
            "\n{} of {} jobs start, the last one after {}; longest wait {}",
            starts.len(),
            jobs.len(),
            time(*last),
            time(wait)
        );
        if left > 0 {
            let _ = write!(text, "; {left} do not start within {}", time(self.duration));
        }
        let step_ms = step(*last);
        let _ = write!(text, "\n\nstarts per {}\n{}", time(step_ms), chart(&starts, step_ms));
        text
    }
}

impl Counters {
    /// Starts a job as soon as the limit allows it; returns when.
    fn start(
        &mut self,
        limit: &Limit,
        group: &str,
        simulate: &Simulate,
        arrives: Timestamp,
    ) -> Timestamp {
        let rule = limit.rule_for(group);
        let mut now = arrives.max(self.previous);
        loop {
            while self.ends.peek().is_some_and(|Reverse(end)| *end <= now) {
                self.ends.pop();
            }
            let running = self.ends.len() as u64;
            match rule.room(running, &self.meter, Ahead::default(), simulate.cost, now) {
                Room::Now => break,
                Room::At(at) => now = at,
                // A slot is missing, so a job runs.
                Room::Later => now = self.ends.peek().map_or(now, |Reverse(end)| *end),
            }
        }
        rule.take(&mut self.meter, simulate.cost, now);
        self.ends.push(Reverse(now.plus(simulate.run_time.max(1))));
        self.previous = now;
        now
    }
}

/// The first jobs one by one.
fn table(jobs: &[Job]) -> String {
    let mut table = Table::new(["JOB", "GROUP", "ARRIVES", "STARTS", "WAITS"]);
    for job in jobs.iter().take(LISTED_MAX) {
        let starts = job.starts_ms.map_or_else(|| "not".to_owned(), time);
        let waits = job.starts_ms.map_or_else(String::new, |at| time(at - job.arrives_ms));
        table.row(vec![
            Cell::count(job.job),
            Cell::text(&job.group),
            Cell::text(time(job.arrives_ms)).right(),
            Cell::text(starts).right(),
            Cell::text(waits).right(),
        ]);
    }
    let mut text = table.to_string();
    if jobs.len() > LISTED_MAX {
        let _ = writeln!(text, "… and {} more", jobs.len() - LISTED_MAX);
    }
    text
}

/// The length of time that a line of the chart covers.
fn step(last_ms: u64) -> u64 {
    let fits = |step: &u64| last_ms / step < CHART_LINES;
    let days = (last_ms / DAY_MS).div_ceil(CHART_LINES).max(1) * DAY_MS;
    STEPS_MS.into_iter().find(fits).unwrap_or(days)
}

/// One bar per step.
fn chart(starts: &[u64], step_ms: u64) -> String {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for at in starts {
        *counts.entry(at / step_ms).or_default() += 1;
    }
    let (last, most) =
        (counts.keys().max().copied().unwrap_or(0), counts.values().max().copied().unwrap_or(1));
    let width = time(last * step_ms).len();
    let mut text = String::new();
    for line in 0..=last {
        let count = counts.get(&line).copied().unwrap_or(0);
        let bar = "█".repeat((count * CHART_WIDTH).div_ceil(most.max(CHART_WIDTH)));
        let _ = writeln!(text, "{:>width$}  {bar} {count}", time(line * step_ms));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        simulate: Simulate,
    }

    fn simulate(flags: &str) -> Result<Vec<Job>> {
        let flags = ["simulate"].into_iter().chain(flags.split(' '));
        Cli::parse_from(flags).simulate.simulate()
    }

    fn starts(flags: &str) -> Vec<u64> {
        simulate(flags).unwrap().into_iter().filter_map(|job| job.starts_ms).collect()
    }

    #[test]
    fn jobs_start_as_slots_tokens_and_windows_allow() {
        assert_eq!(starts("--max-running 2 --jobs 5 --run-time 10ms"), [0, 0, 10, 10, 20]);
        assert_eq!(starts("--rate 10/1s --burst 2 --jobs 4"), [0, 0, 100, 200]);
        assert_eq!(starts("--rate 10/1s --burst 4 --cost 2 --jobs 4"), [0, 0, 200, 400]);
        assert_eq!(starts("--window 2/1s --jobs 5"), [0, 0, 1_000, 1_000, 2_000]);
        assert_eq!(starts("--window 2/1s --jobs 4 --every 700ms"), [0, 700, 1_400, 2_100]);
        let both = "--max-running 1 --rate 10/1s --burst 1 --jobs 3 --run-time 250ms";
        assert_eq!(starts(both), [0, 250, 500]);
    }

    #[test]
    fn groups_have_their_own_counters_and_rules() {
        let together = "--max-running 1 --jobs 4 --groups 2 --run-time 10ms";
        assert_eq!(starts(together), [0, 10, 20, 30]);
        assert_eq!(starts(&format!("{together} --by-group")), [0, 0, 10, 10]);
        let own = format!("{together} --by-group --group g1=2");
        assert_eq!(starts(&own), [0, 0, 0, 10]);
    }

    #[test]
    fn a_simulation_ends_and_refuses_what_a_store_refuses() {
        let flags = "--rate 1/1h --burst 1 --jobs 9 --duration 2h";
        assert_eq!(starts(flags), [0, 3_600_000, 7_200_000]);
        let cost = simulate("--rate 10/1s --burst 5 --cost 6").unwrap_err().to_string();
        assert!(cost.contains("--cost is 6") && cost.contains("at most 5"), "{cost}");
        let empty = simulate("--jobs 1").unwrap_err().to_string();
        assert!(empty.contains("nothing to limit"), "{empty}");
    }

    #[test]
    fn a_chart_has_a_bounded_number_of_lines() {
        assert_eq!(chart(&[0, 0, 100, 210], 100), "   0s  ██ 2\n100ms  █ 1\n200ms  █ 1\n");
        for last in [0, 1, 19, 20, 999, 60_000, 86_400_000, 366 * DAY_MS] {
            assert!(last / step(last) <= CHART_LINES, "{last}");
        }
        let many = chart(&[0; 1_000], 1);
        assert_eq!(many.matches('█').count(), CHART_WIDTH);
    }
}

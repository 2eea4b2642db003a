//! How well a run used the rates of its limits: starts against what was allowed, and how late they were. Measures; it
//! decides nothing.

use super::checker::Options;
use super::facts::{Action, gather};
use super::limits::{CheckedLimit, Start, observed};
use super::record::History;
use super::verdict::Verdict;
use windlass_core::Timestamp;
use windlass_core::model::{Rate, Rule};
use windlass_core::policy::{Ahead, Meter, Room};

/// A gap of this length without any start is an outage of the store, not slowness.
const OUTAGE_MS: u64 = 1_000;

/// The use of one limit with a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pace {
    /// The name of the limit.
    pub name: String,
    /// Total cost of the starts while jobs were enqueued, of all groups.
    pub started: u64,
    /// The cost that the limit allowed in the same time, outages of the store not counted.
    pub allowed: u64,
    /// How late first attempts started, compared with the time at which the limit allowed it, sorted.
    pub late_ms: Vec<u64>,
}

impl Pace {
    /// The share of the allowed starts that happened, in per mille.
    pub fn per_mille(&self) -> u64 {
        (self.started * 1_000).checked_div(self.allowed).unwrap_or(0)
    }

    /// The lateness that this share of the starts did not exceed, in percent.
    pub fn late_percentile(&self, percent: usize) -> u64 {
        let last = self.late_ms.len().saturating_sub(1);
        self.late_ms.get(last * percent / 100).copied().unwrap_or(0)
    }
}

/// Measures the limits with a rate.
pub fn paces(history: &History, options: &Options) -> Vec<Pace> {
    let facts = gather(history, &mut Verdict::default());
    let all = facts.jobs.values().flatten().filter_map(|fact| match fact.action {
        Action::Start(start, _) => start.started_at,
        _ => None,
    });
    // Producers keep all groups busy until they end; then the last jobs run out.
    let until = facts.jobs.keys().filter(|id| !id.is_derived()).map(|id| id.time()).max();
    let Some(until) = until else { return Vec::new() };
    let mut times: Vec<Timestamp> = all.filter(|at| *at <= until).collect();
    times.sort_unstable();
    let served_ms = served(&times);
    let pace = |checked: &CheckedLimit| {
        let groups = observed(checked, &facts, options);
        let rates: Vec<(Rule, Rate, &[Start])> = groups
            .iter()
            .filter_map(|(name, group)| {
                let rule = checked.limit.rule_for(name);
                let starts = group.starts.partition_point(|start| start.at <= until);
                Some((rule, rule.rate?, &group.starts[..starts]))
            })
            .collect();
        if rates.is_empty() {
            return None;
        }
        let costs = rates.iter().flat_map(|(.., starts)| *starts);
        let started = costs.map(|start| u64::from(start.cost)).sum();
        let allowed = rates.iter().map(|(_, rate, _)| allowed(*rate, served_ms)).sum();
        let mut late_ms: Vec<u64> =
            rates.iter().flat_map(|(rule, _, starts)| lateness(*rule, starts)).collect();
        late_ms.sort_unstable();
        Some(Pace { name: checked.name.clone(), started, allowed, late_ms })
    };
    options.limits.iter().filter_map(pace).collect()
}

/// The time between the first and the last start, without outages.
fn served(times: &[Timestamp]) -> u64 {
    let gaps = times.windows(2).map(|pair| pair[1].since(pair[0]));
    gaps.filter(|gap| *gap < OUTAGE_MS).sum()
}

/// The cost that a rate allows in a time.
fn allowed(rate: Rate, ms: u64) -> u64 {
    match rate {
        Rate::Bucket { amount, per_ms, burst } => {
            u64::from(burst) + ms * u64::from(amount) / per_ms
        }
        Rate::Window { max, per_ms } => u64::from(max) * ms.div_ceil(per_ms),
        _ => 0,
    }
}

/// How late each first attempt started: after its enqueue, and after the earlier starts allowed it.
fn lateness(rule: Rule, starts: &[Start]) -> Vec<u64> {
    let (mut meter, mut late) = (Meter::default(), Vec::new());
    let mut earlier = Timestamp::EPOCH;
    for start in starts {
        let mut at = earlier.max(start.id.time());
        while let Room::At(later) = rule.room(0, &meter, Ahead::default(), start.cost, at) {
            at = later;
        }
        if start.attempt == 1 && !start.id.is_derived() {
            late.push(start.at.since(at));
        }
        rule.take(&mut meter, start.cost, start.at);
        earlier = start.at;
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::JobId;
    use windlass_core::random::Seeded;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).plus(ms)
    }

    fn start(ms: u64, enqueued_ms: u64) -> Start {
        let id = JobId::new(at(enqueued_ms), &Seeded::new(ms));
        Start { at: at(ms), cost: 1, id, attempt: 1 }
    }

    #[test]
    fn a_start_is_late_from_the_time_at_which_it_was_allowed_and_its_job_was_there() {
        let rule = Rule::rate(Rate::window(2, 100));
        let starts = [start(0, 0), start(5, 0), start(107, 0), start(150, 140)];
        assert_eq!(lateness(rule, &starts), [0, 5, 7, 10]);
    }

    #[test]
    fn outages_do_not_count() {
        let times = [0, 100, 900, 5_000, 5_500].map(at);
        assert_eq!(served(&times), 1_400);
        assert_eq!(allowed(Rate::window(3, 1_000), 1_400), 6);
        assert_eq!(allowed(Rate::Bucket { amount: 10, per_ms: 1_000, burst: 2 }, 1_400), 16);
    }

    #[test]
    fn a_share_and_percentiles_are_those_of_the_starts() {
        let late_ms: Vec<u64> = (0..=100).collect();
        let pace = Pace { name: "l".into(), started: 98, allowed: 100, late_ms };
        assert_eq!((pace.per_mille(), pace.late_percentile(50)), (980, 50));
        assert_eq!((pace.late_percentile(99), pace.late_percentile(100)), (99, 100));
    }
}

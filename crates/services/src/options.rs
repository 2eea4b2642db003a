//! Options of the services: which run, how often, and batch sizes, with bounds. Independent of how services
//! work.

use std::ops::RangeInclusive;
use std::time::Duration;
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_core::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};
use windlass_core::{Result, check_text, limits, within_range, within_time};

/// Allowed intervals of services that determine how late a job may start.
pub const PROMPT_INTERVAL_MS: RangeInclusive<u64> = 5..=MINUTE_MS;
/// Allowed intervals of the other services.
pub const INTERVAL_MS: RangeInclusive<u64> = 5..=DAY_MS;
/// Allowed intervals of the sampler: at least one sample per minute.
pub const SAMPLE_INTERVAL_MS: RangeInclusive<u64> = 5..=MINUTE_MS;
/// Allowed times for which the history of removed jobs is kept.
pub const HISTORY_MS: RangeInclusive<u64> = HOUR_MS..=limits::AGE_MAX_MS;
/// Allowed leadership TTLs: how long a leadership may outlive its holder.
pub const LEAD_TTL_MS: RangeInclusive<u64> = 100..=5 * MINUTE_MS;
/// Default leadership TTL.
const LEAD_TTL_DEFAULT_MS: u64 = 10 * SECOND_MS;

/// The interval of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Whether this process runs the service at all.
    pub enabled: bool,
    /// Maximum time between two runs.
    pub interval: Duration,
}

/// The interval and batch size of a service that processes jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// Whether this process runs the service at all.
    pub enabled: bool,
    /// Maximum time between two runs.
    pub interval: Duration,
    /// Maximum number of jobs per step. A run takes as many steps as there is work.
    pub batch: u32,
}

impl Pace {
    const fn every(interval_ms: u64) -> Self {
        Self { enabled: true, interval: Duration::from_millis(interval_ms) }
    }
}

impl Upkeep {
    const fn every(interval_ms: u64) -> Self {
        let interval = Duration::from_millis(interval_ms);
        Self { enabled: true, interval, batch: 1_000 }
    }
}

/// Options of the services. The defaults suit most stores.
///
/// ```
/// use std::time::Duration;
/// use windlass_services::ServiceOptions;
///
/// let mut options = ServiceOptions::default();
/// options.retain.interval = Duration::from_secs(60);
/// options.sample.enabled = false;
/// options.check()?;
///
/// options.retain.batch = 0;
/// assert_eq!(options.check().unwrap_err().field(), Some("retain.batch"));
/// # Ok::<(), windlass_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceOptions {
    /// Display name of this process as a leader.
    pub label: String,
    /// Whether only one process at a time works. Without leader election every process does all the work:
    /// safe, because every step is, but wasteful.
    pub leadership: bool,
    /// Leadership TTL: how long the services are interrupted after a crash of the leader.
    pub lead_ttl: Duration,
    /// Makes due jobs available. Wakes when the next known job is due; the interval bounds how late a job
    /// starts that was scheduled after the last run.
    pub promote: Upkeep,
    /// Reclaims jobs of lost sessions.
    pub reclaim: Upkeep,
    /// Expires jobs that waited longer than allowed.
    pub expire: Upkeep,
    /// Removes jobs whose retention is over.
    pub retain: Upkeep,
    /// Frees storage space.
    pub compact: Upkeep,
    /// How long the history of removed jobs is kept; 90 days by default.
    pub history: Duration,
    /// Keeps the dead jobs of each queue within its byte limit.
    pub trim: Pace,
    /// Fires recurring schedules. Wakes when the next fire is due; the interval bounds how late a changed
    /// schedule is noticed.
    pub schedule: Pace,
    /// Holds back kinds that keep failing. Wakes when a probe is due; the interval bounds how late a breaker
    /// opens or closes.
    pub breaker: Pace,
    /// Continues changes of many jobs. The interval bounds how late an operation begins.
    pub bulk: Pace,
    /// Samples queue metrics.
    pub sample: Pace,
    /// Whether the sampler also publishes gauges while this process leads. A server publishes them regardless
    /// of leadership and turns this off.
    pub gauges: bool,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            label: format!("process {}", std::process::id()),
            leadership: true,
            lead_ttl: Duration::from_millis(LEAD_TTL_DEFAULT_MS),
            promote: Upkeep::every(250),
            reclaim: Upkeep::every(2 * SECOND_MS),
            expire: Upkeep::every(MINUTE_MS),
            retain: Upkeep::every(5 * MINUTE_MS),
            compact: Upkeep::every(2 * MINUTE_MS),
            history: Duration::from_millis(limits::REMOVED_KEPT_DEFAULT_MS),
            trim: Pace::every(5 * MINUTE_MS),
            schedule: Pace::every(SECOND_MS),
            breaker: Pace::every(SECOND_MS),
            bulk: Pace::every(SECOND_MS),
            sample: Pace::every(SECOND_MS),
            gauges: true,
        }
    }
}

impl ServiceOptions {
    /// Checks that every value is within its limits.
    pub fn check(&self) -> Result<()> {
        check_text("label", &self.label, limits::NAME_BYTES_MAX)?;
        within_time("lead_ttl", self.lead_ttl, LEAD_TTL_MS)?;
        for (upkeep, interval, batch, range) in [
            (self.promote, "promote.interval", "promote.batch", PROMPT_INTERVAL_MS),
            (self.reclaim, "reclaim.interval", "reclaim.batch", PROMPT_INTERVAL_MS),
            (self.expire, "expire.interval", "expire.batch", INTERVAL_MS),
            (self.retain, "retain.interval", "retain.batch", INTERVAL_MS),
            (self.compact, "compact.interval", "compact.batch", INTERVAL_MS),
        ] {
            within_time(interval, upkeep.interval, range)?;
            within_range(batch, upkeep.batch.into(), 1..=MAINTAIN_BUDGET_MAX.into())?;
        }
        within_time("history", self.history, HISTORY_MS)?;
        within_time("trim.interval", self.trim.interval, INTERVAL_MS)?;
        within_time("schedule.interval", self.schedule.interval, PROMPT_INTERVAL_MS)?;
        within_time("breaker.interval", self.breaker.interval, PROMPT_INTERVAL_MS)?;
        within_time("bulk.interval", self.bulk.interval, PROMPT_INTERVAL_MS)?;
        within_time("sample.interval", self.sample.interval, SAMPLE_INTERVAL_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_out_of_bounds_is_refused_by_name() {
        let refused = |change: fn(&mut ServiceOptions)| {
            let mut options = ServiceOptions::default();
            options.check().unwrap();
            change(&mut options);
            options.check().unwrap_err().field().unwrap().to_owned()
        };
        assert_eq!(refused(|o| o.label.clear()), "label");
        assert_eq!(refused(|o| o.lead_ttl = Duration::from_millis(10)), "lead_ttl");
        assert_eq!(
            refused(|o| o.promote.interval = Duration::from_millis(DAY_MS)),
            "promote.interval"
        );
        assert_eq!(refused(|o| o.retain.interval = Duration::ZERO), "retain.interval");
        assert_eq!(refused(|o| o.expire.batch = MAINTAIN_BUDGET_MAX + 1), "expire.batch");
        assert_eq!(refused(|o| o.schedule.interval = Duration::ZERO), "schedule.interval");
        assert_eq!(refused(|o| o.sample.interval = Duration::from_secs(120)), "sample.interval");
    }
}

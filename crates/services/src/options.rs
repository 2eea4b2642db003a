//! How services are set up: which run, how often, how much at once. Values and their bounds; it must
//! not know how services work.

use std::ops::RangeInclusive;
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_core::time::{DAY_MS, MINUTE_MS, SECOND_MS};
use windlass_core::{Result, check_text, limits, within_range};

/// Intervals of services that jobs wait for: how late a job may start.
pub const PROMPT_INTERVAL_MS: RangeInclusive<u64> = 5..=MINUTE_MS;
/// Intervals of the other services.
pub const INTERVAL_MS: RangeInclusive<u64> = 5..=DAY_MS;
/// Intervals of the sampler: a minute needs at least one.
pub const SAMPLE_INTERVAL_MS: RangeInclusive<u64> = 5..=MINUTE_MS;
/// How long a leadership may outlive its holder.
pub const LEAD_TTL_MS: RangeInclusive<u64> = 100..=5 * MINUTE_MS;
/// The same unless asked otherwise.
const LEAD_TTL_DEFAULT_MS: u64 = 10 * SECOND_MS;

/// The pace of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Whether this process offers the service at all.
    pub enabled: bool,
    /// The longest time between two looks.
    pub interval_ms: u64,
}

/// The pace of a service that works through jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// Whether this process offers the service at all.
    pub enabled: bool,
    /// The longest time between two runs.
    pub interval_ms: u64,
    /// How many jobs one step touches at most. A run takes as many steps as there is work.
    pub batch: u32,
}

impl Upkeep {
    const fn every(interval_ms: u64) -> Self {
        Self { enabled: true, interval_ms, batch: 1_000 }
    }
}

/// Options of the services; the defaults are good.
///
/// ```
/// use windlass_services::ServiceOptions;
///
/// let mut options = ServiceOptions::default();
/// options.retain.interval_ms = 60_000;
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
    /// What people call this process where they see who leads.
    pub label: String,
    /// Whether only one process at a time works. Without it every process does all the work: safe,
    /// as each step is, but a waste.
    pub leadership: bool,
    /// How long a leadership lasts without being renewed: how long a crash stops the services.
    pub lead_ttl_ms: u64,
    /// Lets due jobs in. Wakes when the next one it knows of is due; the interval bounds how late a
    /// job starts that was scheduled after it looked.
    pub promote: Upkeep,
    /// Takes back what lost sessions held.
    pub reclaim: Upkeep,
    /// Ends what waited longer than it may.
    pub expire: Upkeep,
    /// Removes what is past its retention.
    pub retain: Upkeep,
    /// Gives space back.
    pub compact: Upkeep,
    /// Keeps dead letters within the bytes of their queue.
    pub trim: Pace,
    /// Fires recurring jobs. Wakes when the next one is due; the interval bounds how late a change
    /// of a schedule is noticed.
    pub schedule: Pace,
    /// Holds kinds back that keep failing. Wakes when a probe is due; the interval bounds how late a
    /// breaker opens or closes.
    pub breaker: Pace,
    /// Measures queues.
    pub sample: Pace,
    /// Whether measuring also shows the numbers as gauges while this process leads. A server shows them
    /// whoever leads, and turns this off.
    pub gauges: bool,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            label: format!("process {}", std::process::id()),
            leadership: true,
            lead_ttl_ms: LEAD_TTL_DEFAULT_MS,
            promote: Upkeep::every(250),
            reclaim: Upkeep::every(2 * SECOND_MS),
            expire: Upkeep::every(MINUTE_MS),
            retain: Upkeep::every(5 * MINUTE_MS),
            compact: Upkeep::every(2 * MINUTE_MS),
            trim: Pace { enabled: true, interval_ms: 5 * MINUTE_MS },
            schedule: Pace { enabled: true, interval_ms: SECOND_MS },
            breaker: Pace { enabled: true, interval_ms: SECOND_MS },
            sample: Pace { enabled: true, interval_ms: SECOND_MS },
            gauges: true,
        }
    }
}

impl ServiceOptions {
    /// Whether every value is within its limit.
    pub fn check(&self) -> Result<()> {
        check_text("label", &self.label, limits::NAME_BYTES_MAX)?;
        within_range("lead_ttl_ms", self.lead_ttl_ms, LEAD_TTL_MS)?;
        for (upkeep, interval, batch, range) in [
            (self.promote, "promote.interval_ms", "promote.batch", PROMPT_INTERVAL_MS),
            (self.reclaim, "reclaim.interval_ms", "reclaim.batch", PROMPT_INTERVAL_MS),
            (self.expire, "expire.interval_ms", "expire.batch", INTERVAL_MS),
            (self.retain, "retain.interval_ms", "retain.batch", INTERVAL_MS),
            (self.compact, "compact.interval_ms", "compact.batch", INTERVAL_MS),
        ] {
            within_range(interval, upkeep.interval_ms, range)?;
            within_range(batch, upkeep.batch.into(), 1..=MAINTAIN_BUDGET_MAX.into())?;
        }
        within_range("trim.interval_ms", self.trim.interval_ms, INTERVAL_MS)?;
        within_range("schedule.interval_ms", self.schedule.interval_ms, PROMPT_INTERVAL_MS)?;
        within_range("breaker.interval_ms", self.breaker.interval_ms, PROMPT_INTERVAL_MS)?;
        within_range("sample.interval_ms", self.sample.interval_ms, SAMPLE_INTERVAL_MS)
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
        assert_eq!(refused(|o| o.lead_ttl_ms = 10), "lead_ttl_ms");
        assert_eq!(refused(|o| o.promote.interval_ms = DAY_MS), "promote.interval_ms");
        assert_eq!(refused(|o| o.retain.interval_ms = 0), "retain.interval_ms");
        assert_eq!(refused(|o| o.expire.batch = MAINTAIN_BUDGET_MAX + 1), "expire.batch");
        assert_eq!(refused(|o| o.schedule.interval_ms = 0), "schedule.interval_ms");
        assert_eq!(refused(|o| o.sample.interval_ms = 2 * MINUTE_MS), "sample.interval_ms");
    }
}

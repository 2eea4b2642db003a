//! The circuit breaker of a kind: when most of its jobs fail, the others are held back, and single probes
//! test whether the kind works again. Independent of gates, alerts and storage.

use crate::error::{Result, within_range};
use crate::limits::{BREAKER_BUCKETS_MAX, BREAKER_INTERVAL_MS, BREAKER_SAMPLES_MAX};
use crate::time::{MINUTE_MS, Timestamp, millis};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When a breaker opens, and how often it probes while open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BreakerPolicy {
    /// The period over which outcomes are counted, in milliseconds. The window slides in steps of a tenth.
    pub window_ms: u64,
    /// The breaker opens when more than this percentage of outcomes are errors.
    pub error_rate_percent: u8,
    /// Minimum number of outcomes for opening.
    pub min_samples: u64,
    /// Interval at which an open breaker lets one job through, in milliseconds.
    pub probe_every_ms: u64,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl BreakerPolicy {
    /// Defaults: more than 80 % errors among at least 20 outcomes in 5 minutes; a probe every minute.
    pub const fn new() -> Self {
        Self {
            window_ms: 5 * MINUTE_MS,
            error_rate_percent: 80,
            min_samples: 20,
            probe_every_ms: MINUTE_MS,
        }
    }

    /// Sets the window.
    #[must_use]
    pub const fn window(mut self, time: Duration) -> Self {
        self.window_ms = millis(time);
        self
    }

    /// Sets the error rate above which the breaker opens.
    #[must_use]
    pub const fn error_rate_percent(mut self, percent: u8) -> Self {
        self.error_rate_percent = percent;
        self
    }

    /// Sets the minimum number of outcomes.
    #[must_use]
    pub const fn min_samples(mut self, samples: u64) -> Self {
        self.min_samples = samples;
        self
    }

    /// Sets the interval of probes.
    #[must_use]
    pub const fn probe_every(mut self, time: Duration) -> Self {
        self.probe_every_ms = millis(time);
        self
    }

    /// Checks that every value is within its limits.
    pub fn check(&self) -> Result<()> {
        within_range("breaker.window_ms", self.window_ms, BREAKER_INTERVAL_MS)?;
        // The rate must be exceeded, so a breaker with 100 % would never open.
        let percent = self.error_rate_percent.into();
        within_range("breaker.error_rate_percent", percent, 0..=99)?;
        within_range("breaker.min_samples", self.min_samples, 1..=BREAKER_SAMPLES_MAX)?;
        within_range("breaker.probe_every_ms", self.probe_every_ms, BREAKER_INTERVAL_MS)
    }

    /// Whether these counts open the breaker.
    fn trips(&self, count: BreakerCount) -> bool {
        // 128 bits, so that a saturated sum does not look like a rate of 100 %.
        let errors = u128::from(count.errors);
        let samples = errors + u128::from(count.ok);
        samples >= u128::from(self.min_samples)
            && errors * 100 > samples * u128::from(self.error_rate_percent)
    }
}

/// The breaker of one kind: a small record that all processes share by compare-and-set.
///
/// It counts outcomes and cannot distinguish a probe from a job that was already running when the breaker
/// opened. So outcomes are ignored while no probe is out; while one is out, any success closes the breaker,
/// and errors alone wait for the next probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Breaker {
    /// Jobs run, and their outcomes are counted.
    Closed {
        /// The outcomes within the window, oldest first, in at most ten buckets.
        #[serde(default)]
        buckets: Vec<BreakerBucket>,
    },
    /// Jobs are held back.
    Open {
        /// When it opened.
        since: Timestamp,
        /// When the next probe may start.
        next_probe_at: Timestamp,
    },
    /// Jobs are held back, except for one probe.
    Probing {
        /// When it opened.
        since: Timestamp,
        /// When the probe is considered lost and another may start, because its worker may have died.
        until: Timestamp,
    },
}

/// The outcomes of one tenth of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BreakerBucket {
    /// Start of the bucket.
    pub at: Timestamp,
    /// Its outcomes.
    #[serde(flatten)]
    pub count: BreakerCount,
}

/// Numbers of successful and failed attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerCount {
    /// Successful attempts.
    pub ok: u64,
    /// Failed attempts.
    pub errors: u64,
}

impl BreakerCount {
    const fn plus(mut self, other: Self) -> Self {
        self.ok = self.ok.saturating_add(other.ok);
        self.errors = self.errors.saturating_add(other.errors);
        self
    }
}

/// Which jobs a breaker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permit {
    /// All jobs.
    Flow,
    /// No jobs until `until`.
    Hold {
        /// When a probe may start.
        until: Timestamp,
    },
    /// One job as a probe. Only the process that succeeds in storing the breaker may let it through.
    Probe,
}

/// A change of the breaker, for logs and alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerChange {
    /// It opened: jobs of this kind are held back.
    Opened {
        /// The outcomes that opened it.
        count: BreakerCount,
    },
    /// A probe succeeded: jobs run again.
    Closed {
        /// How long it was open.
        open_ms: u64,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        let buckets = Vec::new();
        Self::Closed { buckets }
    }
}

impl Breaker {
    /// Since when jobs are held back, if they are.
    pub const fn open_since(&self) -> Option<Timestamp> {
        match self {
            Self::Closed { .. } => None,
            Self::Open { since, .. } | Self::Probing { since, .. } => Some(*since),
        }
    }

    /// Adds outcomes. The caller stores the breaker if it has changed and reports the returned change.
    pub fn record(
        &mut self,
        policy: &BreakerPolicy,
        now: Timestamp,
        ok: u64,
        errors: u64,
    ) -> Option<BreakerChange> {
        let count = BreakerCount { ok, errors };
        match self {
            _ if count == BreakerCount::default() => None,
            Self::Open { .. } => None,
            Self::Closed { buckets } => {
                let count = add(buckets, policy.window_ms, now, count);
                policy.trips(count).then(|| {
                    *self = Self::open(policy, now, now);
                    BreakerChange::Opened { count }
                })
            }
            Self::Probing { since, .. } if ok > 0 => {
                let open_ms = now.since(*since);
                // Starts without outcomes: those from before it opened must not open it again.
                *self = Self::default();
                Some(BreakerChange::Closed { open_ms })
            }
            Self::Probing { since, .. } => {
                *self = Self::open(policy, *since, now);
                None
            }
        }
    }

    /// A breaker open since `since`, with the next probe one interval after `now`.
    fn open(policy: &BreakerPolicy, since: Timestamp, now: Timestamp) -> Self {
        let next_probe_at = now.plus(policy.probe_every_ms);
        Self::Open { since, next_probe_at }
    }

    /// Which jobs may start now. The caller stores the breaker if it has changed: a permitted probe is
    /// recorded, and only the process that stored it may start it.
    pub fn permit(&mut self, policy: &BreakerPolicy, now: Timestamp) -> Permit {
        let (since, probe_at) = match self {
            Self::Closed { .. } => return Permit::Flow,
            Self::Open { since, next_probe_at } => (*since, next_probe_at),
            Self::Probing { since, until } => (*since, until),
        };
        let until = now.plus(policy.probe_every_ms);
        // If the probe is more than one interval away, the clock went back or the interval was shortened;
        // neither may delay the probe.
        *probe_at = until.min(*probe_at);
        if now < *probe_at {
            return Permit::Hold { until: *probe_at };
        }
        *self = Self::Probing { since, until };
        Permit::Probe
    }
}

/// Adds `count` to the bucket of `now` and removes buckets outside of the window. Returns the sum of the
/// window.
fn add(
    buckets: &mut Vec<BreakerBucket>,
    window_ms: u64,
    now: Timestamp,
    count: BreakerCount,
) -> BreakerCount {
    // In both directions: after a clock went back, buckets far in the future would otherwise count for a long
    // time.
    buckets.retain(|bucket| now.since(bucket.at) < window_ms && bucket.at.since(now) < window_ms);
    let at = bucket_start(window_ms, now);
    match buckets.last_mut() {
        // The clock went back slightly: the latest bucket is used until the clock has caught up.
        Some(last) if last.at >= at => last.count = last.count.plus(count),
        _ => buckets.push(BreakerBucket { at, count }),
    }
    // More than the maximum is possible only after a change of the window.
    let surplus = buckets.len().saturating_sub(BREAKER_BUCKETS_MAX);
    buckets.drain(..surplus);
    let counts = buckets.iter().map(|bucket| bucket.count);
    counts.fold(BreakerCount::default(), BreakerCount::plus)
}

/// The start of the bucket that contains `now`.
fn bucket_start(window_ms: u64, now: Timestamp) -> Timestamp {
    let bucket_ms = (window_ms / BREAKER_BUCKETS_MAX as u64).max(1);
    let into_ms = i128::from(now.as_millis()).rem_euclid(i128::from(bucket_ms));
    now.minus(u64::try_from(into_ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::DAY_MS;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const POLICY: BreakerPolicy = BreakerPolicy::new();

    /// Reports outcomes to a breaker, `ms` after [`NOW`].
    fn report(breaker: &mut Breaker, ms: u64, ok: u64, errors: u64) -> Option<BreakerChange> {
        breaker.record(&POLICY, NOW.plus(ms), ok, errors)
    }

    fn ask(breaker: &mut Breaker, ms: u64) -> Permit {
        breaker.permit(&POLICY, NOW.plus(ms))
    }

    fn hold(ms: u64) -> Permit {
        let until = NOW.plus(ms);
        Permit::Hold { until }
    }

    fn opens(ok: u64, errors: u64) -> Option<BreakerChange> {
        let count = BreakerCount { ok, errors };
        Some(BreakerChange::Opened { count })
    }

    fn closes(open_ms: u64) -> Option<BreakerChange> {
        Some(BreakerChange::Closed { open_ms })
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        assert_eq!(report(&mut breaker, 0, 0, 20), opens(0, 20));
        breaker
    }

    fn probing() -> Breaker {
        let mut breaker = opened();
        assert_eq!(ask(&mut breaker, MINUTE_MS), Permit::Probe);
        breaker
    }

    #[test]
    fn a_breaker_opens_above_the_rate_once_it_has_enough_samples() {
        let mut breaker = Breaker::default();
        assert_eq!(report(&mut breaker, 0, 0, 19), None);
        assert_eq!(report(&mut breaker, 1, 5, 1), None, "exactly 80 %");
        assert_eq!(ask(&mut breaker, 1), Permit::Flow);
        assert_eq!(report(&mut breaker, MINUTE_MS, 0, 1), opens(5, 21));
        assert_eq!(breaker.open_since(), Some(NOW.plus(MINUTE_MS)));
        assert_eq!(report(&mut Breaker::default(), 0, 0, 20), opens(0, 20));
    }

    #[test]
    fn outcomes_count_until_they_leave_the_window() {
        let mut breaker = Breaker::default();
        report(&mut breaker, 0, 0, 19);
        let just_inside = report(&mut breaker.clone(), POLICY.window_ms - 1, 0, 1);
        assert_eq!(just_inside, opens(0, 20));
        assert_eq!(report(&mut breaker, POLICY.window_ms, 0, 1), None);
        // Old successes do not count either.
        let mut breaker = Breaker::default();
        report(&mut breaker, 0, 1_000, 0);
        assert_eq!(report(&mut breaker, MINUTE_MS, 0, 20), None);
        assert_eq!(report(&mut breaker, POLICY.window_ms, 0, 1), opens(0, 21));
    }

    #[test]
    fn while_open_one_probe_goes_each_interval() {
        let mut breaker = opened();
        assert_eq!(ask(&mut breaker, MINUTE_MS - 1), hold(MINUTE_MS));
        assert_eq!(ask(&mut breaker, MINUTE_MS), Permit::Probe);
        assert_eq!(ask(&mut breaker, MINUTE_MS), hold(2 * MINUTE_MS));
        assert_eq!(breaker.open_since(), Some(NOW));
    }

    #[test]
    fn a_good_probe_closes_it_with_a_clean_slate() {
        let mut breaker = probing();
        assert_eq!(report(&mut breaker, 70_000, 1, 0), closes(70_000));
        assert_eq!(breaker, Breaker::default());
        assert_eq!(ask(&mut breaker, 70_000), Permit::Flow);
        assert_eq!(report(&mut breaker, 70_001, 0, 19), None);
    }

    #[test]
    fn a_bad_probe_keeps_it_open_for_another_interval() {
        let mut breaker = probing();
        assert_eq!(report(&mut breaker, 90_000, 0, 1), None);
        assert_eq!(ask(&mut breaker, 90_000), hold(150_000));
        assert_eq!(ask(&mut breaker, 150_000), Permit::Probe);
    }

    #[test]
    fn a_probe_that_never_reports_is_given_again() {
        let mut breaker = probing();
        assert_eq!(ask(&mut breaker, 119_999), hold(120_000));
        assert_eq!(ask(&mut breaker, 120_000), Permit::Probe);
        // The first probe may still succeed.
        assert_eq!(report(&mut breaker, 120_001, 1, 0), closes(120_001));
    }

    #[test]
    fn jobs_that_were_running_when_it_opened_do_not_close_it() {
        let mut breaker = opened();
        assert_eq!(report(&mut breaker, 1, 5, 100), None);
        assert_eq!(breaker, opened());
        // An empty report is not a success.
        let mut breaker = probing();
        assert_eq!(report(&mut breaker, 60_001, 0, 0), None);
        assert_eq!(breaker, probing());
        // While a probe is out, a success closes the breaker regardless of other outcomes.
        assert_eq!(report(&mut probing(), 60_001, 1, 3), closes(60_001));
    }

    #[test]
    fn a_clock_that_goes_back_loses_no_recent_count_and_keeps_no_future_one() {
        for (back_ms, opened_by) in [(4 * MINUTE_MS, opens(10, 110)), (DAY_MS, opens(0, 100))] {
            let mut breaker = Breaker::default();
            report(&mut breaker, 0, 10, 10);
            assert_eq!(breaker.record(&POLICY, NOW.minus(back_ms), 0, 100), opened_by);
        }
    }

    #[test]
    fn a_clock_that_goes_back_holds_jobs_for_one_interval_at_most() {
        let back = NOW.minus(DAY_MS);
        let until = back.plus(MINUTE_MS);
        for mut breaker in [opened(), probing()] {
            assert_eq!(breaker.permit(&POLICY, back), Permit::Hold { until });
            assert_eq!(breaker.permit(&POLICY, until), Permit::Probe);
            assert_eq!(breaker.record(&POLICY, until, 1, 0), closes(0));
        }
    }

    #[test]
    fn counters_saturate() {
        let mut breaker = Breaker::default();
        report(&mut breaker, 0, u64::MAX, u64::MAX);
        assert_eq!(report(&mut breaker, 0, u64::MAX, 5), None);
        for end in [Timestamp::MAX, Timestamp::from_millis(i64::MIN)] {
            assert_eq!(breaker.record(&POLICY, end, 1, 1), None);
            assert_eq!(breaker.permit(&POLICY, end), Permit::Flow);
        }
    }

    #[test]
    fn a_policy_that_cannot_work_is_refused_by_field() {
        POLICY.check().unwrap();
        for (bad, field) in [
            (POLICY.window(Duration::from_millis(999)), "window_ms"),
            (POLICY.window(Duration::from_millis(DAY_MS + 1)), "window_ms"),
            (POLICY.error_rate_percent(100), "error_rate_percent"),
            (POLICY.min_samples(0), "min_samples"),
            (POLICY.min_samples(BREAKER_SAMPLES_MAX + 1), "min_samples"),
            (POLICY.probe_every(Duration::ZERO), "probe_every_ms"),
        ] {
            let error = bad.check().unwrap_err();
            assert_eq!(error.field().unwrap(), format!("breaker.{field}"));
        }
    }

    #[test]
    fn the_record_reads_back_and_stays_small() {
        let mut full = Breaker::default();
        for bucket in 0..30 {
            report(&mut full, bucket * 30_000, 1_000_000, 1_000_000);
        }
        for breaker in [full, opened(), probing()] {
            let json = serde_json::to_string(&breaker).unwrap();
            assert!(json.len() < 1024, "{json}");
            assert_eq!(serde_json::from_str::<Breaker>(&json).unwrap(), breaker);
        }
        assert_eq!(POLICY, serde_json::from_str("{}").unwrap());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_breaker_stays_small_and_never_holds_longer_than_an_interval(
            steps in prop::collection::vec((any::<i32>(), 0..40_u64, 0..40_u64, 1..DAY_MS), 1..50),
        ) {
            let mut breaker = Breaker::default();
            let mut now = NOW;
            for (move_ms, ok, errors, window_ms) in steps {
                now = Timestamp::from_millis(now.as_millis() + i64::from(move_ms));
                let policy = POLICY.window(Duration::from_millis(window_ms));
                breaker.record(&policy, now, ok, errors);
                if let Breaker::Closed { buckets } = &breaker {
                    prop_assert!(buckets.len() <= BREAKER_BUCKETS_MAX);
                    prop_assert!(buckets.is_sorted_by_key(|bucket| bucket.at));
                }
                if let Permit::Hold { until } = breaker.permit(&policy, now) {
                    prop_assert!(now < until && until <= now.plus(policy.probe_every_ms));
                    prop_assert_eq!(breaker.clone().permit(&policy, until), Permit::Probe);
                }
            }
        }
    }
}

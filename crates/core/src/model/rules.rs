//! Rules of a registered kind. Independent of who stores and enforces them, and of how schemas are parsed.

use super::{CheckRule, NewJob, Policy};
use crate::error::{Error, Result, within_limit, within_range};
use crate::limits;
use crate::policy::{Backoff, BreakerPolicy};
use serde::{Deserialize, Serialize};

/// The priorities of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityRule {
    /// The lowest number, the most urgent priority.
    pub min: i32,
    /// The highest number.
    pub max: i32,
    /// The priority of jobs that leave it at 0.
    pub default: i32,
}

impl Default for PriorityRule {
    fn default() -> Self {
        Self { min: i32::MIN, max: i32::MAX, default: 0 }
    }
}

impl PriorityRule {
    fn check(self) -> Result<()> {
        if self.min > self.max {
            let expected = format!("it must be at most priority.max, which is {}", self.max);
            return Err(Error::invalid("priority.min", self.min, expected));
        }
        self.within("priority.default", self.default)
    }

    fn within(self, field: &'static str, priority: i32) -> Result<()> {
        if (self.min..=self.max).contains(&priority) {
            return Ok(());
        }
        let expected = format!("its kind allows {} to {}", self.min, self.max);
        Err(Error::invalid(field, priority, expected))
    }
}

/// The rules of a registered kind.
///
/// ```
/// use windlass_core::model::{KindRules, NewJob};
///
/// let mut rules = KindRules::default();
/// rules.max_attempts = Some(10);
/// let mut job = NewJob::new("send_email");
/// rules.apply(&mut job);
/// assert_eq!(job.policy.max_attempts, 10);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct KindRules {
    /// A JSON Schema, as text, that every payload must match.
    pub schema: Option<String>,
    /// Maximum payload size, if lower than the limit of the store.
    pub payload_bytes_max: Option<u64>,
    /// Number of attempts for jobs that have the default.
    pub max_attempts: Option<u32>,
    /// Maximum run time for jobs that do not set one.
    pub timeout_ms: Option<u64>,
    /// Maximum wait for jobs that do not set one.
    pub max_wait_ms: Option<u64>,
    /// Delay after a failure for jobs that have the default.
    pub backoff: Option<Backoff>,
    /// Its priorities, if they are restricted.
    pub priority: Option<PriorityRule>,
    /// Whether a replay must be confirmed with the name of the kind.
    pub sensitive: bool,
    /// Its circuit breaker, if it has one.
    pub breaker: Option<BreakerPolicy>,
    /// How its completed jobs are checked, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckRule>,
}

impl KindRules {
    /// Checks that every value is within its limits.
    pub fn check(&self) -> Result<()> {
        let hint = "describe less in it, or split the kind";
        let schema = self.schema.as_ref().map_or(0, String::len);
        within_limit("schema", schema, limits::SCHEMA_BYTES_MAX, hint)?;
        if let Some(bytes) = self.payload_bytes_max {
            within_range("payload_bytes_max", bytes, 1..=limits::PAYLOAD_BYTES_MAX as u64)?;
        }
        if let Some(breaker) = &self.breaker {
            breaker.check()?;
        }
        if let Some(priority) = self.priority {
            priority.check()?;
        }
        if let Some(check) = &self.check {
            check.check()?;
        }
        let mut policy = Policy::default();
        self.fill(&mut policy);
        policy.check()
    }

    /// Applies the defaults of the kind to values that the job leaves at the general defaults.
    pub fn apply(&self, job: &mut NewJob) {
        self.fill(&mut job.policy);
        if job.priority == 0 {
            job.priority = self.priority.map_or(0, |rule| rule.default);
        }
    }

    /// Checks a priority against the range of the kind.
    pub fn check_priority(&self, priority: i32) -> Result<()> {
        self.priority.map_or(Ok(()), |rule| rule.within("priority", priority))
    }

    fn fill(&self, policy: &mut Policy) {
        let usual = Policy::default();
        if policy.max_attempts == usual.max_attempts {
            policy.max_attempts = self.max_attempts.unwrap_or(usual.max_attempts);
        }
        if policy.backoff == usual.backoff {
            policy.backoff = self.backoff.unwrap_or(usual.backoff);
        }
        policy.timeout_ms = policy.timeout_ms.or(self.timeout_ms);
        policy.max_wait_ms = policy.max_wait_ms.or(self.max_wait_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_keeps_what_it_says_itself() {
        let mut rules = KindRules::default();
        (rules.max_attempts, rules.timeout_ms, rules.max_wait_ms) = (Some(9), Some(7), Some(5));
        let mut plain = NewJob::new("k");
        rules.apply(&mut plain);
        let said = |policy: &Policy| (policy.max_attempts, policy.timeout_ms, policy.max_wait_ms);
        assert_eq!(said(&plain.policy), (9, Some(7), Some(5)));
        let mut own = NewJob::new("k").max_attempts(2).max_wait_ms(1);
        rules.apply(&mut own);
        assert_eq!(said(&own.policy), (2, Some(7), Some(1)));
    }

    #[test]
    fn backoff_and_priority_are_defaults_and_a_priority_outside_the_range_is_refused() {
        let rules = KindRules {
            backoff: Some(Backoff::exactly(7)),
            priority: Some(PriorityRule { min: 2, max: 9, default: 5 }),
            ..KindRules::default()
        };
        rules.check().unwrap();
        let mut plain = NewJob::new("k");
        rules.apply(&mut plain);
        assert_eq!((plain.policy.backoff, plain.priority), (Backoff::exactly(7), 5));
        let mut own = NewJob::new("k").backoff(Backoff::exactly(1)).priority(10);
        rules.apply(&mut own);
        assert_eq!((own.policy.backoff, own.priority), (Backoff::exactly(1), 10));
        rules.check_priority(9).unwrap();
        let error = rules.check_priority(10).unwrap_err();
        assert_eq!(error.to_string(), "priority is \"10\": its kind allows 2 to 9");
    }

    #[test]
    fn a_rule_that_cannot_hold_is_refused_by_name() {
        type Spoil = fn(&mut KindRules);
        let bad: [(Spoil, &str); 8] = [
            (|rules| rules.backoff = Some(Backoff::exactly(u64::MAX)), "backoff.delay_ms"),
            (
                |rules| rules.priority = Some(PriorityRule { min: 2, max: 1, default: 1 }),
                "priority.min",
            ),
            (
                |rules| rules.priority = Some(PriorityRule { min: 1, max: 2, default: 0 }),
                "priority.default",
            ),
            (|rules| rules.schema = Some(" ".repeat(limits::SCHEMA_BYTES_MAX + 1)), "schema"),
            (|rules| rules.payload_bytes_max = Some(0), "payload_bytes_max"),
            (|rules| rules.max_attempts = Some(0), "max_attempts"),
            (|rules| rules.timeout_ms = Some(0), "timeout_ms"),
            (
                |rules| rules.breaker = Some(BreakerPolicy::new().min_samples(0)),
                "breaker.min_samples",
            ),
        ];
        for (spoil, field) in bad {
            let mut rules = KindRules::default();
            rules.check().unwrap();
            spoil(&mut rules);
            assert_eq!(rules.check().unwrap_err().field(), Some(field));
        }
    }
}

//! Named limits: how many jobs may run at a time, and how many may start per period.

use crate::error::{Error, Result, within_limit, within_range};
use crate::limits::{
    GROUP_BYTES_MAX, LIMIT_AMOUNT_MAX, LIMIT_OVERRIDES_MAX, LIMIT_PER_MAX_MS, LIMIT_RUNNING_MAX,
    LIMIT_WINDOW_MAX,
};
use crate::name::check_text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How often jobs may start. Each start takes the job's cost, 1 by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rate {
    /// A token bucket (GCRA): it holds up to `burst` tokens and gains `amount` tokens per `per_ms`, evenly.
    Bucket {
        /// Tokens gained per period.
        amount: u32,
        /// The period.
        per_ms: u64,
        /// Tokens that can be saved up, and therefore taken at once.
        burst: u32,
    },
    /// An exact sliding window: the costs of all starts within any `per_ms` never exceed `max`.
    Window {
        /// Maximum total cost.
        max: u32,
        /// The length of the window.
        per_ms: u64,
    },
}

impl Rate {
    /// A bucket that can save up the tokens of one period.
    pub const fn bucket(amount: u32, per_ms: u64) -> Self {
        Self::Bucket { amount, per_ms, burst: amount }
    }

    /// An exact sliding window.
    pub const fn window(max: u32, per_ms: u64) -> Self {
        Self::Window { max, per_ms }
    }

    /// The highest cost that can ever start at once.
    pub const fn capacity(self) -> u32 {
        match self {
            Self::Bucket { burst, .. } => burst,
            Self::Window { max, .. } => max,
        }
    }

    fn check(self) -> Result<()> {
        let amounts = 1..=u64::from(LIMIT_AMOUNT_MAX);
        let per_ms = match self {
            Self::Bucket { amount, per_ms, burst } => {
                within_range("rate.amount", amount.into(), amounts.clone())?;
                within_range("rate.burst", burst.into(), amounts)?;
                per_ms
            }
            Self::Window { max, per_ms } => {
                within_range("rate.max", max.into(), 1..=LIMIT_WINDOW_MAX.into())?;
                per_ms
            }
        };
        within_range("rate.per_ms", per_ms, 1..=LIMIT_PER_MAX_MS)
    }
}

/// What a limit allows in one group, or over all jobs. An empty rule allows everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Rule {
    /// Maximum number of jobs that run at the same time.
    pub max_running: Option<u32>,
    /// How often jobs may start.
    pub rate: Option<Rate>,
}

impl Rule {
    /// At most this number of jobs at the same time.
    pub const fn running(max: u32) -> Self {
        Self { max_running: Some(max), rate: None }
    }

    /// Starts at this rate.
    pub const fn rate(rate: Rate) -> Self {
        Self { max_running: None, rate: Some(rate) }
    }

    /// Adds a rate.
    #[must_use]
    pub const fn at_rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    fn check(self) -> Result<()> {
        if let Some(max) = self.max_running {
            within_range("max_running", max.into(), 1..=LIMIT_RUNNING_MAX.into())?;
        }
        self.rate.map_or(Ok(()), Rate::check)
    }
}

/// A named limit of a store, shared by all queues and kinds that list it.
///
/// ```
/// use windlass_core::model::{Limit, Rate, Rule};
///
/// // Five jobs of a customer at a time, and 100 starts per minute; twice as many for one of them.
/// let limit = Limit::max_running(5).rate(Rate::window(100, 60_000)).by_group();
/// let limit = limit.for_group("acme", Rule::running(10));
/// assert!(limit.check().is_ok());
/// assert_eq!(limit.rule_for("acme").max_running, Some(10));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Limit {
    /// The rule for all jobs together, or for each group.
    #[serde(flatten)]
    pub rule: Rule,
    /// Whether each group is counted separately.
    pub by_group: bool,
    /// Groups with a rule of their own, which replaces [`Limit::rule`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Rule>,
}

impl Limit {
    /// A limit with this rule over all jobs.
    pub const fn new(rule: Rule) -> Self {
        Self { rule, by_group: false, overrides: BTreeMap::new() }
    }

    /// At most this number of jobs at the same time.
    pub const fn max_running(max: u32) -> Self {
        Self::new(Rule::running(max))
    }

    /// Adds a rate.
    #[must_use]
    pub const fn rate(mut self, rate: Rate) -> Self {
        self.rule.rate = Some(rate);
        self
    }

    /// Counts each group separately.
    #[must_use]
    pub const fn by_group(mut self) -> Self {
        self.by_group = true;
        self
    }

    /// Gives a group a rule of its own.
    #[must_use]
    pub fn for_group(mut self, group: impl Into<String>, rule: Rule) -> Self {
        self.overrides.insert(group.into(), rule);
        self
    }

    /// The rule for the jobs of a group.
    pub fn rule_for(&self, group: &str) -> Rule {
        let own = self.overrides.get(group).filter(|_| self.by_group);
        own.copied().unwrap_or(self.rule)
    }

    /// The group in which a job of `group` is counted; empty if the limit counts all jobs together.
    pub fn counted_in<'a>(&self, group: &'a str) -> &'a str {
        if self.by_group { group } else { "" }
    }

    /// Checks that every value is within its limits.
    pub fn check(&self) -> Result<()> {
        if self.rule == Rule::default() && self.overrides.is_empty() {
            let expected = "a limit needs `max_running`, a `rate`, or both";
            return Err(Error::invalid("limit", "empty", expected));
        }
        if !self.by_group && !self.overrides.is_empty() {
            let expected = "only a limit by group has overrides: set `by_group`";
            return Err(Error::invalid("overrides", self.overrides.len(), expected));
        }
        let hint = "use another limit for the other groups";
        within_limit("overrides", self.overrides.len(), LIMIT_OVERRIDES_MAX, hint)?;
        self.rule.check()?;
        for (group, rule) in &self.overrides {
            check_text("overrides", group, GROUP_BYTES_MAX)?;
            rule.check().map_err(|error| error.within("overrides"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(limit: &Limit) -> String {
        let error = limit.check().unwrap_err();
        error.field().unwrap().to_owned()
    }

    #[test]
    fn values_out_of_range_are_refused_by_field() {
        let rated = |rate| Limit::new(Rule::rate(rate));
        assert_eq!(refused(&Limit::default()), "limit");
        assert_eq!(refused(&Limit::max_running(0)), "max_running");
        assert_eq!(refused(&Limit::max_running(LIMIT_RUNNING_MAX + 1)), "max_running");
        assert_eq!(refused(&rated(Rate::bucket(0, 1_000))), "rate.amount");
        let burst = Rate::Bucket { amount: 1, per_ms: 1, burst: 0 };
        assert_eq!(refused(&rated(burst)), "rate.burst");
        assert_eq!(refused(&rated(Rate::window(0, 1_000))), "rate.max");
        assert_eq!(refused(&rated(Rate::window(LIMIT_WINDOW_MAX + 1, 1_000))), "rate.max");
        assert_eq!(refused(&rated(Rate::window(1, 0))), "rate.per_ms");
        assert_eq!(refused(&rated(Rate::bucket(1, LIMIT_PER_MAX_MS + 1))), "rate.per_ms");
    }

    #[test]
    fn overrides_need_groups_and_replace_the_rule() {
        let limit = Limit::max_running(2).for_group("a", Rule::running(9));
        assert_eq!(refused(&limit), "overrides");
        let limit = limit.by_group();
        limit.check().unwrap();
        let max = |group| limit.rule_for(group).max_running;
        assert_eq!((max("a"), max("b")), (Some(9), Some(2)));
        let free = limit.clone().for_group("vip", Rule::default());
        free.check().unwrap();
        assert_eq!(free.rule_for("vip"), Rule::default(), "no limit for this group");
        let long = limit.clone().for_group("x".repeat(GROUP_BYTES_MAX + 1), Rule::running(1));
        assert_eq!(refused(&long), "overrides");
        assert_eq!(refused(&limit.for_group("z", Rule::running(0))), "overrides.max_running");
    }

    #[test]
    fn limits_are_stored_as_json() {
        let limit = Limit::max_running(5).rate(Rate::bucket(100, 60_000)).by_group();
        let limit = limit.for_group("acme", Rule::running(10));
        let text = serde_json::to_string(&limit).unwrap();
        assert_eq!(serde_json::from_str::<Limit>(&text).unwrap(), limit, "{text}");
    }
}

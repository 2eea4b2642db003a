//! `[limits.NAME]`: limits. As with schedules, the file defines the whole limit: rules that it leaves out do not apply.

use super::{Field, Named};
use crate::config::field::field;
use crate::config::held::{Json, PerTime};
use crate::config::value::{Kind, Wrong};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use windlass_core::check_name;
use windlass_core::limits::{LIMIT_AMOUNT_MAX, LIMIT_RUNNING_MAX};
use windlass_core::model::{Limit, Rate};

const RUNNING: RangeInclusive<u64> = 1..=LIMIT_RUNNING_MAX as u64;
const BURST: RangeInclusive<u64> = 1..=LIMIT_AMOUNT_MAX as u64;

/// The settings of one limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitRules {
    max_running: Option<u32>,
    rate: Option<PerTime>,
    burst: Option<u32>,
    window: Option<PerTime>,
    by_group: bool,
    overrides: Option<Json>,
}

static FIELDS: &[Field<LimitRules>] = &[
    field!(
        "max_running",
        Kind::count(RUNNING).or_none(),
        Live,
        max_running,
        "Maximum number of jobs that run at the same time."
    ),
    field!(
        "rate",
        Kind::TEXT.or_none(),
        Live,
        rate,
        "Starts per period, evenly and with bursts, as in \"100/1m\"."
    ),
    field!(
        "burst",
        Kind::count(BURST).or_none(),
        Live,
        burst,
        "Starts that may happen at once under `rate`; by default those of one period."
    ),
    field!(
        "window",
        Kind::TEXT.or_none(),
        Live,
        window,
        "Maximum number of starts within any period of this length, as in \"100/1m\". Instead of `rate`."
    ),
    field!("by_group", Kind::FLAG, Live, by_group, "Count each group of jobs separately."),
    field!(
        "overrides",
        Kind::JSON,
        Live,
        overrides,
        "Rules of single groups: { GROUP = { max_running = N } }."
    ),
];

impl LimitRules {
    /// The limit to store.
    pub(crate) fn limit(&self) -> Result<Limit, (&'static str, String, Wrong)> {
        if let (Some(rate), Some(_)) = (self.rate, self.window) {
            return Err((
                "rate",
                rate.to_string(),
                "set beside window; keep one of the two".into(),
            ));
        }
        if let (None, Some(burst)) = (self.rate, self.burst) {
            return Err(("burst", burst.to_string(), "it needs a rate".into()));
        }
        let bucket = self.rate.map(|PerTime { amount, per_ms }| Rate::Bucket {
            amount,
            per_ms,
            burst: self.burst.unwrap_or(amount),
        });
        let window = self.window.map(|PerTime { amount, per_ms }| Rate::window(amount, per_ms));
        let mut limit = Limit::default();
        limit.rule.max_running = self.max_running;
        limit.rule.rate = bucket.or(window);
        limit.by_group = self.by_group;
        if let Some(Json(text)) = &self.overrides {
            let rules: Result<BTreeMap<String, windlass_wire::Rule>, _> =
                serde_json::from_str(text);
            let rules = rules.map_err(|error| {
                let text = format!("{error}; write {{ GROUP = {{ max_running = N }} }}");
                ("overrides", "…".to_owned(), Wrong::from(text))
            })?;
            let rules = rules.into_iter().map(|(group, rule)| (group, rule.into()));
            limit.overrides = rules.collect();
        }
        limit.check().map_err(|error| ("", String::new(), error.to_string().into()))?;
        Ok(limit)
    }
}

impl Named for LimitRules {
    const SECTION: &'static str = "limits";
    const DOC: &'static str = "A limit, which queues list by name. Rules that are left out do not apply. A limit that is \
                               removed from the file stays in the store; `windlass limits remove` removes it.";
    const EXAMPLE_NAME: &'static str = "stripe";

    fn fields() -> &'static [Field<Self>] {
        FIELDS
    }

    fn example() -> Self {
        let rate = Some(PerTime { amount: 100, per_ms: 60_000 });
        Self { max_running: Some(5), rate, ..Self::default() }
    }

    fn check(&self, name: &str) -> Vec<(&'static str, String, Wrong)> {
        let name = check_name("limit", name).err().map(|error| ("", name.to_owned(), error.into()));
        name.or_else(|| self.limit().err()).into_iter().collect()
    }
}

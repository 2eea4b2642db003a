//! Named limits, and tokens taken from them.

#[cfg(feature = "openapi")]
use crate::openapi;
use crate::{is_one, one};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_core::Timestamp;
use windlass_core::engine::{self, Cursor};
use windlass_core::model::{self, Name};

/// How often jobs may start.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rate {
    /// A token bucket: up to `burst` starts at once, and `amount` per `per_ms` over time.
    Bucket {
        /// Tokens gained per period.
        amount: u32,
        /// The period.
        per_ms: u64,
        /// Tokens that can be saved up; by default those of one period.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        burst: Option<u32>,
    },
    /// An exact sliding window: never more than `max` within any `per_ms`.
    Window {
        /// Maximum total cost.
        max: u32,
        /// The length of the window.
        per_ms: u64,
    },
}

/// What a limit allows.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Maximum number of jobs that run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// How often jobs may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// A limit, shared by all queues and kinds that list it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(examples(json!({"max_running": 5, "rate": {"window": {"max": 100, "per_ms": 60000}}, "by_group": true})))
)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Maximum number of jobs that run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// How often jobs may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Whether each group is counted separately.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub by_group: bool,
    /// Groups with a rule of their own, which replaces the limit's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Rule>,
}

/// A limit with its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LimitView {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub name: Name,
    /// The limit.
    #[serde(flatten)]
    pub limit: Limit,
    /// Queues that list it.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Name>))]
    pub queues: Vec<Name>,
    /// Kinds that list it.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Name>))]
    pub kinds: Vec<Name>,
    /// Running jobs that it counts, of all groups.
    pub running: u64,
    /// Jobs of its queues and kinds that are ready or in the line of their group.
    pub waiting: u64,
    /// Tokens that jobs could take now; absent without a rate, and for a limit by group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Until when a report holds it; absent if none does, and for a limit by group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub held_until: Option<Timestamp>,
    /// Of a limit by group, the groups with the most jobs, at most 20. All others are the difference to `running` and
    /// `waiting`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupStats>,
}

/// The jobs of one group under a limit, and what it allows the group now.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupStats {
    /// The group; empty for jobs without a group and a tenant.
    pub group: String,
    /// Its running jobs that the limit counts.
    pub running: u64,
    /// Its jobs that are ready or in line.
    pub waiting: u64,
    /// Tokens that its jobs could take now; absent without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Until when a report holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub held_until: Option<Timestamp>,
}

impl LimitView {
    /// All limits, with the queues and kinds that list each, and its statistics.
    pub fn all(settings: engine::Settings, stats: Vec<engine::LimitStats>) -> Vec<Self> {
        let mut stats: BTreeMap<Name, engine::LimitStats> =
            stats.into_iter().map(|stats| (stats.name.clone(), stats)).collect();
        let engine::Settings { queues, kinds, limits, .. } = settings;
        let view = |(name, limit): (Name, model::Limit)| {
            let lists = |limits: &[Name]| limits.contains(&name);
            let of_queues = queues.iter().filter(|(_, settings)| lists(&settings.limits));
            let of_kinds = kinds.iter().filter(|(_, settings)| lists(&settings.limits));
            let (of_queues, of_kinds) = (
                of_queues.map(|(queue, _)| queue.clone()).collect(),
                of_kinds.map(|(kind, _)| kind.clone()).collect(),
            );
            let mut view = Self {
                limit: limit.into(),
                queues: of_queues,
                kinds: of_kinds,
                running: 0,
                waiting: 0,
                tokens: None,
                held_until: None,
                groups: Vec::new(),
                name,
            };
            // A limit that was created since the settings were read has no statistics yet.
            if let Some(stats) = stats.remove(&view.name) {
                view.count(stats);
            }
            view
        };
        limits.into_iter().map(view).collect()
    }

    fn count(&mut self, stats: engine::LimitStats) {
        let engine::LimitStatsFields { name: _, running, waiting, tokens, held_until, groups } =
            stats.into();
        let group = |group: engine::GroupStats| {
            let engine::GroupStatsFields { group, running, waiting, tokens, held_until } =
                group.into();
            GroupStats { group, running, waiting, tokens, held_until }
        };
        (self.running, self.waiting) = (running, waiting);
        (self.tokens, self.held_until) = (tokens, held_until);
        self.groups = groups.into_iter().map(group).collect();
    }

    /// Converts to the core statistics.
    pub fn into_stats(self) -> engine::LimitStats {
        let Self { name, running, waiting, tokens, held_until, groups, .. } = self;
        let group = |GroupStats { group, running, waiting, tokens, held_until }| {
            engine::GroupStatsFields { group, running, waiting, tokens, held_until }.into()
        };
        let groups = groups.into_iter().map(group).collect();
        engine::LimitStatsFields { name, running, waiting, tokens, held_until, groups }.into()
    }
}

/// A page of limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Limits {
    /// The limits, by name.
    pub limits: Vec<LimitView>,
    /// Cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// A request for tokens of a limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"group": "acme", "cost": 3}))))]
#[serde(deny_unknown_fields)]
pub struct Take {
    /// The group, for a limit by group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub group: Option<String>,
    /// Number of tokens.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Cost))]
    pub cost: u32,
}

/// Whether tokens were taken.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Took {
    /// Whether they were taken.
    pub granted: bool,
    /// When they will be there, unless others take them first; absent if they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub at: Option<Timestamp>,
}

impl From<Rate> for model::Rate {
    fn from(rate: Rate) -> Self {
        match rate {
            Rate::Bucket { amount, per_ms, burst } => {
                Self::Bucket { amount, per_ms, burst: burst.unwrap_or(amount) }
            }
            Rate::Window { max, per_ms } => Self::Window { max, per_ms },
        }
    }
}

impl From<model::Rate> for Rate {
    fn from(rate: model::Rate) -> Self {
        match rate {
            model::Rate::Window { max, per_ms } => Self::Window { max, per_ms },
            model::Rate::Bucket { amount, per_ms, burst } => {
                Self::Bucket { amount, per_ms, burst: Some(burst) }
            }
            // Core may add variants; none of them is sent by this version.
            _ => Self::Window { max: 0, per_ms: 0 },
        }
    }
}

impl From<Rule> for model::Rule {
    fn from(rule: Rule) -> Self {
        let mut full = Self::default();
        (full.max_running, full.rate) = (rule.max_running, rule.rate.map(Into::into));
        full
    }
}

impl From<model::Rule> for Rule {
    fn from(rule: model::Rule) -> Self {
        Self { max_running: rule.max_running, rate: rule.rate.map(Into::into) }
    }
}

impl From<Limit> for model::Limit {
    fn from(limit: Limit) -> Self {
        let Limit { max_running, rate, by_group, overrides } = limit;
        let mut full = Self::new(Rule { max_running, rate }.into());
        full.by_group = by_group;
        full.overrides = overrides.into_iter().map(|(group, rule)| (group, rule.into())).collect();
        full
    }
}

impl From<model::Limit> for Limit {
    fn from(limit: model::Limit) -> Self {
        let Rule { max_running, rate } = limit.rule.into();
        let overrides = limit.overrides.into_iter().map(|(group, rule)| (group, rule.into()));
        Self { max_running, rate, by_group: limit.by_group, overrides: overrides.collect() }
    }
}

impl Take {
    /// Converts to the core request.
    pub fn into_core(self, limit: Name) -> engine::Take {
        let mut request = engine::Take::new(limit).cost(self.cost);
        request.group = self.group;
        request
    }
}

impl From<engine::Take> for Take {
    fn from(request: engine::Take) -> Self {
        Self { group: request.group, cost: request.cost }
    }
}

impl From<engine::Took> for Took {
    fn from(took: engine::Took) -> Self {
        match took {
            engine::Took::Granted => Self { granted: true, at: None },
            engine::Took::At(at) => Self { granted: false, at: Some(at) },
        }
    }
}

impl From<Took> for engine::Took {
    fn from(took: Took) -> Self {
        took.at.filter(|_| !took.granted).map_or(Self::Granted, Self::At)
    }
}

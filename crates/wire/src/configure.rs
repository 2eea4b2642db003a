//! Settings of queues and kinds, and limits.

use crate::bounded;
use crate::events::EventBounds;
use crate::limit::Limit;
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::policy::{KeepMax, Retention};
use crate::present;
use crate::topic::Subscription;
use serde::{Deserialize, Serialize};
use windlass_core::engine;
use windlass_core::limits::{BATCH_MAX, SUBSCRIPTIONS_MAX};
use windlass_core::model::{self, KindSettings, Name, Order, QueueSettings};
use windlass_core::{Error, Result};

/// Changes to the settings of a queue: absent fields stay unchanged, `null` removes a limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"paused": true, "max_depth": 100000}))))]
#[serde(deny_unknown_fields)]
pub struct QueuePatch {
    /// Pauses or resumes the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Depth limit.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Depth>))]
    pub max_depth: Option<Option<u64>>,
    /// `strict`, `lifo`, `fair` or `{"ageing": {"quantum_ms": …}}`.
    #[serde(default, deserialize_with = "order_in", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::QueueOrder>))]
    pub order: Option<Order>,
    /// Retention of finished jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// Maximum waiting time of due jobs before they expire.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::SpanMs>))]
    pub max_wait_ms: Option<Option<u64>>,
    /// Maximum total bytes of dead letters; beyond it, the oldest are removed.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Whole>))]
    pub dead_bytes_max: Option<Option<u64>>,
    /// Number of ended jobs to keep, by state; replaced as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_max: Option<KeepMax>,
    /// Names of the limits that its jobs run under; replaced as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<openapi::Name>>, max_items = 4))]
    pub limits: Option<Vec<Name>>,
    /// Switches the recording of events on with these bounds; `null` switches it off and drops all events.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<EventBounds>))]
    pub events: Option<Option<EventBounds>>,
    /// Its subscriptions; replaced as a whole. With any, the queue is a topic: each new job is stored once in the queue of
    /// every subscription that wants it.
    #[serde(
        default,
        deserialize_with = "bounded::option::<SUBSCRIPTIONS_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(max_items = 32))]
    pub subscriptions: Option<Vec<Subscription>>,
}

/// Deserializes an order strictly, as in all requests; core's own deserializer, used for storage,
/// is lenient.
fn order_in<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Order>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    enum Known {
        Strict,
        Ageing { quantum_ms: u64 },
        Lifo,
        Fair,
    }
    let known = Option::<Known>::deserialize(deserializer)?;
    Ok(known.map(|known| match known {
        Known::Strict => Order::Strict,
        Known::Ageing { quantum_ms } => Order::Ageing { quantum_ms },
        Known::Lifo => Order::Lifo,
        Known::Fair => Order::Fair,
    }))
}

/// Changes to the settings of a kind: absent fields stay unchanged, `null` removes a limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"permits": 10}))))]
#[serde(deny_unknown_fields)]
pub struct KindPatch {
    /// Pauses or resumes the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Number of permits.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Whole32>))]
    pub permits: Option<Option<u32>>,
    /// Names of the limits that its jobs run under, beside those of their queues; replaced as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<openapi::Name>>, max_items = 4))]
    pub limits: Option<Vec<Name>>,
}

/// Changes to the settings of a queue or a kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Configure {
    /// A queue.
    Queue {
        /// Name of the queue or kind.
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
        name: Name,
        /// The settings to change.
        set: QueuePatch,
    },
    /// A kind.
    Kind {
        /// Name of the queue or kind.
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
        name: Name,
        /// The settings to change.
        set: KindPatch,
    },
    /// A limit, replaced as a whole.
    Limit {
        /// Name of the limit.
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
        name: Name,
        /// The limit; absent to remove it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<Limit>,
    },
}

/// A batch of changes of settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfigureBatch {
    /// The changes.
    #[serde(deserialize_with = "bounded::vec::<BATCH_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(max_items = 10000))]
    pub items: Vec<Configure>,
}

impl From<QueuePatch> for model::QueuePatch {
    fn from(patch: QueuePatch) -> Self {
        let mut full = Self::default();
        full.paused = patch.paused;
        full.max_depth = patch.max_depth;
        full.order = patch.order;
        full.retention = patch.retention.map(Into::into);
        full.max_wait_ms = patch.max_wait_ms;
        full.dead_bytes_max = patch.dead_bytes_max;
        full.keep_max = patch.keep_max.map(Into::into);
        full.limits = patch.limits;
        full.events = patch.events.map(|bounds| bounds.map(Into::into));
        full.subscriptions = patch.subscriptions.map(converted);
        full
    }
}

fn converted<A: Into<B>, B>(items: Vec<A>) -> Vec<B> {
    items.into_iter().map(Into::into).collect()
}

impl From<KindPatch> for model::KindPatch {
    fn from(patch: KindPatch) -> Self {
        let mut full = Self::default();
        (full.paused, full.permits) = (patch.paused, patch.permits);
        full.limits = patch.limits;
        full
    }
}

impl From<Configure> for engine::Configure {
    fn from(change: Configure) -> Self {
        match change {
            Configure::Queue { name, set } => Self::Queue(name, set.into()),
            Configure::Kind { name, set } => Self::Kind(name, set.into()),
            Configure::Limit { name, set } => {
                Self::Limit(name, set.map(|limit| Box::new(limit.into())))
            }
        }
    }
}

impl TryFrom<engine::Configure> for Configure {
    type Error = Error;

    /// Fails for settings in core that this protocol version cannot express.
    fn try_from(change: engine::Configure) -> Result<Self> {
        match change {
            engine::Configure::Queue(name, patch) => {
                let set = QueuePatch {
                    paused: patch.paused,
                    max_depth: patch.max_depth,
                    order: patch.order,
                    retention: patch.retention.map(Into::into),
                    max_wait_ms: patch.max_wait_ms,
                    dead_bytes_max: patch.dead_bytes_max,
                    keep_max: patch.keep_max.map(Into::into),
                    limits: patch.limits,
                    events: patch.events.map(|bounds| bounds.map(Into::into)),
                    subscriptions: patch.subscriptions.map(converted),
                };
                Ok(Self::Queue { name, set })
            }
            engine::Configure::Kind(name, patch) => Ok(Self::Kind {
                name,
                set: KindPatch {
                    paused: patch.paused,
                    permits: patch.permits,
                    limits: patch.limits,
                },
            }),
            engine::Configure::Limit(name, limit) => {
                Ok(Self::Limit { name, set: limit.map(|limit| (*limit).into()) })
            }
            other => {
                let expected = "this protocol version does not support it";
                Err(Error::invalid("items", format!("{other:?}"), expected))
            }
        }
    }
}

/// Settings that differ from the defaults.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Settings {
    /// Settings of queues.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::NamedQueue>))]
    pub queues: Vec<Named<QueueSettings>>,
    /// Settings of kinds.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::NamedKind>))]
    pub kinds: Vec<Named<KindSettings>>,
    /// Limits.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::NamedLimit>))]
    pub limits: Vec<Named<Limit>>,
}

/// The settings of a queue or a kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Named<T> {
    /// Name of the queue or kind.
    pub name: Name,
    /// Its settings.
    pub settings: T,
}

impl From<engine::Settings> for Settings {
    fn from(settings: engine::Settings) -> Self {
        let queues = settings.queues.into_iter().map(|(name, settings)| Named { name, settings });
        let kinds = settings.kinds.into_iter().map(|(name, settings)| Named { name, settings });
        let limits = settings.limits.into_iter();
        let limits = limits.map(|(name, limit)| Named { name, settings: limit.into() });
        Self { queues: queues.collect(), kinds: kinds.collect(), limits: limits.collect() }
    }
}

impl From<Settings> for engine::Settings {
    fn from(settings: Settings) -> Self {
        let queues = settings.queues.into_iter().map(|Named { name, settings }| (name, settings));
        let kinds = settings.kinds.into_iter().map(|Named { name, settings }| (name, settings));
        let limits = settings.limits.into_iter();
        let limits = limits.map(|Named { name, settings }| (name, settings.into()));
        Self::new(queues.collect(), kinds.collect()).limits(limits.collect())
    }
}

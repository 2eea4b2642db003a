//! Subscriptions of topics.

use crate::bounded;
#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::limits::{SUBSCRIPTION_KINDS_MAX, TAGS_MAX};
use windlass_core::model::{self, Name, SubscriptionFields};

/// A subscription of a topic: the queue that gets a copy of each job that is enqueued to the topic.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"name": "billing", "queue": "orders.billing", "kinds": ["paid"]}))))]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// Its name, which no other subscription of the topic has.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub name: Name,
    /// The queue that gets the copies, which no other subscription of the topic has.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub queue: Name,
    /// The kinds of the jobs that it gets; all if absent.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<SUBSCRIPTION_KINDS_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Name>, max_items = 100))]
    pub kinds: Vec<Name>,
    /// The tags of the jobs that it gets, of which a job must have one; all jobs if absent.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<TAGS_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(max_items = 16))]
    pub tags: Vec<String>,
}

impl From<Subscription> for model::Subscription {
    fn from(subscription: Subscription) -> Self {
        let Subscription { name, queue, kinds, tags } = subscription;
        SubscriptionFields { name, queue, kinds, tags }.into()
    }
}

impl From<model::Subscription> for Subscription {
    fn from(subscription: model::Subscription) -> Self {
        let SubscriptionFields { name, queue, kinds, tags } = subscription.into();
        Self { name, queue, kinds, tags }
    }
}

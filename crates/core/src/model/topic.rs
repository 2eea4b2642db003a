//! Topics: queues that pass each new job on to other queues.

use super::{Name, NewJob};
use crate::error::{Error, Result, within_limit};
use crate::growing::growing;
use crate::id::JobId;
use crate::limits::{SUBSCRIPTION_KINDS_MAX, SUBSCRIPTIONS_MAX, TAG_BYTES_MAX, TAGS_MAX};
use crate::name::{check_name, check_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

growing! {
    /// A subscription of a topic: the queue that gets a copy of each job that is enqueued to the topic.
    ///
    /// ```
    /// use windlass_core::model::{NewJob, QueuePatch, Subscription};
    ///
    /// let billing = Subscription::new("billing", "orders.billing").kinds(["paid", "refunded"]);
    /// assert!(billing.wants(&NewJob::new("paid")) && !billing.wants(&NewJob::new("viewed")));
    /// let patch = QueuePatch::subscriptions([billing]);
    /// assert!(patch.check().is_ok());
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Subscription as SubscriptionFields {
        /// Its name, which no other subscription of the topic has.
        pub name: Name,
        /// The queue that gets the copies. Each subscription of a topic has a queue of its own.
        pub queue: Name,
        /// The kinds of the jobs that it gets; if empty, all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub kinds: Vec<Name>,
        /// The tags of the jobs that it gets, of which a job must have one; if empty, all jobs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub tags: Vec<String>,
    }
}

impl Subscription {
    /// A subscription to all jobs of a topic.
    pub fn new(name: impl Into<Name>, queue: impl Into<Name>) -> Self {
        Self { name: name.into(), queue: queue.into(), kinds: Vec::new(), tags: Vec::new() }
    }

    /// Sets the kinds of the jobs that it gets.
    #[must_use]
    pub fn kinds<N: Into<Name>>(mut self, kinds: impl IntoIterator<Item = N>) -> Self {
        self.kinds = kinds.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the tags of the jobs that it gets, of which a job must have one.
    #[must_use]
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Whether it gets a copy of this job.
    pub fn wants(&self, job: &NewJob) -> bool {
        let of_kind = self.kinds.is_empty() || self.kinds.contains(&job.kind);
        of_kind && (self.tags.is_empty() || self.tags.iter().any(|tag| job.tags.contains(tag)))
    }

    /// The copy that it gets of a job with this id. The id of the copy is derived, so that a repeated enqueue stores it
    /// once.
    pub fn copy_of(&self, job: &NewJob, id: JobId) -> NewJob {
        let copy = job.clone().queue(self.queue.clone());
        copy.derived_id(JobId::copy(id, &self.name))
    }

    fn check(&self) -> Result<()> {
        check_name("subscriptions.name", &self.name)?;
        check_name("subscriptions.queue", &self.queue)?;
        let hint = "leave the filter empty and let the handler skip jobs, or use another topic";
        let (kinds, tags) = (self.kinds.len(), self.tags.len());
        within_limit("subscriptions.kinds", kinds, SUBSCRIPTION_KINDS_MAX, hint)?;
        within_limit("subscriptions.tags", tags, TAGS_MAX, hint)?;
        self.kinds.iter().try_for_each(|kind| check_name("subscriptions.kinds", kind))?;
        self.tags.iter().try_for_each(|tag| check_text("subscriptions.tags", tag, TAG_BYTES_MAX))
    }
}

/// Checks the subscriptions of a topic: valid, with names and queues of their own.
pub(super) fn check_subscriptions(subscriptions: &[Subscription]) -> Result<()> {
    let hint = "let one of them pass jobs on to the others";
    within_limit("subscriptions", subscriptions.len(), SUBSCRIPTIONS_MAX, hint)?;
    let (mut names, mut queues) = (BTreeSet::new(), BTreeSet::new());
    for subscription in subscriptions {
        subscription.check()?;
        if !names.insert(&subscription.name) {
            let expected = "two subscriptions have this name: give each its own";
            return Err(Error::invalid("subscriptions.name", &subscription.name, expected));
        }
        if !queues.insert(&subscription.queue) {
            let expected = "two subscriptions have this queue: give each its own, so that each job runs once for each";
            return Err(Error::invalid("subscriptions.queue", &subscription.queue, expected));
        }
    }
    Ok(())
}

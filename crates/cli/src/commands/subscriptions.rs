//! `windlass queues subscribe` and `unsubscribe`: the subscriptions of topics.

use super::queues::{configure, list};
use crate::store::Common;
use anyhow::{Result, bail};
use std::process::ExitCode;
use windlass::Client;
use windlass_core::engine::Configure;
use windlass_core::model::{QueuePatch, Subscription};

#[derive(Debug, clap::Args)]
pub(super) struct Subscribe {
    /// Name of the topic
    topic: String,
    /// Name of the subscription
    name: String,
    /// Queue that gets the copies [default: TOPIC.NAME]
    #[arg(long)]
    queue: Option<String>,
    /// Copy only jobs of this kind; repeat it for more
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Copy only jobs with this tag; repeat it for more, of which a job must have one
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

impl Subscribe {
    /// Adds a subscription to a topic, or replaces the one with its name.
    pub(super) async fn run(self, common: &Common) -> Result<ExitCode> {
        let Self { topic, name, queue, kinds, tags } = self;
        let queue = queue.unwrap_or_else(|| format!("{topic}.{name}"));
        let subscription = Subscription::new(name.as_str(), queue).kinds(kinds).tags(tags);
        // Checked before the store is created.
        QueuePatch::subscriptions([subscription.clone()]).check()?;
        let mut others = subscriptions(&common.open_or_create().await?, &topic).await?;
        others.retain(|it| *it.name != *name);
        others.push(subscription);
        resubscribe(common, &topic, others).await
    }
}

/// Removes a subscription of a topic. Jobs that its queue has got stay there.
pub(super) async fn unsubscribe(common: &Common, topic: &str, name: &str) -> Result<ExitCode> {
    let mut left = subscriptions(&common.open().await?, topic).await?;
    let before = left.len();
    left.retain(|it| *it.name != *name);
    if left.len() == before {
        let names: Vec<&str> = left.iter().map(|it| &*it.name).collect();
        match names.is_empty() {
            true => bail!("queue {topic:?} has no subscriptions"),
            false => {
                bail!("queue {topic:?} has no subscription {name:?}; it has {}", names.join(", "))
            }
        }
    }
    resubscribe(common, topic, left).await
}

/// The subscriptions of a queue.
async fn subscriptions(client: &Client, queue: &str) -> Result<Vec<Subscription>> {
    let queues = client.settings().await?.queues;
    let found = queues.into_iter().find(|(name, _)| **name == *queue);
    Ok(found.map(|(_, settings)| settings.subscriptions).unwrap_or_default())
}

async fn resubscribe(
    common: &Common,
    topic: &str,
    subscriptions: Vec<Subscription>,
) -> Result<ExitCode> {
    let patch = QueuePatch::subscriptions(subscriptions);
    configure(common, vec![Configure::queue(topic, patch)]).await?;
    list(common).await
}

/// The subscriptions of a topic and their queues, in words.
pub(super) fn named(subscriptions: &[Subscription]) -> String {
    let named = subscriptions.iter().map(|it| format!("{} → {}", it.name, it.queue));
    format!("topic of {}", named.collect::<Vec<_>>().join(" "))
}

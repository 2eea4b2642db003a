//! Dropping events that are older than their queue keeps them, or that are too many since it keeps fewer.

use super::entries;
use crate::conn::error::{Trouble, Try};
use crate::conn::library::Function;
use crate::conn::script::{Commands, Reads};
use crate::engine::RedisEngine;
use crate::slow::transaction::{Loaded, Transaction};
use windlass_core::Result;
use windlass_core::engine::EventSpan;
use windlass_core::model::{EventBounds, Name};

impl RedisEngine {
    /// Drops up to `budget` events by age; returns whether more are left.
    pub(crate) async fn drop_events(&self, budget: usize) -> Result<bool> {
        let attempt = async {
            let (transaction, mut loaded) = self.inner.shared.look().await?;
            let mut left = budget;
            let writes = drops(&transaction, &mut left, &mut loaded).await?;
            transaction.commit(Function::Drain, writes).await?;
            Ok(left == 0)
        };
        match Box::pin(attempt).await {
            Ok(more) => Ok(more),
            Err(Trouble::Conflict) => {
                self.inner.shared.forget_settings();
                Ok(true)
            }
            Err(Trouble::Fatal(error)) => Err(error),
        }
    }
}

/// The writes of a step.
async fn drops(
    transaction: &Transaction<'_>,
    left: &mut usize,
    loaded: &mut Loaded,
) -> Try<Commands> {
    let (keys, settings, mut writes) =
        (transaction.keys, &transaction.settings, Commands::default());
    let (mut streams, mut reads): (Vec<(&Name, u64, EventBounds)>, _) =
        (Vec::new(), Reads::default());
    for (queue, start) in &settings.event_starts {
        let bounds = settings.queues.get(queue).and_then(|settings| settings.events);
        let span = EventSpan { start: *start, dropped: *start, last: *start };
        match bounds {
            Some(bounds) => {
                streams.push((queue, *start, bounds));
                reads.peek("XRANGE", &keys.events(queue), &[b"-", b"+", b"COUNT", b"1"]);
                let most = bounds.max.to_string();
                let args: [&[u8]; 3] = [b"MAXLEN", b"=", most.as_bytes()];
                writes.push("XTRIM", &keys.events(queue), &args);
            }
            // The next stream of the queue must not begin at the same number.
            None if !span.is_recent(loaded.now) => {
                writes.push("HDEL", &keys.one("event_start"), &[queue.as_bytes()]);
            }
            None => {}
        }
    }
    let replies = transaction.read(reads, loaded).await?;
    for (at, (queue, start, bounds)) in streams.into_iter().enumerate() {
        let before = loaded.now.minus(bounds.max_age_ms);
        let first = entries(queue, start, replies.0.get(at))?;
        if *left == 0 || first.first().is_none_or(|(_, event)| event.at >= before) {
            continue;
        }
        let (mut reads, most) = (Reads::default(), left.to_string());
        reads.peek("XRANGE", &keys.events(queue), &[b"-", b"+", b"COUNT", most.as_bytes()]);
        let replies = transaction.read(reads, loaded).await?;
        let events = entries(queue, start, replies.0.first())?;
        // The first that is not older ends it: the clock may have been set back.
        let old = events.iter().take_while(|(_, event)| event.at < before);
        let (count, last) =
            old.fold((0, None), |(count, _), (number, _)| (count + 1, Some(*number)));
        if let Some(last) = last {
            let least = format!("{start}-{}", last - start);
            let args: [&[u8]; 3] = [b"MINID", b"=", least.as_bytes()];
            writes.push("XTRIM", &keys.events(queue), &args);
        }
        *left -= count;
    }
    Ok(writes)
}

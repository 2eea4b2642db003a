//! Reading a page of a stream, and waiting for one.

use super::{entries, span};
use crate::conn::error::{Trouble, Try, unavailable};
use crate::conn::script::Reads;
use crate::engine::RedisEngine;
use crate::slow::perform::TRIES_MAX;
use crate::slow::transaction::{Loaded, Transaction};
use std::time::Duration;
use windlass_core::Result;
use windlass_core::engine::{EventsReply, EventsRequest, Stamped, events_are_off};

/// First polling interval of a reader that waits, for messages that do not arrive; doubles up to the maximum.
const POLL_MIN: Duration = Duration::from_millis(100);
/// Maximum polling interval.
const POLL_MAX: Duration = Duration::from_secs(1);

impl RedisEngine {
    /// Reads events, or waits for the first one; see [`windlass_core::engine::Admin::events`].
    pub(crate) async fn wait_for_events(
        &self,
        mut request: EventsRequest,
    ) -> Result<Stamped<EventsReply>> {
        request.check()?;
        let mut woken = self.inner.wakeups.watch_events(&request.queue);
        let first = self.read_events(&request).await?;
        if request.wait_ms == 0 || first.value.is_news() {
            return Ok(first);
        }
        request = request.after(first.value.next);
        let news = async {
            let mut pause = POLL_MIN;
            loop {
                // Reads in both cases.
                let _ = tokio::time::timeout(pause, woken.changed()).await;
                let reply = self.read_events(&request).await;
                if reply.as_ref().map_or(true, |reply| reply.value.is_news()) {
                    return reply;
                }
                pause = POLL_MAX.min(pause * 2);
            }
        };
        match tokio::time::timeout(Duration::from_millis(request.wait_ms), news).await {
            Ok(reply) => reply,
            Err(_) => self.read_events(&request).await,
        }
    }

    async fn read_events(&self, request: &EventsRequest) -> Result<Stamped<EventsReply>> {
        for _ in 0..TRIES_MAX {
            let (transaction, mut loaded) = self.inner.shared.look().await?;
            let settings = &transaction.settings;
            let is_on = settings.queues.get(&request.queue).is_some_and(|it| it.events.is_some());
            let start = settings.event_starts.get(&request.queue).filter(|_| is_on).copied();
            let start = start.ok_or_else(|| events_are_off(&request.queue))?;
            match page(&transaction, start, request, &mut loaded).await {
                Ok(Some(reply)) => return Ok(transaction.stamp(&loaded, reply)),
                Ok(None) => {}
                Err(Trouble::Conflict) => self.inner.shared.forget_settings(),
                Err(Trouble::Fatal(error)) => return Err(error),
            }
        }
        Err(unavailable("events are dropped faster than they are read: raise events.max"))
    }
}

/// The page of a request; `None` if its first events were dropped before they were read.
async fn page(
    transaction: &Transaction<'_>,
    start: u64,
    request: &EventsRequest,
    loaded: &mut Loaded,
) -> Try<Option<EventsReply>> {
    let EventsRequest { queue, from, limit, .. } = request;
    let key = transaction.keys.events(queue);
    let mut reads = Reads::default();
    reads.peek("SPAN", &key, &[]);
    let replies = transaction.read(reads, loaded).await?;
    let begin = span(start, &replies, 0)?.resume(queue, from)?;
    let (first, limit) = (format!("{start}-{}", begin.0 - start), limit.to_string());
    let mut reads = Reads::default();
    reads.peek("SPAN", &key, &[]);
    reads.peek("XRANGE", &key, &[first.as_bytes(), b"+", b"COUNT", limit.as_bytes()]);
    let replies = transaction.read(reads, loaded).await?;
    let span = span(start, &replies, 0)?;
    if span.dropped > begin.0 {
        return Ok(None);
    }
    let events = entries(queue, start, replies.0.get(1))?;
    Ok(Some(span.reply(queue, begin, events)))
}

//! Reading the events of a queue: a stream that continues after failures and says where events are missing.

use super::Client;
use crate::error::{Error, Result};
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _, TryStreamExt as _};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use windlass_core::engine::{Cursor, EventEntry, EventsFrom, EventsReply, EventsRequest};
use windlass_core::limits::PAGE_MAX;

/// How long one request waits for an event.
const WAIT_MS: u64 = 30_000;
/// Pause after the first failed request; doubles with each further one.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Longest pause between two requests.
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

impl Client {
    /// The events of a queue: every transition of its jobs, if its events are on.
    ///
    /// ```
    /// use windlass::engine::Configure;
    /// use windlass::model::{EventBounds, QueuePatch};
    /// use windlass::EventItem;
    ///
    /// # #[derive(windlass::Job, serde::Serialize, serde::Deserialize)]
    /// # #[job(queue = "mail")]
    /// # struct Welcome;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// let client = windlass::connect("memory:").await?;
    /// let on = QueuePatch::events(Some(EventBounds::default()));
    /// client.engine().configure(vec![Configure::queue("mail", on)]).await?;
    /// client.enqueue(Welcome).await?;
    ///
    /// let mut events = client.events("mail").until_now().stream();
    /// while let Some(item) = events.next().await {
    ///     match item? {
    ///         EventItem::Event(entry) => {
    ///             println!("{} {:?} {}", entry.event.job, entry.event.event, entry.cursor);
    ///         }
    ///         EventItem::Gap => println!("events were dropped before they were read"),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self, queue: &str) -> EventQuery {
        let request = EventsRequest::new(queue).limit(PAGE_MAX).wait_ms(WAIT_MS);
        EventQuery { client: self.clone(), request, follows: true }
    }
}

/// Which events of a queue to read; created by [`Client::events`]. From the oldest on, and on as they happen.
#[derive(Clone)]
#[must_use = "a query reads nothing until its stream is polled"]
pub struct EventQuery {
    client: Client,
    request: EventsRequest,
    follows: bool,
}

impl EventQuery {
    /// Continues after the cursor of an event that was read before.
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.request = self.request.after(cursor);
        self
    }

    /// Begins here: the oldest event that is kept, the next one, or after a cursor.
    pub fn from(mut self, from: EventsFrom) -> Self {
        self.request = self.request.from(from);
        self
    }

    /// Ends at the latest event instead of waiting for more.
    pub fn until_now(mut self) -> Self {
        self.request = self.request.wait_ms(0);
        self.follows = false;
        self
    }

    /// The events as a stream. A stream that follows retries while the store does not answer; any other error ends it.
    pub fn stream(self) -> EventStream {
        let pages = stream::try_unfold(Some(self), Self::next_page);
        let items = pages.map_ok(|items| stream::iter(items.into_iter().map(Ok))).try_flatten();
        EventStream(items.boxed())
    }

    /// One step of a stream: the items of a page, and the query of the next one.
    async fn next_page(query: Option<Self>) -> Result<Option<(Vec<EventItem>, Option<Self>)>> {
        let Some(mut query) = query else { return Ok(None) };
        let EventsReply { events, next, gap, .. } = query.page().await?;
        let more = query.follows || events.len() == query.request.limit as usize;
        let items = gap.then_some(EventItem::Gap).into_iter();
        let items = items.chain(events.into_iter().map(EventItem::Event)).collect();
        query.request = query.request.after(next);
        Ok(Some((items, more.then_some(query))))
    }

    /// The next page, as soon as the store answers.
    async fn page(&self) -> Result<EventsReply> {
        let mut pause = PAUSE_FIRST;
        loop {
            let error = match self.client.engine().events(self.request.clone()).await {
                Ok(reply) => return Ok(reply.value),
                Err(error) => error,
            };
            if !self.follows || !matches!(error.code(), "unavailable" | "busy") {
                return Err(Error::Engine(error));
            }
            tracing::debug!(%error, "events: retrying");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LONGEST);
        }
    }
}

impl fmt::Debug for EventQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQuery").field("request", &self.request).finish_non_exhaustive()
    }
}

/// What a stream of events returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventItem {
    /// An event, with the cursor to continue after it.
    Event(EventEntry),
    /// Events are missing here: they were dropped before they were read.
    Gap,
}

/// The events of a queue; created by [`EventQuery::stream`]. It is also a [`Stream`], for the combinators of other crates.
#[must_use = "a stream reads nothing until it is polled"]
pub struct EventStream(BoxStream<'static, Result<EventItem>>);

impl EventStream {
    /// The next item; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<EventItem>> {
        self.0.next().await
    }
}

impl Stream for EventStream {
    type Item = Result<EventItem>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventStream")
    }
}

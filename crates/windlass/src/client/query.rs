//! Queries of jobs: one page, or all pages as a stream.

use super::Client;
use crate::error::Result;
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _, TryStreamExt as _};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use windlass_core::engine::{Cursor, Filter, List, ListOrder, Page};
use windlass_core::model::{Job as StoredJob, Name, State};
use windlass_core::{JobId, Timestamp, TypedJob};

impl Client {
    /// A query of jobs. Narrow it down, then read a page or a stream.
    ///
    /// Sorted by the time that the state is about ([`SortedBy`](crate::engine::SortedBy)): scheduled jobs by due time,
    /// the next one first; running ones by start, ended ones by end, all others by enqueue, the latest first.
    ///
    /// ```
    /// use windlass::State;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let client = windlass::connect("memory:").await?;
    /// // One page.
    /// let page = client.jobs().in_queue("mail").in_state(State::Dead).limit(20).page().await?;
    /// assert!(page.rows.is_empty() && page.next.is_none());
    ///
    /// // All of them: pages are fetched as they are needed.
    /// let mut dead = client.jobs().in_state(State::Dead).stream();
    /// while let Some(job) = dead.next().await {
    ///     println!("{}", job?.header.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn jobs(&self) -> JobQuery {
        JobQuery { client: self.clone(), list: List::new(Filter::default()), order: None }
    }
}

/// A query of jobs; created by [`Client::jobs`]. A job matches if it satisfies all criteria.
#[derive(Clone, Debug)]
#[must_use = "a query reads nothing until `page` or `stream` is called"]
pub struct JobQuery {
    client: Client,
    list: List,
    /// `None`: the usual order of the list.
    order: Option<ListOrder>,
}

impl JobQuery {
    /// Jobs of this queue.
    pub fn in_queue(self, queue: impl Into<Name>) -> Self {
        self.narrow(|filter| filter.queue(queue))
    }

    /// Jobs of the kind with this name.
    pub fn of_kind(self, kind: impl Into<Name>) -> Self {
        self.narrow(|filter| filter.kind(kind))
    }

    /// Jobs of this type.
    pub fn of<J: TypedJob>(self) -> Self {
        self.of_kind(J::KIND)
    }

    /// Jobs in this state.
    pub fn in_state(mut self, state: State) -> Self {
        self.list.filter.state = Some(state);
        self
    }

    /// Jobs of this tenant.
    pub fn of_tenant(self, tenant: impl Into<String>) -> Self {
        self.narrow(|filter| filter.tenant(tenant))
    }

    /// Jobs with this ordering key.
    pub fn with_key(self, key: impl Into<String>) -> Self {
        self.narrow(|filter| filter.key(key))
    }

    /// Jobs with this tag.
    pub fn with_tag(self, tag: impl Into<String>) -> Self {
        self.narrow(|filter| filter.tag(tag))
    }

    /// Follow-up jobs of this job.
    pub fn children_of(self, parent: JobId) -> Self {
        self.narrow(|filter| filter.parent(parent))
    }

    /// Jobs enqueued at this time or later.
    pub fn created_from(self, from: impl Into<Timestamp>) -> Self {
        self.narrow(|filter| filter.created_from(from.into()))
    }

    /// Jobs enqueued before this time.
    pub fn created_until(self, until: impl Into<Timestamp>) -> Self {
        self.narrow(|filter| filter.created_until(until.into()))
    }

    /// Replaces all criteria by those of a filter.
    pub fn matching(self, filter: Filter) -> Self {
        self.narrow(|_| filter)
    }

    /// Returns the jobs with the earliest time first.
    pub const fn oldest_first(mut self) -> Self {
        self.order = Some(ListOrder::Oldest);
        self
    }

    /// Returns the jobs with the latest time first.
    pub const fn newest_first(mut self) -> Self {
        self.order = Some(ListOrder::Newest);
        self
    }

    /// Maximum number of jobs per page.
    pub const fn limit(mut self, jobs: u32) -> Self {
        self.list.limit = jobs;
        self
    }

    /// Continues after a page: `next` of that page.
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.list.after = Some(cursor);
        self
    }

    /// Reads one page, without parts. Only `next: None` means the end: a page may be short once it has examined many jobs
    /// that do not match.
    pub async fn page(&self) -> Result<Page<StoredJob>> {
        let order = self.order.unwrap_or_else(|| self.list.sorted_by().usual_order());
        Ok(self.client.engine().list(self.list.clone().order(order)).await?.value)
    }

    /// Reads all pages, one at a time, as their jobs are consumed. Ends after the first error.
    pub fn stream(self) -> JobStream {
        let pages = stream::try_unfold(Some(self), Self::next_page);
        let jobs = pages.map_ok(|rows| stream::iter(rows.into_iter().map(Ok))).try_flatten();
        JobStream(jobs.boxed())
    }

    /// One step of a stream: the jobs of a page, and the query of the next one.
    async fn next_page(query: Option<Self>) -> Result<Option<(Vec<StoredJob>, Option<Self>)>> {
        let Some(mut query) = query else { return Ok(None) };
        let page = query.page().await?;
        query.list.after = page.next;
        let next = query.list.after.is_some().then_some(query);
        Ok(Some((page.rows, next)))
    }

    fn narrow(mut self, narrow: impl FnOnce(Filter) -> Filter) -> Self {
        self.list.filter = narrow(self.list.filter);
        self
    }
}

/// The jobs that match a query; created by [`JobQuery::stream`]. It is also a [`Stream`], for the combinators
/// of other crates.
#[must_use = "a stream reads nothing until it is polled"]
pub struct JobStream(BoxStream<'static, Result<StoredJob>>);

impl JobStream {
    /// The next job; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<StoredJob>> {
        self.0.next().await
    }
}

impl Stream for JobStream {
    type Item = Result<StoredJob>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for JobStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobStream")
    }
}

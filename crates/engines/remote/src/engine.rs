//! The engine: each verb is one request to the server.

use crate::options::Options;
use crate::transport::Transport;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::*;
use windlass_core::model::{Job, Step};
use windlass_core::{Error, JobId, Result};
use windlass_wire::{self as wire, routes};

/// Maximum number of pages of one list: a million rows.
const PAGES_MAX: usize = 1_000;

/// A server as an engine. Cheap to clone; clones share its connections.
#[derive(Clone)]
pub struct RemoteEngine {
    inner: Arc<Inner>,
}

struct Inner {
    transport: Transport,
    /// Capabilities of the engine behind the server, read when connecting.
    capabilities: Capabilities,
}

impl RemoteEngine {
    /// Connects to the server at `url` with default options.
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Self::open(Options::new(url)).await
    }

    /// Connects with these options. Fails if the server does not answer, because its capabilities
    /// are read here.
    pub async fn open(options: Options) -> Result<Self> {
        let mut transport = Transport::new(options)?;
        let reported: wire::Capabilities = transport.get_unstamped(routes::CAPABILITIES).await?;
        if reported.protocol != wire::PROTOCOL {
            let expected = format!("this client supports version {}", wire::PROTOCOL);
            return Err(Error::invalid("protocol", reported.protocol, expected));
        }
        if reported.body_bytes_max > 0 {
            transport.limit_bodies(reported.body_bytes_max);
        }
        let capabilities = reported.into_core()?;
        tracing::debug!(url = transport.base(), engine = capabilities.engine, "connected");
        Ok(Self { inner: Arc::new(Inner { transport, capabilities }) })
    }

    fn transport(&self) -> &Transport {
        &self.inner.transport
    }

    /// Maximum time that an enqueue retries.
    pub(crate) fn patience(&self) -> Duration {
        self.transport().options().patience
    }

    /// Sends a POST request and converts the reply.
    async fn post<T: DeserializeOwned, U>(
        &self,
        path: &str,
        body: impl Serialize,
        turn: impl FnOnce(T) -> Result<U>,
    ) -> Result<Stamped<U>> {
        let Stamped { now, epoch, value } = self.transport().post(path, &body, 0).await?;
        Ok(Stamped { now, epoch, value: turn(value)? })
    }

    /// Sends a GET request and converts the reply.
    async fn get<T: DeserializeOwned, U>(
        &self,
        path: &str,
        turn: impl FnOnce(T) -> Result<U>,
    ) -> Result<Stamped<U>> {
        let Stamped { now, epoch, value } = self.transport().ask(Method::GET, path).await?;
        Ok(Stamped { now, epoch, value: turn(value)? })
    }

    /// Reads all pages of a list.
    async fn pages<T: DeserializeOwned, U>(
        &self,
        path: &str,
        turn: impl Fn(T) -> (Vec<U>, Option<Cursor>),
    ) -> Result<Stamped<Vec<U>>> {
        let (mut all, mut after) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let query = wire::write_query(&wire::PageQuery { after, limit: None });
            let page = self.get(&format!("{path}?{query}"), |page: T| Ok(turn(page))).await?;
            let Stamped { now, epoch, value: (rows, next) } = page;
            all.extend(rows);
            after = next;
            if after.is_none() {
                return Ok(Stamped { now, epoch, value: all });
            }
        }
        let reason = format!("{path} has more than {PAGES_MAX} pages");
        Err(Error::Unavailable { store: self.transport().base().to_owned(), reason })
    }

    /// Sends a batch of `requested` items and converts the result of each.
    pub(crate) async fn batch<T: DeserializeOwned, U>(
        &self,
        path: &str,
        requested: usize,
        body: impl Serialize,
        turn: impl Fn(T) -> Result<U>,
    ) -> Result<Stamped<Vec<Item<U>>>> {
        self.post(path, body, |answers: wire::Items<T>| {
            let answers = answers.into_core(turn);
            self.counted(requested, answers.len()).map(|()| answers)
        })
        .await
    }

    /// Fails if the number of results is wrong: they could not be matched to items.
    fn counted(&self, requested: usize, answered: usize) -> Result<()> {
        if requested == answered {
            return Ok(());
        }
        Err(self
            .transport()
            .unavailable(format!("it sent {answered} results for {requested} items")))
    }
}

impl fmt::Debug for RemoteEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteEngine({})", self.transport().base())
    }
}

impl Jobs for RemoteEngine {
    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(self.hand_over(request))
    }

    fn open_session(&self, request: OpenSession) -> Answer<'_, Session> {
        let body = wire::OpenSession::from(request);
        Box::pin(self.post(routes::SESSIONS, body, |it: wire::Session| Ok(it.into())))
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply> {
        let body = wire::Heartbeat::from(request);
        Box::pin(self.post(routes::HEARTBEAT, body, |it: wire::HeartbeatReply| Ok(it.into())))
    }

    fn close_session(&self, session: SessionId) -> Answer<'_, ()> {
        Box::pin(async move {
            session.check()?;
            let path = routes::session(session.as_str());
            let closed: Stamped<wire::Empty> = self.transport().ask(Method::DELETE, &path).await?;
            Ok(closed.map(|_| ()))
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        Box::pin(self.post(routes::CLAIM, wire::Claim::from(request), wire::Claimed::into_core))
    }

    fn wait(&self, request: Wait) -> Answer<'_, bool> {
        Box::pin(async move {
            let wait_ms = request.wait_ms;
            let body = wire::Wait::from(request);
            let reply: Stamped<wire::Ready> =
                self.transport().post(routes::WAIT, &body, wait_ms).await?;
            Ok(reply.map(|it| it.ready))
        })
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        if let Err(error) = sendable(request.items.iter().flat_map(|item| &item.steps)) {
            return Box::pin(async { Err(error) });
        }
        let (requested, body) = (request.items.len(), wire::Settle::from(request));
        Box::pin(self.post(routes::SETTLE, body, move |reply: wire::SettleReply| {
            self.counted(requested, reply.items.len()).map(|()| reply.into_core())
        }))
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        if let Err(error) = sendable(request.items.iter().flat_map(|item| &item.steps)) {
            return Box::pin(async { Err(error) });
        }
        let (requested, body) = (request.items.len(), wire::Update::from(request));
        Box::pin(self.batch(routes::UPDATE, requested, body, wire::Updated::into_core))
    }

    fn take(&self, request: Take) -> Answer<'_, Took> {
        Box::pin(async move {
            request.check()?;
            let path = routes::take(&request.limit);
            let body = wire::Take::from(request);
            self.post(&path, body, |it: wire::Took| Ok(it.into())).await
        })
    }
}

/// Refuses steps whose results are not JSON, which cannot be sent.
fn sendable<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Result<()> {
    steps.into_iter().try_for_each(Step::check)
}

impl Admin for RemoteEngine {
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>> {
        let (requested, body) = (request.ids.len(), wire::Get::from(request));
        Box::pin(self.post(routes::JOBS_GET, body, move |jobs: wire::Jobs| {
            self.counted(requested, jobs.jobs.len()).and_then(|()| jobs.into_core())
        }))
    }

    fn list(&self, request: List) -> Answer<'_, Page<Job>> {
        Box::pin(async move {
            let query = wire::write_list(&wire::List::from(request));
            let path = format!("{}?{query}", routes::JOBS);
            self.get(&path, wire::Page::into_core).await
        })
    }

    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>> {
        Box::pin(async move {
            let query = wire::write_query(&wire::StatsQuery::from(request));
            let path = format!("{}?{query}", routes::STATS);
            self.get(&path, |stats: wire::Stats| Ok(stats.into_core())).await
        })
    }

    fn limits(&self) -> Answer<'_, Vec<LimitStats>> {
        Box::pin(self.pages(routes::LIMITS, |it: wire::Limits| {
            (it.limits.into_iter().map(wire::LimitView::into_stats).collect(), it.next)
        }))
    }

    fn why(&self, id: JobId) -> Answer<'_, Explanation> {
        Box::pin(async move {
            self.get(&routes::why(id), |it: wire::Explanation| Ok(it.into_core())).await
        })
    }

    fn sessions(&self) -> Answer<'_, Vec<SessionInfo>> {
        Box::pin(self.pages(routes::WORKERS, |mut it: wire::Workers| {
            let next = it.next.take();
            (it.into_core(), next)
        }))
    }

    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        Box::pin(async move {
            let requested = batch.len();
            let items = batch.into_iter().map(TryInto::try_into).collect::<Result<_>>()?;
            let body = wire::ChangeBatch { items };
            self.batch(routes::JOBS_CHANGE, requested, body, |it: wire::Changed| Ok(it.into()))
                .await
        })
    }

    fn import(&self, request: Import) -> Answer<'_, Vec<Item<Enqueued>>> {
        let asked = request.jobs.len();
        let jobs = request.jobs.into_iter().map(Into::into).collect();
        let body = wire::Import { jobs };
        Box::pin(self.batch(routes::JOBS_IMPORT, asked, body, wire::Enqueued::into_core))
    }

    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        Box::pin(async move {
            let requested = batch.len();
            let items = batch.into_iter().map(TryInto::try_into).collect::<Result<_>>()?;
            let body = wire::ConfigureBatch { items };
            self.batch(routes::SETTINGS, requested, body, |_: wire::Empty| Ok(())).await
        })
    }

    fn settings(&self) -> Answer<'_, Settings> {
        Box::pin(self.get(routes::SETTINGS, |it: wire::Settings| Ok(it.into())))
    }

    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        Box::pin(async move {
            let requested = batch.len();
            let items = batch.into_iter().map(TryInto::try_into).collect::<Result<_>>()?;
            let body = wire::RecordBatch { items };
            let turn = |answer: wire::RecordAnswer| answer.reply.into_core();
            self.batch(routes::RECORDS, requested, body, turn).await
        })
    }

    fn removed(&self, request: RemovedQuery) -> Answer<'_, Page<RemovedCount>> {
        Box::pin(async move {
            let query = wire::write_query(&wire::HistoryQuery::from(request));
            let path = format!("{}?{query}", routes::HISTORY);
            self.get(&path, |page: wire::HistoryPage| Ok(page.into())).await
        })
    }

    fn events(&self, request: EventsRequest) -> Answer<'_, EventsReply> {
        Box::pin(async move {
            request.check()?;
            let query = wire::write_query(&wire::EventsQuery::of(&request));
            let path = format!("{}?{query}", routes::events(&request.queue));
            let reply = self.transport().ask_within(Method::GET, &path, request.wait_ms).await?;
            let Stamped { now, epoch, value } = reply;
            Ok(Stamped { now, epoch, value: wire::EventsPage::into_core(value)? })
        })
    }

    fn health(&self) -> Answer<'_, ()> {
        Box::pin(self.get(routes::HEALTH, |_: wire::Empty| Ok(())))
    }
}

impl Maintain for RemoteEngine {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        let body = wire::Maintain::from(request);
        Box::pin(self.post(routes::MAINTAIN, body, |it: wire::MaintainReply| Ok(it.into())))
    }

    fn check(&self, repair: bool) -> Answer<'_, CheckReport> {
        Box::pin(async move {
            let body = wire::Check { repair };
            let reply: Stamped<wire::CheckReport> =
                self.transport().post(routes::CHECK, &body, CHECK_MS_MAX).await?;
            Ok(reply.map(Into::into))
        })
    }
}

/// Additional time for a check of the whole store, beyond the usual timeout.
const CHECK_MS_MAX: u64 = 60 * 60 * 1_000;

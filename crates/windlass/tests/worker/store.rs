//! A store that goes by another name and can go away, around any engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass::JobId;
use windlass::engine::*;
use windlass::model::Job;

pub(crate) struct Store {
    inner: Arc<dyn Engine>,
    capabilities: Capabilities,
    away: AtomicBool,
}

impl Store {
    pub(crate) fn called(engine: &'static str, inner: Arc<dyn Engine>) -> Arc<Self> {
        let mut capabilities = inner.capabilities().clone();
        capabilities.engine = engine;
        Arc::new(Self { inner, capabilities, away: AtomicBool::new(false) })
    }

    /// From now on, nothing is done and every call says so.
    pub(crate) fn go_away(&self) {
        self.away.store(true, Ordering::SeqCst);
    }

    pub(crate) fn come_back(&self) {
        self.away.store(false, Ordering::SeqCst);
    }

    fn serve<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&'a dyn Engine) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        if self.away.load(Ordering::SeqCst) {
            let away = windlass_core::Error::Unavailable {
                store: "the store".into(),
                reason: "it went away".into(),
            };
            return Box::pin(async { Err(away) });
        }
        call(&*self.inner)
    }
}

impl Jobs for Store {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        self.serve(|inner| inner.enqueue(request))
    }

    fn open_session(&self, request: OpenSession) -> Answer<'_, Session> {
        self.serve(|inner| inner.open_session(request))
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply> {
        self.serve(|inner| inner.heartbeat(request))
    }

    fn close_session(&self, session: SessionId) -> Answer<'_, ()> {
        self.serve(|inner| inner.close_session(session))
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        self.serve(|inner| inner.claim(request))
    }

    fn wait(&self, request: Wait) -> Answer<'_, bool> {
        self.serve(|inner| inner.wait(request))
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        self.serve(|inner| inner.settle(request))
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        self.serve(|inner| inner.update(request))
    }

    fn take(&self, request: Take) -> Answer<'_, Took> {
        self.serve(|inner| inner.take(request))
    }
}

impl Admin for Store {
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>> {
        self.serve(|inner| inner.get(request))
    }

    fn list(&self, request: List) -> Answer<'_, Page<Job>> {
        self.serve(|inner| inner.list(request))
    }

    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>> {
        self.serve(|inner| inner.stats(request))
    }

    fn limits(&self) -> Answer<'_, Vec<LimitStats>> {
        self.serve(|inner| inner.limits())
    }

    fn why(&self, id: JobId) -> Answer<'_, Explanation> {
        self.serve(move |inner| inner.why(id))
    }

    fn sessions(&self) -> Answer<'_, Vec<SessionInfo>> {
        self.serve(|inner| inner.sessions())
    }

    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        self.serve(|inner| inner.change(batch))
    }

    fn import(&self, request: Import) -> Answer<'_, Vec<Item<Enqueued>>> {
        self.serve(|inner| inner.import(request))
    }

    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        self.serve(|inner| inner.configure(batch))
    }

    fn settings(&self) -> Answer<'_, Settings> {
        self.serve(|inner| inner.settings())
    }

    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        self.serve(|inner| inner.records(batch))
    }

    fn removed(&self, request: RemovedQuery) -> Answer<'_, Page<RemovedCount>> {
        self.serve(|inner| inner.removed(request))
    }

    fn events(&self, request: EventsRequest) -> Answer<'_, EventsReply> {
        self.serve(|inner| inner.events(request))
    }

    fn health(&self) -> Answer<'_, ()> {
        self.serve(|inner| inner.health())
    }
}

impl Maintain for Store {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        self.serve(|inner| inner.maintain(request))
    }

    fn check(&self, repair: bool) -> Answer<'_, CheckReport> {
        self.serve(|inner| inner.check(repair))
    }
}

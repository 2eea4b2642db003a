//! A memory engine that counts claims and reads, and stops answering on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::Job;
use windlass_memory::MemoryEngine;

/// Cheap to clone; clones share one store.
#[derive(Clone, Default)]
pub(crate) struct Spy {
    inner: MemoryEngine,
    pub(crate) claims: Arc<AtomicUsize>,
    pub(crate) looks: Arc<AtomicUsize>,
    pub(crate) silent: Arc<AtomicBool>,
}

macro_rules! forward {
    ($($verb:ident($($arg:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(fn $verb(&self, $($arg: $type),*) -> Answer<'_, $answer> {
            let answer = self.inner.$verb($($arg),*);
            if self.silent.load(Ordering::SeqCst) {
                return Box::pin(std::future::pending());
            }
            answer
        })+
    };
}

impl Jobs for Spy {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.inner.claim(request)
    }

    forward! {
        enqueue(request: Enqueue) -> Vec<Item<Enqueued>>;
        open_session(request: OpenSession) -> Session;
        heartbeat(request: Heartbeat) -> HeartbeatReply;
        close_session(session: SessionId) -> ();
        wait(request: Wait) -> bool;
        settle(request: Settle) -> SettleReply;
        update(request: Update) -> Vec<Item<Updated>>;
        take(request: Take) -> Took;
    }
}

impl Admin for Spy {
    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        if self.silent.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.inner.stats(request)
    }

    forward! {
        get(request: Get) -> Vec<Option<Job>>;
        list(request: List) -> Page<Job>;
        limits() -> Vec<LimitStats>;
        why(id: JobId) -> Explanation;
        sessions() -> Vec<SessionInfo>;
        change(batch: Vec<ChangeItem>) -> Vec<Item<Changed>>;
        import(request: Import) -> Vec<Item<Enqueued>>;
        configure(batch: Vec<Configure>) -> Vec<Item<()>>;
        settings() -> Settings;
        removed(request: RemovedQuery) -> Page<RemovedCount>;
        events(request: EventsRequest) -> EventsReply;
        records(batch: Vec<RecordOp>) -> Vec<Item<RecordReply>>;
        health() -> ();
    }
}

impl Maintain for Spy {
    forward! {
        maintain(request: MaintainRequest) -> MaintainReply;
        check(repair: bool) -> CheckReport;
    }
}

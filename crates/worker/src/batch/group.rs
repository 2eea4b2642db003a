//! Gathers the jobs of one batch and calls the handler.

use super::{BatchCall, Batching};
use crate::ctx::Ctx;
use crate::options::BATCH_GATHER_MAX;
use crate::panics;
use crate::stop::{Ended, Stop};
use futures_util::future::join_all;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use tokio::sync::oneshot;
use tracing::Instrument as _;
use windlass_core::sync::lock;

/// The jobs of one batch, from their claim until the handler is called.
pub(crate) struct Group {
    call: BatchCall,
    jobs_max: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether no more jobs are added: the batch is full, or its claim or its linger is over.
    sealed: bool,
    /// Whether [`BATCH_GATHER_MAX`] is over: the handler is called with the jobs that have joined.
    overdue: bool,
    added: u32,
    /// Jobs that were added and have neither joined nor ended.
    expected: u32,
    joined: Vec<Member>,
}

struct Member {
    ctx: Ctx,
    reply: oneshot::Sender<Ended>,
}

impl Group {
    /// An empty group, which accepts jobs until it is full or [sealed](Self::seal).
    pub(crate) fn open(batching: &Batching) -> Arc<Self> {
        let group = Arc::new(Self::new(batching));
        let (weak, linger) = (Arc::downgrade(&group), batching.linger);
        tokio::spawn(async move {
            if !linger.is_zero() {
                tokio::time::sleep(linger).await;
                weak.upgrade().inspect(|group| group.seal());
            }
            tokio::time::sleep(BATCH_GATHER_MAX).await;
            weak.upgrade().inspect(|group| group.advance(|state| state.overdue = true));
        });
        group
    }

    /// A group for one job that runs alone.
    pub(super) fn of_one(batching: &Batching) -> Arc<Self> {
        let group = Self::new(batching);
        group.add();
        group.advance(|state| state.sealed = true);
        Arc::new(group)
    }

    fn new(batching: &Batching) -> Self {
        let (call, jobs_max) = (batching.call.clone(), batching.jobs_max);
        Self { call, jobs_max, state: Mutex::default() }
    }

    /// Adds a job, which must join or [leave](Self::leave) later; `false` if the group is sealed.
    pub(crate) fn add(&self) -> bool {
        let mut state = lock(&self.state);
        if state.sealed {
            return false;
        }
        state.added += 1;
        state.expected += 1;
        state.sealed = state.added >= self.jobs_max;
        true
    }

    /// Accepts no more jobs.
    pub(crate) fn seal(&self) {
        self.advance(|state| state.sealed = true);
    }

    /// Removes a job that ended without joining, e.g. in a middleware.
    pub(crate) fn leave(&self) {
        self.advance(|state| state.expected -= 1);
    }

    /// Adds a job to the handler's call and waits for its result.
    pub(super) async fn join(&self, ctx: Ctx) -> Ended {
        let (reply, result) = oneshot::channel();
        self.advance(|state| {
            state.expected = state.expected.saturating_sub(1);
            state.joined.push(Member { ctx, reply });
        });
        result.await.unwrap_or_else(|_| Err(Stop::retry("the batch handler was dropped")))
    }

    /// Changes the state and calls the handler if it is time.
    fn advance(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        let complete = state.sealed && state.expected == 0;
        if (complete || state.overdue) && !state.joined.is_empty() {
            let members = std::mem::take(&mut state.joined);
            drop(state);
            let span = tracing::info_span!("batch", jobs = members.len());
            tokio::spawn(run(self.call.clone(), members).instrument(span));
        }
    }
}

/// Calls the handler and gives every job its result. The handler is dropped if no job waits for it any more.
async fn run(call: BatchCall, mut members: Vec<Member>) {
    // Jobs that were stopped while they waited are not started.
    members.retain(|member| !member.reply.is_closed());
    if members.is_empty() {
        return;
    }
    let (jobs, mut replies): (Vec<_>, Vec<_>) =
        members.into_iter().map(|member| (member.ctx, member.reply)).unzip();
    let results = {
        let abandoned = join_all(replies.iter_mut().map(oneshot::Sender::closed));
        tokio::select! {
            results = caught(&call, jobs) => results,
            _ = abandoned => return,
        }
    };
    for (reply, result) in replies.into_iter().zip(results) {
        // A job that was stopped meanwhile has been reported already.
        let _ = reply.send(result);
    }
}

/// The results of the handler; a panic is a failure of every job.
async fn caught(call: &BatchCall, jobs: Vec<Ctx>) -> Vec<Ended> {
    let count = jobs.len();
    let each = |panic| (0..count).map(|_| Err(Stop::failed(Clone::clone(&panic)))).collect();
    let mut handler = match panics::catch(|| call(jobs)) {
        Ok(handler) => handler,
        Err(panic) => return each(panic),
    };
    poll_fn(|cx| match panics::catch(|| handler.as_mut().poll(cx)) {
        Ok(poll) => poll,
        Err(panic) => Poll::Ready(each(panic)),
    })
    .await
}

//! Starting handlers: many short ones on one thread, without a task for each, and never one behind
//! another that takes its time.
//!
//! Jobs to start wait in a queue. A runner takes them one by one and polls each once: most handlers
//! of a fast worker are done then. One that has to wait for something goes on in a task of its own.
//! A runner that has been at it for a while gets help, and so does one that is stuck in a handler
//! that computes (the runtime looks after that); there are never more runners than threads.

use crate::attempt::{self, Attempting};
use crate::panics;
use crate::running::Running;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// How long a runner goes on alone. Waking another thread costs a good part of this.
const ALONE_MAX: Duration = Duration::from_micros(200);
/// After this long, the runtime looks whether a runner is stuck.
pub(crate) const STUCK_AFTER: Duration = Duration::from_millis(2);

#[derive(Default)]
pub(crate) struct Starter {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<Running>>,
    runners: usize,
}

impl Starter {
    /// Starts handlers, in this order.
    pub(crate) fn start(self: &Arc<Self>, jobs: impl IntoIterator<Item = Arc<Running>>) {
        let mut state = self.lock();
        state.queue.extend(jobs);
        if state.runners == 0 && !state.queue.is_empty() {
            self.add_runner(&mut state);
        }
    }

    /// Adds a runner if jobs are waiting; `false` if none are.
    pub(crate) fn help(self: &Arc<Self>) -> bool {
        let mut state = self.lock();
        let threads = tokio::runtime::Handle::current().metrics().num_workers();
        let waiting = !state.queue.is_empty();
        if waiting && state.runners < threads {
            self.add_runner(&mut state);
        }
        waiting
    }

    fn add_runner(self: &Arc<Self>, state: &mut State) {
        state.runners += 1;
        tokio::spawn(run(self.clone()));
    }

    /// The next job, or the end of a runner.
    fn next(&self) -> Option<Arc<Running>> {
        let mut state = self.lock();
        let next = state.queue.pop_front();
        if next.is_none() {
            state.runners -= 1;
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(starter: Arc<Starter>) {
    let mut since = Instant::now();
    while let Some(running) = starter.next() {
        let mut attempting = attempt::run(running);
        let pending = poll_fn(|cx| {
            // Handlers' panics are caught further in; this is for whatever surrounds them.
            let polled = panics::catch(|| attempting.as_mut().poll(cx));
            Poll::Ready(matches!(polled, Ok(Poll::Pending)))
        });
        if pending.await {
            go_on(attempting);
        }
        if since.elapsed() > ALONE_MAX {
            starter.help();
            tokio::task::yield_now().await;
            since = Instant::now();
        }
    }
}

/// Goes on in a task of its own, which polls again at once and takes over the wake-ups.
fn go_on(attempting: Attempting) {
    tokio::spawn(attempting);
}

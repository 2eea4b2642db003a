//! Starts handlers: many short ones on one thread without a task each, and without one delaying another.
//!
//! Jobs to start wait in a queue. A runner takes them one by one and polls each once: most handlers of a fast
//! worker are finished after that. A handler that is pending continues in its own task. A second runner is
//! added when the first has run longer than [`ALONE_MAX`], or is blocked in a CPU-bound handler, which the
//! runtime checks after [`STUCK_AFTER`]. There are never more runners than threads.

use crate::attempt::{self, Attempting};
use crate::panics;
use crate::running::Running;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::sync::lock;

/// How long a runner works alone. Waking another thread costs a considerable part of this time.
const ALONE_MAX: Duration = Duration::from_micros(200);
/// Delay after which the runtime checks whether a runner is blocked.
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
    /// Starts handlers in this order.
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

    /// The next job; `None` ends the runner.
    fn next(&self) -> Option<Arc<Running>> {
        let mut state = self.lock();
        let next = state.queue.pop_front();
        if next.is_none() {
            state.runners -= 1;
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

async fn run(starter: Arc<Starter>) {
    let mut since = Instant::now();
    while let Some(running) = starter.next() {
        let mut attempting = attempt::run(running);
        let pending = poll_fn(|cx| {
            // Panics of handlers are caught further inside; this catches those of the code around them.
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

/// Continues the attempt in its own task, which polls again at once and registers for wake-ups.
fn go_on(attempting: Attempting) {
    tokio::spawn(attempting);
}

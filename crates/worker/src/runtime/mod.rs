//! The runtime of a worker: one event loop that claims, starts, heartbeats and settles. It owns all of its
//! state; handlers communicate with it through the inbox. It never blocks on one operation: any event wakes
//! it, it does everything that is possible now ([`Runtime::advance`]), and sleeps again.

mod batches;
mod calls;
mod claims;
mod drain;
mod jobs;
mod news;
mod session;
mod settles;

use crate::floors::Floors;
use crate::meters::Meters;
use crate::outage::Outage;
use crate::room::Room;
use crate::running::Running;
use crate::shared::{Finished, Order, Shared};
use crate::turns::Turns;
use batches::Batches;
use calls::{Calls, Reply};
use claims::Claims;
use drain::Phase;
use futures_util::StreamExt as _;
use news::News;
use session::SessionState;
use settles::Settles;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};
use windlass_core::JobId;

pub use drain::Stopped;

pub(crate) struct Runtime {
    shared: Arc<Shared>,
    meters: Meters,
    room: Room,
    turns: Turns,
    floors: Floors,
    outage: Outage,
    phase: Phase,
    /// Whether the worker drains when it is idle.
    until_idle: bool,
    session: SessionState,
    /// All leases held: running, waiting to start, or waiting to be settled.
    held: HashMap<JobId, Arc<Running>>,
    /// The suspect, from its claim to its end.
    suspect: Option<jobs::Suspect>,
    batches: Batches,
    /// When to check whether the starter is blocked.
    help_at: Option<Instant>,
    claims: Claims,
    settles: Settles,
    news: News,
    calls: Calls,
    /// Reused between batches to keep its capacity.
    finished: Vec<Finished>,
}

/// An event that wakes the loop.
enum Event {
    /// A message in the inbox, an order, or a timer.
    Check,
    /// A reply to a call.
    Reply(Reply),
    /// A reply to a wait for work.
    Waited(windlass_core::Result<bool>),
}

impl Runtime {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let weights = shared.queues.iter().filter_map(|queue| queue.weight);
        Self {
            meters: Meters::new(&shared),
            batches: Batches::new(&shared),
            room: Room::new(&shared),
            turns: Turns::new(shared.queues.len(), weights),
            floors: Floors::new(&shared.options.floors),
            outage: Outage::default(),
            phase: Phase::Working,
            until_idle: false,
            session: SessionState::new(),
            held: HashMap::new(),
            suspect: None,
            help_at: None,
            claims: Claims::default(),
            settles: Settles::default(),
            news: News::default(),
            calls: Calls::default(),
            finished: Vec::new(),
            shared,
        }
    }

    /// Makes the worker drain when it is idle.
    pub(crate) const fn until_idle(mut self) -> Self {
        self.until_idle = true;
        self
    }

    /// Runs until the worker has stopped.
    pub(crate) async fn run(mut self) -> Stopped {
        let mut orders = self.shared.order.subscribe();
        let mut alarm = Box::pin(sleep_until(Instant::now()));
        loop {
            self.obey(*orders.borrow_and_update());
            self.advance();
            if let Phase::Over(stopped) = self.phase {
                return stopped;
            }
            match self.next_event(&mut orders, alarm.as_mut()).await {
                Event::Check => {}
                Event::Reply(reply) => self.take_reply(reply),
                Event::Waited(answer) => self.waited(answer),
            }
        }
    }

    /// Does everything that is possible now. Starts calls, never waits for them.
    fn advance(&mut self) {
        self.collect_finished();
        self.help_starter();
        self.start_suspect();
        self.drain_when_idle();
        self.step_phase();
        if self.outage.ask_at().is_none() {
            self.keep_session();
            self.send_news();
            self.send_reports_and_claims();
            self.wait_for_work();
        }
        self.publish();
    }

    async fn next_event(
        &mut self,
        orders: &mut watch::Receiver<Order>,
        mut alarm: Pin<&mut Sleep>,
    ) -> Event {
        let at = self.alarm_at();
        if alarm.deadline() != at {
            alarm.as_mut().reset(at);
        }
        let shared = self.shared.clone();
        tokio::select! {
            biased;
            Some(reply) = self.calls.next(), if !self.calls.is_empty() => Event::Reply(reply),
            answer = self.claims.waiting() => Event::Waited(answer),
            () = shared.inbox.bell.notified() => {
                // Lets ready handlers run first, so that their results are part of the next call.
                tokio::task::yield_now().await;
                Event::Check
            }
            _ = orders.changed() => Event::Check,
            () = alarm => Event::Check,
        }
    }

    /// When to wake even if no event occurs.
    fn alarm_at(&self) -> Instant {
        let times = match self.outage.ask_at() {
            // No call to the store is made before this time, even if one is due.
            Some(at) => [Some(at), self.help_at, self.phase.alarm_at(), None, None, None],
            None => [
                self.help_at,
                self.session.alarm_at(),
                self.news.alarm_at(),
                self.claims.alarm_at(),
                self.phase.alarm_at(),
                self.room.opens_at(),
            ],
        };
        let next = times.into_iter().flatten().min();
        next.unwrap_or_else(|| Instant::now() + self.shared.options.heartbeat)
    }

    /// Publishes the gauges that handles read.
    fn publish(&mut self) {
        let counts = &self.shared.counts;
        let consuming =
            matches!(self.phase, Phase::Working) && self.session.is_open() && !self.outage.is_on();
        counts.consuming.store(consuming, Ordering::Relaxed);
        counts.in_flight.store(self.room.running().into(), Ordering::Relaxed);
        counts.buffered.store(self.buffered(), Ordering::Relaxed);
        let buffered = self.buffered() as f64;
        self.meters.buffered.set(buffered);
        self.meters.leaked.set(f64::from(self.shared.pool.leaked()));
    }

    /// Number of results that the store does not have yet.
    fn buffered(&self) -> u64 {
        (self.settles.waiting() + self.news.deferred()) as u64
    }
}

//! Shutdown of a worker: stop claiming, let handlers finish, stop the remaining ones, release their jobs,
//! close the session. Every step has a time limit, and so does the whole.

use super::Runtime;
use super::calls::Reply;
use crate::options::FLUSH_MAX;
use crate::shared::Order;
use crate::signal::Cause;
use std::time::Duration;
use tokio::time::Instant;

/// Work that was unfinished when the worker stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Jobs whose outcome did not reach the store, because the store was down or the worker was aborted. They
    /// are reclaimed when the session expires.
    pub undelivered: u64,
    /// Handlers that ignored the stop signal; their jobs were released.
    pub abandoned: u64,
}

/// The phase of a worker's life.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// Claiming and running.
    Working,
    /// Claims nothing; handlers may finish until the given time.
    Draining(Instant),
    /// Handlers were asked to stop; waits for them until the given time.
    Stopping(Instant),
    /// No handler is left; delivers the last results until the given time.
    Flushing(Instant),
    /// Everything is delivered; the session is being closed.
    Closing(Instant, Stopped),
    Over(Stopped),
}

/// Time for tasks to notice the stop signal on a busy machine.
const MARGIN: Duration = Duration::from_millis(500);

impl Phase {
    pub(super) const fn alarm_at(&self) -> Option<Instant> {
        match self {
            Self::Draining(until)
            | Self::Stopping(until)
            | Self::Flushing(until)
            | Self::Closing(until, _) => Some(*until),
            Self::Working | Self::Over(_) => None,
        }
    }
}

impl Runtime {
    /// Executes an order from a handle.
    pub(super) fn obey(&mut self, order: Order) {
        match (order, self.phase) {
            (Order::Drain, Phase::Working) => {
                let (running, grace) = (self.room.running(), self.shared.options.grace);
                tracing::info!(worker = %self.shared.options.name, running, ?grace, "draining");
                self.claims.give_up(&mut self.room);
                self.phase = Phase::Draining(Instant::now() + grace);
            }
            (Order::Abort, Phase::Over(_)) => {}
            (Order::Abort, _) => {
                tracing::warn!(worker = %self.shared.options.name, running = self.room.running(),
                    "aborting; jobs are reclaimed when the session expires");
                self.tell_all(Cause::Shutdown);
                self.phase = Phase::Over(self.left_behind());
            }
            _ => {}
        }
    }

    /// Starts to drain if the worker should stop when idle and is idle: it holds no job, and a claim made
    /// after its last result returned nothing.
    pub(super) fn drain_when_idle(&mut self) {
        let undecided = !self.until_idle
            || !self.session.is_open()
            || !self.held.is_empty()
            || self.claims.any_open();
        if undecided || !matches!(self.phase, Phase::Working) {
            return;
        }
        if self.claims.found_nothing() {
            self.shared.order(Order::Drain);
            self.obey(Order::Drain);
        } else {
            self.claims.try_now();
        }
    }

    /// Advances to the next phases as far as possible without waiting.
    pub(super) fn step_phase(&mut self) {
        let now = Instant::now();
        while self.step(now) {}
    }

    fn step(&mut self, now: Instant) -> bool {
        let idle = self.room.running() == 0;
        let name = &self.shared.options.name;
        match self.phase {
            Phase::Draining(_) | Phase::Stopping(_) if idle => {
                self.phase = Phase::Flushing(now + FLUSH_MAX);
            }
            Phase::Draining(until) if now >= until => {
                tracing::warn!(worker = %name, running = self.room.running(),
                    "the grace time is over: asking handlers to stop");
                self.tell_all(Cause::Shutdown);
                self.phase = Phase::Stopping(now + self.shared.options.stop_grace + MARGIN);
            }
            Phase::Stopping(until) if now >= until => {
                tracing::error!(worker = %name, running = self.room.running(),
                    "handlers did not stop: one that never awaits cannot be stopped");
                self.phase = Phase::Flushing(now + FLUSH_MAX);
            }
            Phase::Flushing(until) if self.is_flushed() || now >= until => self.close(now),
            Phase::Closing(until, stopped) if now >= until => self.phase = Phase::Over(stopped),
            Phase::Working
            | Phase::Draining(_)
            | Phase::Stopping(_)
            | Phase::Flushing(_)
            | Phase::Closing(..)
            | Phase::Over(_) => return false,
        }
        true
    }

    fn tell_all(&self, cause: Cause) {
        for running in self.held.values() {
            running.signal.send(cause);
        }
    }

    fn left_behind(&self) -> Stopped {
        let abandoned = u64::from(self.room.running());
        Stopped {
            undelivered: self.held.len() as u64 - abandoned.min(self.held.len() as u64),
            abandoned,
        }
    }

    /// Closes the session, which releases all jobs that it still holds.
    fn close(&mut self, now: Instant) {
        let stopped = self.left_behind();
        let Some(session) = self.session.take() else {
            self.phase = Phase::Over(stopped);
            return;
        };
        self.phase = Phase::Closing(now + FLUSH_MAX, stopped);
        self.call("close_session", |engine| engine.close_session(session), |_| Reply::Closed);
    }

    pub(super) fn closed(&mut self) {
        if let Phase::Closing(_, stopped) = self.phase {
            tracing::info!(worker = %self.shared.options.name, ?stopped, "stopped");
            self.phase = Phase::Over(stopped);
        }
    }
}

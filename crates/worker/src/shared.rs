//! State shared by the runtime, its handlers and its handles: engine, routes, inbox, counters. Contains no
//! logic of its own.

use crate::blocking::Pool;
use crate::extract::Values;
use crate::handler::Route;
use crate::middleware::Stack;
use crate::options::Options;
use crate::running::Running;
use crate::starter::Starter;
use crate::stats::Counts;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use windlass_core::engine::{Engine, Outcome};
use windlass_core::model::Name;
use windlass_core::random::Random;
use windlass_core::sync::lock;

pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) options: Options,
    pub(crate) queues: Vec<Served>,
    pub(crate) routes: Vec<Route>,
    pub(crate) stack: Stack,
    pub(crate) data: Values,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) pool: Pool,
    pub(crate) starter: Arc<Starter>,
    pub(crate) inbox: Inbox,
    pub(crate) counts: Counts,
    /// The current order: work, drain or abort.
    pub(crate) order: watch::Sender<Order>,
}

/// A queue that the worker serves.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) name: Name,
    /// Its weight; `None` if queues are served strictly in order.
    pub(crate) weight: Option<u32>,
    /// Maximum number of its jobs that run at a time.
    pub(crate) limit: Option<u32>,
}

/// The requested mode of a worker. Orders only become stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    Work,
    Drain,
    Abort,
}

impl Shared {
    /// Gives an order, unless a stricter one is in effect.
    pub(crate) fn order(&self, order: Order) {
        self.order.send_if_modified(|standing| {
            let stricter = order > *standing;
            if stricter {
                *standing = order;
            }
            stricter
        });
    }

    pub(crate) fn is_aborted(&self) -> bool {
        *self.order.borrow() == Order::Abort
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.order.borrow() >= Order::Drain
    }

    /// A delay with jitter: between half of it and all of it.
    pub(crate) fn jittered(&self, delay: Duration) -> Duration {
        let half_us = u64::try_from(delay.as_micros() / 2).unwrap_or(u64::MAX);
        delay / 2 + Duration::from_micros(self.random.below(half_us))
    }
}

/// A handler that has ended.
pub(crate) struct Finished {
    pub(crate) running: Arc<Running>,
    /// `None` if the lease is lost, so that there is nothing to report.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) took: Duration,
}

/// Messages from handlers to the runtime. Bounded by the number of handlers: each has at most one entry.
pub(crate) struct Inbox {
    finished: Mutex<Vec<Finished>>,
    /// Jobs with progress or log lines to send.
    news: Mutex<Vec<Arc<Running>>>,
    /// Notified when something arrives in an empty inbox.
    pub(crate) bell: Arc<Notify>,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { finished: Mutex::default(), news: Mutex::default(), bell: Arc::default() }
    }

    pub(crate) fn finish(&self, finished: Finished) {
        self.drop_in(&self.finished, finished);
    }

    pub(crate) fn announce(&self, running: Arc<Running>) {
        self.drop_in(&self.news, running);
    }

    fn drop_in<T>(&self, slot: &Mutex<Vec<T>>, item: T) {
        let mut slot = lock(slot);
        slot.push(item);
        let first = slot.len() == 1;
        drop(slot);
        if first {
            self.bell.notify_one();
        }
    }

    /// Moves the finished handlers into `batch`, which must be empty.
    pub(crate) fn take_finished(&self, batch: &mut Vec<Finished>) {
        std::mem::swap(&mut *lock(&self.finished), batch);
    }

    pub(crate) fn take_news(&self) -> Vec<Arc<Running>> {
        std::mem::take(&mut *lock(&self.news))
    }
}

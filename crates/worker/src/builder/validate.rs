//! Validation of a worker's options.

use super::Builder;
use crate::blocking::Pool;
use crate::error::BuildError;
use crate::floors::Share;
use crate::middleware::Stack;
use crate::options::{
    BATCH_LINGER_MAX, BLOCKING_THREADS_MAX, CONCURRENCY_MAX, FLOORS_MAX, TIME_MAX,
};
use crate::shared::{Inbox, Order, Served, Shared};
use crate::stats::Counts;
use crate::worker::Worker;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::OpenSession;
use windlass_core::limits::{CLAIM_BATCH_MAX, CLAIM_KINDS_MAX, CLAIM_QUEUES_MAX};
use windlass_core::model::{DEFAULT_QUEUE, Limit, Name, PartName, PartSet, Rule};
use windlass_core::{check_name, check_text};
use windlass_services::{Checks, Outcomes};

impl Builder {
    /// Validates all options and creates the worker. It does nothing until it is started.
    pub fn build(mut self) -> Result<Worker, BuildError> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if self.queues.is_empty() {
            self.queues = self.queues_of_handlers();
        }
        self.check_queues()?;
        self.check_routes()?;
        self.check_reach()?;
        self.assign()?;
        self.check_options()?;
        self.check_batches()?;
        self = self.host_services()?;
        crate::panics::install_hook();
        let inbox = Inbox::new();
        if self.counts_outcomes {
            self.engine = Arc::new(Outcomes::new(Arc::new(Checks::new(self.engine))));
        }
        let shared = Shared {
            pool: Pool::new(self.options.blocking_threads, inbox.bell.clone()),
            engine: self.engine,
            options: self.options,
            queues: self.queues,
            routes: self.routes,
            stack: Stack::new(self.middleware),
            data: self.data,
            random: self.random,
            starter: Arc::default(),
            inbox,
            counts: Counts::new(),
            order: tokio::sync::watch::Sender::new(Order::Work),
        };
        Ok(Worker::new(Arc::new(shared), self.companions, self.leftovers))
    }

    /// The queues of the handlers' job types, with equal weights, so that none starves another. Handlers that
    /// were added by kind serve `default`, and so does a worker without handlers, which is refused later.
    fn queues_of_handlers(&self) -> Vec<Served> {
        let mut names: Vec<Name> = Vec::new();
        for route in &self.routes {
            let name = route.queue.clone().unwrap_or_else(|| DEFAULT_QUEUE.into());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            names.push(DEFAULT_QUEUE.into());
        }
        let weight = (names.len() > 1).then_some(1);
        names.into_iter().map(|name| Served { name, weight, limit: None }).collect()
    }

    fn check_queues(&self) -> Result<(), BuildError> {
        within("queues", self.queues.len() as u64, 1..=CLAIM_QUEUES_MAX as u64)?;
        let weighted = self.queues[0].weight.is_some();
        for (at, queue) in self.queues.iter().enumerate() {
            check_name("queue", &queue.name)?;
            if self.queues[..at].iter().any(|other| other.name == queue.name) {
                return Err(option("queue", &queue.name, "name it once"));
            }
            match queue.weight {
                Some(0) => {
                    return Err(option("weight", 0, "a queue without a share is not served"));
                }
                Some(weight) => within("weight", weight.into(), 1..=WEIGHT_MAX)?,
                None => {}
            }
            if queue.weight.is_some() != weighted {
                let without = self.queues.iter().find(|queue| queue.weight.is_none());
                let queue = without.map_or_else(String::new, |queue| queue.name.to_string());
                return Err(BuildError::MixedQueues { queue });
            }
        }
        Ok(())
    }

    fn check_routes(&self) -> Result<(), BuildError> {
        if self.routes.is_empty() {
            return Err(BuildError::NoHandlers);
        }
        within("kinds", self.routes.len() as u64, 1..=CLAIM_KINDS_MAX as u64)?;
        for (at, route) in self.routes.iter().enumerate() {
            check_name("kind", &route.kind)?;
            let kind = || route.kind.to_string();
            if self.routes[..at].iter().any(|other| other.kind == route.kind) {
                return Err(BuildError::TwoHandlers { kind: kind() });
            }
            if let Some(need) = route.needs.iter().find(|need| !self.data.has(**need)) {
                return Err(BuildError::MissingData { kind: kind(), data: need.name });
            }
        }
        Ok(())
    }

    /// Refuses a handler whose jobs go to a queue that this worker does not serve.
    fn check_reach(&self) -> Result<(), BuildError> {
        for route in &self.routes {
            let Some(queue) = &route.queue else { continue };
            if !self.queues.iter().any(|served| served.name == *queue) {
                let served: Vec<_> =
                    self.queues.iter().map(|queue| format!("{:?}", &*queue.name)).collect();
                return Err(BuildError::Unreachable {
                    kind: route.kind.to_string(),
                    queue: queue.to_string(),
                    served: served.join(", "),
                });
            }
        }
        Ok(())
    }

    /// Assigns the per-queue and per-kind options to their queues and kinds.
    fn assign(&mut self) -> Result<(), BuildError> {
        let unknown = |option, name: &str| BuildError::Unknown { option, name: name.to_owned() };
        for (name, limit) in &self.queue_limits {
            within("queue_limit", (*limit).into(), 1..=CONCURRENCY_MAX.into())?;
            let queue = self.queues.iter_mut().find(|queue| *queue.name == **name);
            queue.ok_or_else(|| unknown("queue_limit", name))?.limit = Some(*limit);
        }
        for (name, limit) in &self.kind_limits {
            within("kind_limit", (*limit).into(), 1..=CONCURRENCY_MAX.into())?;
            let route = self.routes.iter_mut().find(|route| *route.kind == **name);
            route.ok_or_else(|| unknown("kind_limit", name))?.limit = Some(*limit);
        }
        for (name, rate) in &self.kind_rates {
            Limit::new(Rule::rate(*rate)).check()?;
            let route = self.routes.iter_mut().find(|route| *route.kind == **name);
            route.ok_or_else(|| unknown("kind_rate", name))?.rate = Some(*rate);
        }
        for (name, time) in &self.kind_timeouts {
            time_within("kind_timeout", *time, MILLISECOND)?;
            let route = self.routes.iter_mut().find(|route| *route.kind == **name);
            route.ok_or_else(|| unknown("kind_timeout", name))?.timeout = Some(*time);
        }
        for (name, time) in &self.batch_lingers {
            if *time > BATCH_LINGER_MAX {
                let expected = format!("it must be at most {BATCH_LINGER_MAX:?}");
                return Err(option("batch_linger", format_args!("{time:?}"), &expected));
            }
            let route = self.routes.iter_mut().find(|route| *route.kind == **name);
            let batching = route.and_then(|route| route.batching.as_mut());
            batching.ok_or_else(|| unknown("batch_linger", name))?.linger = *time;
        }
        Ok(())
    }

    /// Validates the sizes of batches, after limits were assigned to their kinds.
    fn check_batches(&mut self) -> Result<(), BuildError> {
        for route in &mut self.routes {
            let Some(batching) = &mut route.batching else { continue };
            within("jobs_max", batching.jobs_max.into(), 1..=CLAIM_BATCH_MAX.into())?;
            let slots = route.limit.unwrap_or(u32::MAX).min(self.options.concurrency);
            if batching.jobs_max > slots {
                let expected = format!(
                    "the worker runs at most {slots} jobs of kind {:?} at a time: lower it, or raise \
                     `concurrency` and `kind_limit`",
                    route.kind
                );
                return Err(option("jobs_max", batching.jobs_max, &expected));
            }
            if self.one_at_a_time {
                (batching.jobs_max, batching.linger) = (1, Duration::ZERO);
            }
        }
        if self.one_at_a_time {
            self.options.concurrency = 1;
        }
        Ok(())
    }

    fn check_options(&self) -> Result<(), BuildError> {
        let options = &self.options;
        within("concurrency", options.concurrency.into(), 1..=CONCURRENCY_MAX.into())?;
        let threads = u64::from(options.blocking_threads);
        within("blocking_threads", threads, 1..=BLOCKING_THREADS_MAX.into())?;
        within("floors", options.floors.len() as u64, 0..=FLOORS_MAX as u64)?;
        for (at, floor) in options.floors.iter().enumerate() {
            within("floor", floor.percent.into(), FLOOR_PERCENT)?;
            let same = |other: &Share| other.from_priority == floor.from_priority;
            if options.floors[..at].iter().any(same) {
                return Err(option("floor", floor.from_priority, "give each priority one share"));
            }
        }
        check_text("name", &options.name, windlass_core::limits::NAME_BYTES_MAX)?;
        time_within("timeout", options.timeout, MILLISECOND)?;
        time_within("grace", options.grace, Duration::ZERO)?;
        time_within("cancel_grace", options.cancel_grace, Duration::ZERO)?;
        time_within("stop_grace", options.stop_grace, Duration::ZERO)?;
        time_within("unhealthy_after", options.unhealthy_after, MILLISECOND)?;
        time_within("call_timeout", options.call_timeout, MILLISECOND)?;
        let ttl_ms = u64::try_from(options.session_ttl.as_millis()).unwrap_or(u64::MAX);
        OpenSession::new("worker").ttl_ms(ttl_ms).check()?;
        time_within("heartbeat", options.heartbeat, MILLISECOND)?;
        if options.heartbeat * 2 > options.session_ttl {
            let expected = format!(
                "at most half of the session's {:?}, so that one lost heartbeat does no harm",
                options.session_ttl
            );
            return Err(option("heartbeat", format_args!("{:?}", options.heartbeat), &expected));
        }
        debug_assert!(options.parts.has(PartName::Payload) && options.parts != PartSet::NONE);
        Ok(())
    }
}

/// The largest weight of a queue.
const WEIGHT_MAX: u64 = 1_000;
/// The share of a floor, in percent. With 100, more urgent jobs would starve.
const FLOOR_PERCENT: RangeInclusive<u64> = 1..=99;
const MILLISECOND: Duration = Duration::from_millis(1);

fn option(option: &'static str, value: impl std::fmt::Display, expected: &str) -> BuildError {
    BuildError::Option { option, value: value.to_string(), expected: expected.to_owned() }
}

fn within(name: &'static str, value: u64, range: RangeInclusive<u64>) -> Result<(), BuildError> {
    if range.contains(&value) {
        return Ok(());
    }
    let expected = format!("it must be between {} and {}", range.start(), range.end());
    Err(option(name, value, &expected))
}

fn time_within(name: &'static str, value: Duration, least: Duration) -> Result<(), BuildError> {
    if (least..=TIME_MAX).contains(&value) {
        return Ok(());
    }
    let expected = format!("it must be between {least:?} and {TIME_MAX:?}");
    Err(option(name, format_args!("{value:?}"), &expected))
}

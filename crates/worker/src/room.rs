//! Free capacity of a worker: in total, per queue, per kind, and of blocking threads. Pure bookkeeping,
//! independent of engines.

use crate::options::{CLAIM_SHARE_MIN, CLAIMS_MAX};
use crate::pace::Pace;
use crate::shared::Shared;
use std::collections::HashMap;
use tokio::time::Instant;
use windlass_core::engine::{Claim, KindWant, QueueWant};
use windlass_core::limits::{CLAIM_BATCH_MAX, CLAIM_KINDS_MAX};
use windlass_core::model::{Header, Name};

/// Capacity of one queue or kind: running jobs and their limit.
struct Count {
    name: Name,
    limit: u32,
    running: u32,
    /// Slots reserved for claims in flight.
    promised: u32,
    /// Whether its jobs occupy a thread (kinds only).
    blocking: bool,
    /// How often its jobs start (kinds only).
    pace: Option<Pace>,
}

impl Count {
    fn is_full(&self) -> bool {
        self.open() == 0
    }

    /// Number of jobs that may start now.
    fn open(&self) -> u32 {
        let slots = self.limit.saturating_sub(self.running);
        self.pace.as_ref().map_or(slots, |pace| slots.min(pace.left()))
    }

    /// Slots that a new claim may ask for.
    fn free(&self) -> u32 {
        self.open().saturating_sub(self.promised)
    }
}

pub(crate) struct Room {
    slots: u32,
    /// Maximum number of jobs per claim.
    share: u32,
    running: u32,
    /// Slots reserved for claims in flight.
    promised: u32,
    threads: u32,
    threads_busy: u32,
    threads_promised: u32,
    queues: Vec<Count>,
    kinds: Vec<Count>,
    queue_at: HashMap<Name, usize>,
    kind_at: HashMap<Name, usize>,
    /// The blocking kind that is served first when threads are scarce; rotates.
    turn: usize,
}

/// The queues, kinds and limit to put into a claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wants {
    pub(crate) queues: Vec<QueueWant>,
    pub(crate) kinds: Vec<KindWant>,
    pub(crate) limit: u32,
}

/// The queues and kinds with free capacity, as bit sets. Equal values wait for the same jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    queues: u64,
    kinds: [u64; CLAIM_KINDS_MAX / 64],
}

impl Room {
    pub(crate) fn new(shared: &Shared) -> Self {
        let count = |name: &Name, limit: Option<u32>, blocking| Count {
            name: name.clone(),
            limit: limit.unwrap_or(u32::MAX),
            running: 0,
            promised: 0,
            blocking,
            pace: None,
        };
        let queues: Vec<Count> =
            shared.queues.iter().map(|queue| count(&queue.name, queue.limit, false)).collect();
        let kinds: Vec<Count> = shared
            .routes
            .iter()
            .map(|route| Count {
                pace: route.rate.map(Pace::new),
                ..count(&route.kind, route.limit, route.blocking)
            })
            .collect();
        let places = |counts: &[Count]| {
            counts.iter().enumerate().map(|(at, count)| (count.name.clone(), at)).collect()
        };
        let slots = shared.options.concurrency;
        let share = slots.div_ceil(CLAIMS_MAX as u32);
        // A claim must be able to fill a batch.
        let batches = shared.routes.iter().filter_map(|route| route.batching.as_ref());
        let batch = batches.map(|batching| batching.jobs_max).max().unwrap_or(0).min(slots);
        Self {
            slots,
            share: if share < CLAIM_SHARE_MIN { slots } else { share.max(batch) },
            running: 0,
            promised: 0,
            threads: shared.options.blocking_threads,
            threads_busy: 0,
            threads_promised: 0,
            queue_at: places(&queues),
            kind_at: places(&kinds),
            queues,
            kinds,
            turn: 0,
        }
    }

    /// Indices of the job's queue and kind, if this worker serves both.
    pub(crate) fn places(&self, header: &Header) -> Option<(usize, usize)> {
        Some((*self.queue_at.get(&header.queue)?, *self.kind_at.get(&header.kind)?))
    }

    pub(crate) const fn running(&self) -> u32 {
        self.running
    }

    pub(crate) fn take(&mut self, queue: usize, kind: usize) {
        self.running += 1;
        self.queues[queue].running += 1;
        let kind = &mut self.kinds[kind];
        kind.running += 1;
        if let Some(pace) = &mut kind.pace {
            pace.take();
        }
        self.threads_busy += u32::from(kind.blocking);
    }

    pub(crate) fn give_back(&mut self, queue: usize, kind: usize) {
        self.running -= 1;
        self.queues[queue].running -= 1;
        self.kinds[kind].running -= 1;
        self.threads_busy -= u32::from(self.kinds[kind].blocking);
    }

    /// Reserves capacity for a claim.
    pub(crate) fn promise(&mut self, claim: &Claim) {
        self.promised += claim.limit;
        self.each_promise(claim, |promised, limit| *promised += limit);
    }

    /// Releases the reservation of a claim that was answered or given up.
    pub(crate) fn take_back(&mut self, claim: &Claim) {
        self.promised -= claim.limit;
        self.each_promise(claim, |promised, limit| *promised -= limit);
    }

    fn each_promise(&mut self, claim: &Claim, change: impl Fn(&mut u32, u32)) {
        for want in &claim.queues {
            if let Some(at) = self.queue_at.get(&want.queue) {
                change(&mut self.queues[*at].promised, want.limit);
            }
        }
        for want in claim.kinds.iter().flatten() {
            if let Some(at) = self.kind_at.get(&want.kind) {
                let kind = &mut self.kinds[*at];
                change(&mut kind.promised, want.limit);
                if kind.blocking {
                    change(&mut self.threads_promised, want.limit);
                }
            }
        }
    }

    /// When a kind that may not start jobs now because of its rate may do so again.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        let paces = self.kinds.iter().filter_map(|kind| kind.pace.as_ref());
        paces.filter_map(Pace::opens_at).min()
    }

    fn threads_free(&self, leaked: u32) -> u32 {
        self.threads.saturating_sub(self.threads_busy).saturating_sub(leaked)
    }

    /// The queues and kinds with free capacity; `None` if there is none.
    pub(crate) fn open(&self, leaked: u32) -> Option<Open> {
        let mut open = Open::default();
        for (at, queue) in self.queues.iter().enumerate() {
            open.queues |= u64::from(!queue.is_full()) << at;
        }
        let threads = self.threads_free(leaked);
        for (at, kind) in self.kinds.iter().enumerate() {
            let has = !kind.is_full() && (!kind.blocking || threads > 0);
            open.kinds[at / 64] |= u64::from(has) << (at % 64);
        }
        let none = self.running >= self.slots || open.queues == 0 || open.kinds == [0; 4];
        (!none).then_some(open)
    }

    /// The names of the queues and kinds in a bit set.
    pub(crate) fn names(&self, open: Open) -> (Vec<Name>, Vec<Name>) {
        let named = |counts: &[Count], has: &dyn Fn(usize) -> bool| -> Vec<Name> {
            let open = counts.iter().enumerate().filter(|(at, _)| has(*at));
            open.map(|(_, count)| count.name.clone()).collect()
        };
        let queues = named(&self.queues, &|at| open.queues >> at & 1 == 1);
        let kinds = named(&self.kinds, &|at| open.kinds[at / 64] >> (at % 64) & 1 == 1);
        (queues, kinds)
    }

    /// The next claim, with queues in this order and at most `most` jobs; `None` if there is no capacity.
    pub(crate) fn wants(&mut self, order: &[usize], leaked: u32, most: u32) -> Option<Wants> {
        let free = self.slots.saturating_sub(self.running).min(most).saturating_sub(self.promised);
        let limit = free.min(self.share).min(CLAIM_BATCH_MAX);
        let queues: Vec<QueueWant> = order
            .iter()
            .map(|at| &self.queues[*at])
            .filter(|queue| queue.free() > 0)
            .map(|queue| QueueWant { queue: queue.name.clone(), limit: queue.free().min(limit) })
            .collect();
        let mut threads =
            self.shares(self.threads_free(leaked).saturating_sub(self.threads_promised));
        let kinds: Vec<KindWant> = self
            .kinds
            .iter()
            .map(|kind| {
                let threads = if kind.blocking { threads.next() } else { None };
                (kind, kind.free().min(threads.unwrap_or(limit)).min(limit))
            })
            .filter(|(_, room)| *room > 0)
            .map(|(kind, limit)| KindWant { kind: kind.name.clone(), limit })
            .collect();
        drop(threads);
        self.turn = self.turn.wrapping_add(1);
        let none = limit == 0 || queues.is_empty() || kinds.is_empty();
        (!none).then_some(Wants { queues, kinds, limit })
    }

    /// Divides the free threads among the blocking kinds, so that every claimed job has a thread. A claim can
    /// only limit jobs per kind; the remainder goes to a different kind each time.
    fn shares(&self, threads: u32) -> impl Iterator<Item = u32> + use<> {
        let kinds = self.kinds.iter().filter(|kind| kind.blocking).count().max(1);
        let first = self.turn % kinds;
        let odd = threads as usize % kinds;
        (0..kinds).map(move |at| {
            let gets_odd = (at + kinds - first) % kinds < odd;
            threads / kinds as u32 + u32::from(gets_odd)
        })
    }
}

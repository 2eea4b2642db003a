//! The executor: its state, and the facts that it passes to the state machine.

use crate::commit::Transition;
use crate::dependencies::Resolving;
use crate::entry::Entry;
use crate::rows::{Maintenance, Rows};
use crate::session::SessionEntry;
use crate::steps::Steps;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use windlass_core::engine::{Capabilities, SessionId};
use windlass_core::id::Ids;
use windlass_core::machine::{EventKind, Facts};
use windlass_core::model::{KindSettings, Limit, Name, Order, QueueSettings, State};
use windlass_core::policy::{FairClock, Ready, rank};
use windlass_core::random::Random;
use windlass_core::{Error, JobId, Result, Timestamp};

/// The turns that the tenants of a fair queue have taken.
#[derive(Debug, Default)]
pub struct Turns {
    /// The turn being served.
    pub clock: FairClock,
    /// Each tenant's latest turn. Tenants behind the turn being served count as new tenants, and compaction
    /// removes them.
    pub latest: HashMap<Option<String>, i64>,
}

/// Executes the contract over rows. See the crate's documentation.
pub struct Executor<R> {
    pub(crate) capabilities: Capabilities,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) rows: R,
    pub(crate) sessions: BTreeMap<SessionId, SessionEntry>,
    pub(crate) queues: BTreeMap<Name, QueueSettings>,
    pub(crate) kinds: BTreeMap<Name, KindSettings>,
    pub(crate) limits: BTreeMap<Name, Limit>,
    pub(crate) turns: HashMap<Name, Turns>,
    /// Generates ids for jobs that are enqueued without one.
    pub(crate) ids: Ids,
    /// The number of the last job that entered a state; orders jobs of equal rank.
    seq: u64,
    /// Ended jobs whose dependents must learn it.
    pub(crate) resolving: Resolving,
    /// The current step, and the messages of the call.
    pub(crate) steps: Steps,
    /// Counts jobs that became ready and gates that opened, for waiting claims.
    pub(crate) readied: u64,
    /// Number of events appended, for readers that wait.
    pub(crate) events: u64,
}

impl<R: Rows> Executor<R> {
    /// An executor over these rows; the next job that enters a state gets the number `seq + 1`.
    pub fn new(capabilities: Capabilities, random: Arc<dyn Random>, rows: R, seq: u64) -> Self {
        Self {
            capabilities,
            random,
            rows,
            sessions: BTreeMap::new(),
            queues: BTreeMap::new(),
            kinds: BTreeMap::new(),
            limits: BTreeMap::new(),
            turns: HashMap::new(),
            ids: Ids::default(),
            seq,
            resolving: Resolving::default(),
            steps: Steps::default(),
            readied: 0,
            events: 0,
        }
    }

    /// Restores stored sessions and settings.
    pub fn restore(
        &mut self,
        sessions: BTreeMap<SessionId, SessionEntry>,
        queues: BTreeMap<Name, QueueSettings>,
        kinds: BTreeMap<Name, KindSettings>,
    ) {
        (self.sessions, self.queues, self.kinds) = (sessions, queues, kinds);
        let fair = self.queues.iter().filter(|(_, settings)| settings.order == Order::Fair);
        self.turns = fair.map(|(queue, _)| (queue.clone(), Turns::default())).collect();
    }

    /// Restores stored limits.
    pub fn restore_limits(&mut self, limits: BTreeMap<Name, Limit>) {
        self.limits = limits;
    }

    /// Restarts the turns of fair queues behind the jobs that are ready, so that those still go first. For stores
    /// that do not store turns.
    pub fn restart_turns(&mut self) -> Result<()>
    where
        R: Maintenance,
    {
        for (queue, turns) in &mut self.turns {
            if let Some(rank) = self.rows.last_rank(queue)? {
                turns.clock.serve(rank.saturating_add(1));
            }
        }
        Ok(())
    }

    /// The rows.
    pub const fn rows(&self) -> &R {
        &self.rows
    }

    /// The rows, for the owner of their transactions.
    pub const fn rows_mut(&mut self) -> &mut R {
        &mut self.rows
    }

    /// The rows and the turns of fair queues, to be saved by a store.
    pub fn into_parts(self) -> (R, HashMap<Name, Turns>) {
        (self.rows, self.turns)
    }

    /// A counter that rises whenever a job becomes ready or a gate opens.
    pub const fn readied(&self) -> u64 {
        self.readied
    }

    /// Reads a job that must exist.
    pub(crate) fn read<T>(&self, id: JobId, read: impl FnOnce(&Entry) -> T) -> Result<T> {
        self.rows.with_job(id, read)?.ok_or(Error::NotFound { id })
    }

    /// The facts about this job and this event.
    pub(crate) fn facts(
        &self,
        entry: &Entry,
        event: EventKind,
        data: &Transition,
        now: Timestamp,
    ) -> Result<Facts> {
        let header = &entry.job.header;
        let goes_to = data.queue.as_ref().filter(|queue| **queue != header.queue);
        Ok(Facts {
            due: data.run_at.unwrap_or(header.run_at) <= now,
            waits: entry.job.waits,
            timed: data.wait(entry).is_some_and(|wait| wait.timeout_ms.is_some()),
            signalled: data.takes_signal(entry),
            depends: entry.job.dependencies.open > 0
                || event == EventKind::Replay && self.reopens(entry)?,
            key_taken: match goes_to {
                Some(queue) => self.key_taken_in(queue, entry)?,
                None if event == EventKind::Import => self.key_taken_in(&header.queue, entry)?,
                None => self.key_taken(entry)?,
            },
            // These two lead to one state, whatever the limits: hot paths need not ask.
            limited: !matches!(event, EventKind::Claim | EventKind::Complete)
                && self.limit_before(entry, data, now)?.is_some(),
            spent: event.spends(header.counters, &header.policy),
            cancel_requested: entry.job.cancel_requested,
            followed: entry.job.followed
                || entry.job.dependencies.kept > 0
                || matches!(event, EventKind::Discard | EventKind::Retain)
                    && self.is_held(entry.id())?,
            moves: goes_to.is_some(),
        })
    }

    /// Whether a job that enters this queue has to wait in line for its ordering key there.
    fn key_taken_in(&self, queue: &Name, entry: &Entry) -> Result<bool> {
        let Some(key) = &entry.job.header.key else { return Ok(false) };
        let line = self.rows.line(queue, key)?;
        Ok(line.holder.is_some() || line.first.is_some())
    }

    /// Whether a job has to wait in line for its ordering key.
    fn key_taken(&self, entry: &Entry) -> Result<bool> {
        let header = &entry.job.header;
        let Some(key) = header.key.as_ref().filter(|_| !entry.holds_key) else { return Ok(false) };
        let line = self.rows.line(&header.queue, key)?;
        // A job that is in line itself waits only for those before it.
        let is_before = |seq: u64| !entry.in_line() || seq < entry.seq;
        Ok(line.holder.is_some() || line.first.is_some_and(|(seq, _)| is_before(seq)))
    }

    /// Counts and times the transition of a job to a state, and puts it at the tail there.
    pub(crate) fn enter(&mut self, entry: &mut Entry, state: Option<State>, now: Timestamp) {
        entry.job.transitions = entry.job.transitions.saturating_add(1);
        entry.job.changed_at = now;
        self.place(entry, state, now);
    }

    /// Puts a job at the tail of a state.
    pub(crate) fn place(&mut self, entry: &mut Entry, state: Option<State>, now: Timestamp) {
        let Some(state) = state else { return };
        self.seq += 1;
        entry.seq = self.seq;
        entry.job.state = state;
        if state == State::Available {
            entry.ready_at = now;
            entry.rank = self.rank(entry, now);
            self.count_ready(entry);
        }
    }

    fn rank(&mut self, entry: &Entry, now: Timestamp) -> i64 {
        let header = &entry.job.header;
        let order = self.queues.get(&header.queue).map(|settings| settings.order);
        let order = order.unwrap_or_default();
        let turn = match order {
            Order::Fair => self.take_turn(&header.queue, &header.tenant),
            Order::Strict | Order::Ageing { .. } | Order::Lifo => 0,
            // An order of a newer core: `rank` decides whether it uses turns.
            _ => 0,
        };
        rank(order, Ready { priority: header.priority, at: now, turn })
    }

    fn take_turn(&mut self, queue: &Name, tenant: &Option<String>) -> i64 {
        let turns = self.turns.entry(queue.clone()).or_default();
        let mut latest = turns.latest.get(tenant).copied();
        if latest.is_none()
            && let Some(standing) = self.rows.standing(queue, tenant)
        {
            turns.clock.serve(standing.served);
            latest = standing.latest;
        }
        let turn = turns.clock.take_turn(latest);
        turns.latest.insert(tenant.clone(), turn);
        turn
    }
}

//! Claims from queues whose limits count all jobs: the executor decides how many plain jobs may start, and the statement
//! of the fast path starts them.
//!
//! The meters of the limits are locked until the claim commits, so claims under one limit follow each other.

use super::claim::{FastClaim, Pass};
use crate::conn::Lent;
use crate::conn::error::Try;
use crate::engine::PostgresEngine;
use crate::slow::load::{Loaded, Loader};
use crate::slow::perform::commit;
use crate::slow::save::{WorkingSet, saves};
use futures_util::future::join3;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use windlass_core::engine::Claimed;
use windlass_core::model::Name;
use windlass_core::sync::lock;
use windlass_core::{Result, Timestamp};
use windlass_executor::{Executor, LaneKey};

/// Maximum number of queues whose limits are remembered.
const QUEUES_MAX: usize = 10_000;

/// The limits of queues as their last claim found them. The next claim reads them again.
#[derive(Default)]
pub(crate) struct Gates {
    gates: Mutex<HashMap<Name, Gate>>,
}

/// The limits of a queue.
#[derive(Clone)]
enum Gate {
    /// All of them count all jobs.
    OverAll(BTreeSet<Name>),
    /// Some count by group, or the queue records events: claims take the slow path.
    Slow,
}

impl Gates {
    /// Notes a queue under limits over all jobs. Its next claim learns their names.
    pub(super) fn note(&self, queue: &Name) {
        let mut gates = lock(&self.gates);
        if gates.len() < QUEUES_MAX {
            gates.entry(queue.clone()).or_insert_with(|| Gate::OverAll(BTreeSet::new()));
        }
    }

    /// The limits over all jobs of a queue; `None` if it had no limits, or its claims took the slow path.
    pub(crate) fn of(&self, queue: &Name) -> Option<BTreeSet<Name>> {
        match lock(&self.gates).get(queue)? {
            Gate::OverAll(limits) => Some(limits.clone()),
            Gate::Slow => None,
        }
    }

    /// Whether claims from a queue took the slow path.
    pub(crate) fn is_slow(&self, queue: &Name) -> bool {
        matches!(lock(&self.gates).get(queue), Some(Gate::Slow))
    }

    /// Notes whether a queue has limits by group or records events.
    pub(crate) fn note_slow(&self, queue: &Name, is_slow: bool) {
        if is_slow != self.is_slow(queue) {
            self.set(queue, is_slow.then_some(Gate::Slow));
        }
    }

    fn set(&self, queue: &Name, gate: Option<Gate>) {
        let mut gates = lock(&self.gates);
        match gate {
            None => drop(gates.remove(queue)),
            Some(gate) if gates.len() < QUEUES_MAX => drop(gates.insert(queue.clone(), gate)),
            Some(_) => {}
        }
    }
}

impl PostgresEngine {
    /// Executes a claim from a queue under limits over all jobs; returns `None` if the slow path must do it.
    pub(super) async fn claim_gated(
        &self,
        conn: &Lent,
        fast: &mut FastClaim<'_>,
    ) -> Try<Option<(Timestamp, Result<Claimed>)>> {
        let queue = fast.queue_name().clone();
        let gates = &self.inner.gates;
        let expected = gates.of(&queue).unwrap_or_default();
        let mut loaded = Loaded::default();
        let loader = Loader::new(conn, self.inner.shared.clock.as_ref());
        Loader::prepare_gate(conn).await?;
        // Together, in one round trip. The session is locked before the meters, as on the slow path: two claims of one
        // session would wait for each other otherwise.
        let (begun, locked, counted) = join3(
            conn.plain(super::claim::BEGIN),
            fast.lock(conn),
            loader.gate(&expected, &mut loaded),
        )
        .await;
        begun?;
        let locked = locked?;
        let is_complete = counted?;
        // No kind: the statement leaves kinds with limits to the slow path.
        let lane: LaneKey = (queue.clone(), "".into());
        let listed: BTreeSet<Name> = loaded.names_of_limits(&lane).into_iter().collect();
        let is_grouped = loaded.is_grouped(&lane);
        gates.set(
            &queue,
            match (is_grouped, listed.is_empty()) {
                (true, _) => Some(Gate::Slow),
                (false, true) => None,
                (false, false) => Some(Gate::OverAll(listed.clone())),
            },
        );
        if listed != expected || !is_complete || is_grouped {
            conn.command("ROLLBACK").await?;
            return Ok(None);
        }
        let mut run = self.run_over(&loaded, conn);
        let most = run.may_start(&lane, fast.limit(), loaded.now)?;
        let takes_tokens = loaded.limits_of(&lane).any(|(_, limit)| limit.rule.rate.is_some());
        fast.pass(Pass { most, takes_tokens });
        let now = self.inner.shared.test_now().map(Timestamp::as_millis);
        let answer = fast.claim_locked(conn, locked, now).await?;
        if takes_tokens {
            run.started(&lane, answer.jobs.len() as u32, loaded.now)?;
            let (set, turns) = run.into_parts();
            commit(conn, saves(&set, &turns, &conn.lanes)?.batches).await?;
        }
        fast.read(self, conn, answer).await
    }

    /// An executor over loaded rows.
    pub(crate) fn run_over<'l>(
        &self,
        loaded: &'l Loaded,
        conn: &'l Lent,
    ) -> Executor<WorkingSet<'l>> {
        let shared = &self.inner.shared;
        let set = WorkingSet::over(loaded, &*conn.lanes);
        let random = Arc::clone(&shared.random);
        let mut run = Executor::new(shared.capabilities.clone(), random, set, 0);
        let queues = loaded.queues.clone().unwrap_or_default();
        run.restore(loaded.sessions.clone(), queues, loaded.kinds.clone());
        run.restore_limits(loaded.limits.clone());
        run
    }
}

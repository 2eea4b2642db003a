//! Random graphs of jobs, and rules that hold after every step.
//!
//! The rules know nothing of edges, marks and queues of ends. They read all jobs: a job that is ready or runs has learned how
//! every job before it ended; one that is blocked waits for a job that has not ended; and whatever an input says is what
//! the job before it was seen to be.

use crate::rig::{QUEUE, Rig};
use crate::subject::Subject;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::JobId;
use windlass_core::engine::{
    Atomicity, Capability, Change, ClaimedJob, Enqueue, Get, Outcome, SessionId, SettleItem, Work,
};
use windlass_core::limits::CLAIM_BATCH_MAX;
use windlass_core::model::{
    Dependency, Due, Finish, Job, JobError, Join, Name, NewJob, OnFailure, State,
};

/// Maximum number of jobs in a story.
const JOBS_MAX: usize = 60;

/// The queue of some of the jobs; the others are in the default one.
const OTHER: &str = "there";

/// A job that another one adds.
fn member() -> NewJob {
    Rig::job().max_attempts(2).max_crashes(1)
}

/// A new job: the jobs before it with their policies, and whether it is in the other queue.
type Node = (Vec<(usize, usize)>, bool);

/// One step.
#[derive(Clone, Debug)]
pub(super) enum FlowOp {
    /// Stores a graph of new jobs: each names jobs before it, of the graph or of the story, by how far back they are.
    Graph {
        nodes: Vec<Node>,
        delay_ms: u64,
    },
    Claim {
        limit: u32,
    },
    Settle {
        lease: usize,
        outcome: usize,
    },
    Change {
        job: usize,
        change: usize,
    },
    Advance {
        ms: u64,
    },
    /// The worker's session ends without a word.
    Crash,
}

/// The strategy of sequences.
#[derive(Debug)]
pub(super) struct FlowStory;

impl ReferenceStateMachine for FlowStory {
    type State = ();
    type Transition = FlowOp;

    fn init_state() -> BoxedStrategy<()> {
        Just(()).boxed()
    }

    fn transitions((): &()) -> BoxedStrategy<FlowOp> {
        let edges = vec((0..12_usize, 0..OnFailure::ALL.len()), 0..4);
        let delay = prop_oneof![4 => Just(0), 1 => Just(1_500_u64)];
        prop_oneof![
            6 => (vec((edges, proptest::bool::weighted(0.4)), 1..5), delay)
                .prop_map(|(nodes, delay_ms)| FlowOp::Graph { nodes, delay_ms }),
            6 => (1..6_u32).prop_map(|limit| FlowOp::Claim { limit }),
            10 => (0..64_usize, 0..9_usize)
                .prop_map(|(lease, outcome)| FlowOp::Settle { lease, outcome }),
            4 => (0..64_usize, 0..6_usize)
                .prop_map(|(job, change)| FlowOp::Change { job, change }),
            3 => prop_oneof![Just(1), Just(2_000)].prop_map(|ms| FlowOp::Advance { ms }),
            1 => Just(FlowOp::Crash),
        ]
        .boxed()
    }

    fn apply((): (), _: &FlowOp) {}
}

/// A sequence in progress.
struct Play {
    rig: Rig,
    ids: Vec<JobId>,
    /// The states in which each job was seen after its end.
    ended_as: BTreeMap<JobId, BTreeSet<State>>,
    /// Jobs that an operator has replayed: they may run without their dependencies.
    replayed: BTreeSet<JobId>,
    session: SessionId,
    running: Vec<ClaimedJob>,
}

/// Runs a sequence; `Err` describes the first broken rule.
pub(super) async fn play(
    subject: Subject,
    ops: Vec<FlowOp>,
    seen: &dyn Fn(),
) -> Result<(), String> {
    let rig = Rig::new(subject);
    if !rig.has(Capability::Flows) {
        return Ok(());
    }
    let session = rig.long_session().await;
    let mut play = Play {
        rig,
        ids: Vec::new(),
        ended_as: BTreeMap::new(),
        replayed: BTreeSet::new(),
        session,
        running: Vec::new(),
    };
    for (number, op) in ops.iter().enumerate() {
        seen();
        let broken = match play.step(op).await {
            Ok(()) => play.check().await,
            Err(broken) => Err(broken),
        };
        broken.map_err(|broken| {
            let story: Vec<String> = ops[..=number].iter().map(|op| format!("  {op:?}")).collect();
            format!("step {number}: {broken}\nthe story so far:\n{}", story.join("\n"))
        })?;
    }
    play.end().await
}

impl Play {
    async fn step(&mut self, op: &FlowOp) -> Result<(), String> {
        match op {
            FlowOp::Graph { nodes, delay_ms } => self.graph(nodes, *delay_ms).await,
            FlowOp::Claim { limit } => {
                self.claim(*limit).await;
                Ok(())
            }
            FlowOp::Settle { lease, outcome } => self.settle(*lease, *outcome).await,
            FlowOp::Change { job, change } => {
                self.change(*job, *change).await;
                Ok(())
            }
            FlowOp::Advance { ms } => {
                self.rig.advance(*ms);
                Ok(())
            }
            FlowOp::Crash => {
                self.rig.crash(&self.session).await;
                self.running.clear();
                self.session = self.rig.long_session().await;
                Ok(())
            }
        }
    }

    async fn claim(&mut self, limit: u32) {
        for queue in [QUEUE, OTHER] {
            self.running.extend(self.rig.take_from(&self.session, queue, limit).await);
        }
    }

    /// Whether jobs of several queues cannot change in one step.
    fn is_by_queue(&self) -> bool {
        self.rig.engine().capabilities().atomicity < Atomicity::Store
    }

    async fn graph(&mut self, nodes: &[Node], delay_ms: u64) -> Result<(), String> {
        if self.ids.len() + nodes.len() > JOBS_MAX {
            return Ok(());
        }
        let mut ids = self.ids.clone();
        let mut jobs: Vec<NewJob> = Vec::new();
        for (edges, is_elsewhere) in nodes {
            let queue = if *is_elsewhere { OTHER } else { QUEUE };
            let mut job =
                Rig::job().queue(queue).max_attempts(2).max_crashes(1).due(Due::After(delay_ms));
            let mut after = BTreeSet::new();
            for (back, policy) in edges {
                let Some(place) = ids.len().checked_sub(1 + back) else { continue };
                if after.insert(ids[place]) {
                    let on = Dependency::on(ids[place]).on_failure(OnFailure::ALL[*policy]);
                    job = job.after(on);
                }
            }
            let id = Rig::fresh_id();
            ids.push(id);
            jobs.push(job.id(id));
        }
        if self.is_by_queue() {
            return self.one_by_one(jobs).await;
        }
        // The order of the request does not matter.
        jobs.reverse();
        let stored = self.rig.try_enqueue_whole(jobs).await;
        match stored.iter().find_map(|item| item.as_ref().err()) {
            None => self.ids = ids,
            // A job before it was discarded.
            Some(error) if matches!(error.code(), "invalid" | "aborted") => {
                for id in &ids[self.ids.len()..] {
                    if self.rig.find(*id).await.is_some() {
                        return Err(format!("job {id} of a refused graph was stored"));
                    }
                }
            }
            Some(error) => return Err(format!("a graph is refused: {error}")),
        }
        Ok(())
    }

    /// Enqueues each job by itself.
    async fn one_by_one(&mut self, jobs: Vec<NewJob>) -> Result<(), String> {
        let stored = self.rig.engine().enqueue(Enqueue::each(jobs)).await.expect("enqueue").value;
        for item in stored {
            match item {
                Ok(stored) => self.ids.push(stored.id),
                // A job before it was discarded, or refused.
                Err(error) if error.code() == "invalid" => {}
                Err(error) => return Err(format!("a job is refused: {error}")),
            }
        }
        Ok(())
    }

    async fn settle(&mut self, lease: usize, outcome: usize) -> Result<(), String> {
        if self.running.is_empty() {
            return Ok(());
        }
        let job = self.running.swap_remove(lease % self.running.len());
        let error = || JobError::new("e", "m");
        let outcome = match outcome {
            0..=2 => Outcome::DONE,
            3 => Outcome::Fail { error: error() },
            4 => Outcome::Retry { error: error(), delay_ms: Some(0) },
            5 => Outcome::Release,
            6 | 7 => Outcome::WaitForJobs,
            _ => return self.add_to_group(&job, lease).await,
        };
        let mut item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
        if item.outcome == Outcome::WaitForJobs {
            let room = JOBS_MAX.saturating_sub(self.ids.len());
            for child in 0..(lease % 4).min(room) {
                let policy = OnFailure::ALL[(lease + child) % OnFailure::ALL.len()];
                let queue = [QUEUE, OTHER][(lease + child) / 2 % 2];
                let child = member().queue(queue).joins(Join::SELF.on_failure(policy));
                item = item.follow_up(child);
            }
        }
        let settled =
            self.rig.try_settle(item).await.map_err(|error| format!("settle: {error}"))?;
        self.ids.extend(settled.follow_ups.iter().map(|job| job.id));
        Ok(())
    }

    /// Completes a job that adds another one to a job of the story, which must refuse it unless it is still blocked.
    async fn add_to_group(&mut self, job: &ClaimedJob, number: usize) -> Result<(), String> {
        let group = self.ids[number % self.ids.len()];
        let found = self.rig.find(group).await;
        let is_reachable = |queue: &Name| !self.is_by_queue() || *queue == job.header.queue;
        let is_open = found.is_some_and(|found| {
            let is_blocked = found.state.is_waiting() && found.dependencies.open > 0;
            is_blocked && is_reachable(&found.header.queue)
        });
        let done =
            |job: &ClaimedJob| SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
        let item = done(job).follow_up(member().joins(Join::to(group)));
        match self.rig.try_settle(item).await {
            Ok(settled) if is_open || settled.follow_ups.is_empty() => {
                self.ids.extend(settled.follow_ups.iter().map(|job| job.id));
                Ok(())
            }
            Ok(_) => Err(format!("job {group} does not wait, and a job was added to it")),
            Err(error) if is_open => Err(format!("a job cannot be added to {group}: {error}")),
            Err(_) => {
                let settled = self.rig.try_settle(done(job)).await;
                settled.map(drop).map_err(|error| format!("settle: {error}"))
            }
        }
    }

    async fn change(&mut self, job: usize, change: usize) {
        if self.ids.is_empty() {
            return;
        }
        let id = self.ids[job % self.ids.len()];
        let change = match change {
            0 => Change::Cancel,
            1 => Change::Kill,
            2 => Change::Pause,
            3 => Change::Resume,
            4 => Change::replay(),
            _ => Change::Discard,
        };
        let replays = matches!(change, Change::Replay(_));
        // Impossible ones are refused.
        if self.rig.try_change(id, change).await.is_ok() && replays {
            self.replayed.insert(id);
        }
    }

    async fn jobs(&self) -> BTreeMap<JobId, Job> {
        let found = self.rig.engine().get(Get::new(self.ids.iter().copied())).await.expect("get");
        found.value.into_iter().flatten().map(|job| (job.header.id, job)).collect()
    }

    /// Completes what maintenance has to do, and checks all rules.
    async fn check(&mut self) -> Result<(), String> {
        self.rig.maintain(Work::Promote).await;
        let jobs = self.jobs().await;
        for job in jobs.values().filter(|job| job.state.is_terminal()) {
            self.ended_as.entry(job.header.id).or_default().insert(job.state);
        }
        jobs.values().try_for_each(|job| self.check_job(job, &jobs))
    }

    fn check_job(&self, job: &Job, jobs: &BTreeMap<JobId, Job>) -> Result<(), String> {
        let (id, state) = (job.header.id, job.state);
        let open = job.inputs.iter().filter(|input| input.is_open()).count();
        if open != job.dependencies.open as usize {
            return Err(format!("job {id} counts {:?}, and {open} are open", job.dependencies));
        }
        for input in &job.inputs {
            let before = jobs.get(&input.job);
            match input.outcome {
                None if before.is_none_or(|before| before.state.is_terminal()) => {
                    return Err(format!("job {id} has not learned that {} ended", input.job));
                }
                Some(outcome) if !self.was_seen(input.job, outcome) => {
                    return Err(format!("{} was never {outcome}, as job {id} says", input.job));
                }
                None | Some(_) => {}
            }
        }
        let runs = matches!(state, State::Available | State::Running | State::Completed);
        if runs && open > 0 {
            return Err(format!("job {id} is {state} with {open} open dependencies"));
        }
        if state == State::Blocked && open == 0 {
            return Err(format!("job {id} is blocked and waits for nothing"));
        }
        let prevented = job.inputs.iter().find(|input| input.prevents_start());
        let should_have_ended =
            !self.replayed.contains(&id) && (!state.is_terminal() || state == State::Completed);
        if let Some(input) = prevented.filter(|_| should_have_ended) {
            return Err(format!("job {id} is {state} although {} failed", input.job));
        }
        if let Some(Finish::Dependency(upstream)) = job.finish
            && !job.inputs.iter().any(|input| input.job == upstream && input.prevents_start())
        {
            return Err(format!("job {id} ended because of {upstream}, which did not fail"));
        }
        Ok(())
    }

    fn was_seen(&self, id: JobId, outcome: State) -> bool {
        self.ended_as.get(&id).is_some_and(|states| states.contains(&outcome))
    }

    /// Runs everything that is left: nothing may wait for ever.
    async fn end(&mut self) -> Result<(), String> {
        for id in &self.ids {
            // Refused unless it is paused.
            let _ = self.rig.try_change(*id, Change::Resume).await;
        }
        for _ in 0..=2 * JOBS_MAX {
            self.rig.pass(2_000).await;
            self.claim(CLAIM_BATCH_MAX).await;
            if self.running.is_empty() {
                break;
            }
            for job in std::mem::take(&mut self.running) {
                let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
                self.rig.try_settle(item).await.map_err(|error| format!("settle: {error}"))?;
            }
            self.check().await?;
        }
        let jobs = self.jobs().await;
        match jobs.values().find(|job| !job.state.is_terminal()) {
            Some(job) => Err(format!("job {} is {} at the end", job.header.id, job.state)),
            None => {
                self.rig.assert_sound().await;
                Ok(())
            }
        }
    }
}

//! Random sequences of jobs under limits, and an independent calculation of what may start.
//!
//! The calculation knows nothing of lines, gates and meters. It keeps the list of all starts and reads the states of all
//! jobs. After every claim it checks that no limit is exceeded, and that each group of jobs that was left has a limit
//! without room.

use crate::rig::Rig;
use crate::subject::Subject;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::engine::{
    Capability, Change, Claim, ClaimedJob, Configure, Get, Hold, Outcome, SessionId, SettleItem,
    Work,
};
use windlass_core::limits::CLAIM_BATCH_MAX;
use windlass_core::model::{
    Due, Job, JobError, KindPatch, Limit, Name, NewJob, QueuePatch, Rate, Rule, State,
};
use windlass_core::{JobId, Timestamp};

const QUEUES: [&str; 2] = ["p", "q"];
const KINDS: [&str; 2] = ["x", "y"];
const GROUPS: [&str; 3] = ["a", "b", "c"];
/// The names of the limits, and who lists them: both queues, one queue, one kind.
const LIMITS: [(&str, &[&str], &[&str]); 3] =
    [("shared", &["p", "q"], &[]), ("queue", &["q"], &[]), ("kind", &[], &["x"])];

/// Rounds in which everything must have run.
const ROUNDS_MAX: usize = 500;

/// One step.
#[derive(Clone, Debug)]
pub(super) enum LimitOp {
    /// Creates the limits, if it is the first step. Otherwise changes their `max_running`.
    Limits(Vec<Limit>),
    Enqueue {
        queue: usize,
        kind: usize,
        group: usize,
        cost: u32,
        priority: i32,
        delay_ms: u64,
        copies: usize,
        key: bool,
    },
    /// Claims everything, or a few.
    Claim {
        limit: Option<u32>,
    },
    Settle {
        lease: usize,
        outcome: usize,
        hold: Option<u64>,
    },
    Change {
        job: usize,
        change: usize,
    },
    Advance {
        ms: u64,
    },
    Maintain {
        work: Work,
    },
    PauseQueue {
        queue: usize,
        paused: bool,
    },
    /// The worker's session ends without a word.
    Crash,
}

/// The strategy of sequences.
#[derive(Debug)]
pub(super) struct LimitStory;

impl ReferenceStateMachine for LimitStory {
    type State = ();
    type Transition = LimitOp;

    fn init_state() -> BoxedStrategy<()> {
        Just(()).boxed()
    }

    fn transitions((): &()) -> BoxedStrategy<LimitOp> {
        let place = (0..QUEUES.len(), 0..KINDS.len(), 0..GROUPS.len());
        let delay = prop_oneof![4 => Just(0), 1 => Just(1_500_u64)];
        let shape = (1..3_u32, -1..2_i32, delay, 1..5_usize, prop::bool::weighted(0.2));
        prop_oneof![
            1 => vec(limit(), LIMITS.len()).prop_map(LimitOp::Limits),
            8 => (place, shape).prop_map(
                |((queue, kind, group), (cost, priority, delay_ms, copies, key))| {
                    LimitOp::Enqueue { queue, kind, group, cost, priority, delay_ms, copies, key }
                }
            ),
            8 => prop::option::weighted(0.3, 1..4_u32).prop_map(|limit| LimitOp::Claim { limit }),
            8 => (0..64_usize, 0..6_usize, prop::option::weighted(0.1, Just(700_u64)))
                .prop_map(|(lease, outcome, hold)| LimitOp::Settle { lease, outcome, hold }),
            2 => (0..64_usize, 0..7_usize)
                .prop_map(|(job, change)| LimitOp::Change { job, change }),
            5 => prop_oneof![Just(1), Just(500), Just(1_000), Just(7_000)]
                .prop_map(|ms| LimitOp::Advance { ms }),
            3 => prop_oneof![Just(Work::Promote), Just(Work::Reclaim), Just(Work::Compact)]
                .prop_map(|work| LimitOp::Maintain { work }),
            1 => (0..QUEUES.len(), any::<bool>())
                .prop_map(|(queue, paused)| LimitOp::PauseQueue { queue, paused }),
            1 => Just(LimitOp::Crash),
        ]
        .boxed()
    }

    fn apply((): (), _: &LimitOp) {}
}

/// Limits with numbers that milliseconds and tokens divide without a remainder.
fn limit() -> impl Strategy<Value = Limit> {
    let rate = prop_oneof![
        2 => Just(None),
        1 => (1..3_u32, 2..5_u32).prop_map(|(amount, burst)| {
            Some(Rate::Bucket { amount, per_ms: 1_000, burst })
        }),
        1 => (2..5_u32).prop_map(|max| Some(Rate::window(max, 1_000))),
    ];
    (1..4_u32, rate, any::<bool>(), any::<bool>()).prop_map(|(max, rate, by_group, own)| {
        let mut limit = Limit::max_running(max);
        limit.rule.rate = rate;
        if by_group {
            limit = limit.by_group();
            if own {
                limit = limit.for_group(GROUPS[0], Rule::running(max + 2));
            }
        }
        limit
    })
}

/// A start, as the engine reported it.
#[derive(Debug)]
struct Start {
    at: Timestamp,
    cost: u64,
    group: String,
    limits: Vec<&'static str>,
}

/// A sequence in progress.
struct Play {
    rig: Rig,
    limits: BTreeMap<&'static str, Limit>,
    ids: Vec<JobId>,
    starts: Vec<Start>,
    /// Holds, by limit and group.
    held: BTreeMap<(&'static str, String), Timestamp>,
    paused: BTreeSet<usize>,
    session: SessionId,
    running: Vec<ClaimedJob>,
}

/// Runs a sequence; `Err` describes the first broken promise.
pub(super) async fn play(
    subject: Subject,
    ops: Vec<LimitOp>,
    seen: &dyn Fn(),
) -> Result<(), String> {
    let rig = Rig::new(subject);
    if !rig.has(Capability::Limits) {
        return Ok(());
    }
    let session = rig.long_session().await;
    let mut play = Play {
        rig,
        limits: BTreeMap::new(),
        ids: Vec::new(),
        starts: Vec::new(),
        held: BTreeMap::new(),
        paused: BTreeSet::new(),
        session,
        running: Vec::new(),
    };
    let first = LimitOp::Limits(vec![
        Limit::max_running(2).by_group(),
        Limit::new(Rule::rate(Rate::bucket(2, 1_000))),
        Limit::new(Rule::rate(Rate::window(2, 1_000))).by_group(),
    ]);
    let opens = matches!(ops.first(), Some(LimitOp::Limits(_)));
    let ops: Vec<LimitOp> = Some(first).filter(|_| !opens).into_iter().chain(ops).collect();
    for (number, op) in ops.iter().enumerate() {
        seen();
        play.step(op).await.map_err(|broken| {
            let story: Vec<String> = ops[..=number].iter().map(|op| format!("  {op:?}")).collect();
            format!("step {number}: {broken}\nthe story so far:\n{}", story.join("\n"))
        })?;
    }
    play.end().await
}

/// The limits that jobs of a lane run under.
fn limits_of(queue: &str, kind: &str) -> Vec<&'static str> {
    let lists = |(_, queues, kinds): &&(&str, &[&str], &[&str])| {
        queues.contains(&queue) || kinds.contains(&kind)
    };
    LIMITS.iter().filter(lists).map(|(name, ..)| *name).collect()
}

impl Play {
    async fn step(&mut self, op: &LimitOp) -> Result<(), String> {
        match op.clone() {
            LimitOp::Limits(limits) => self.set_limits(limits).await,
            LimitOp::Enqueue { queue, kind, group, cost, priority, delay_ms, copies, key } => {
                let mut job = NewJob::new(KINDS[kind]).queue(QUEUES[queue]).group(GROUPS[group]);
                job = job.cost(cost).priority(priority).due(Due::After(delay_ms)).max_attempts(9);
                // A job that crashed twice would be claimed alone.
                job = job.max_crashes(1);
                if key {
                    job = job.key(GROUPS[group]);
                }
                self.ids.extend(self.rig.enqueue_all(vec![job; copies]).await);
            }
            LimitOp::Claim { limit } => return self.claim(limit).await,
            LimitOp::Settle { lease, outcome, hold } => self.settle(lease, outcome, hold).await,
            LimitOp::Change { job, change } => self.change(job, change).await,
            LimitOp::Advance { ms } => self.rig.advance(ms),
            LimitOp::Maintain { work } => {
                self.rig.maintain(work).await;
            }
            LimitOp::PauseQueue { queue, paused } => {
                let patch = QueuePatch::paused(paused);
                self.rig.configure(Configure::queue(QUEUES[queue], patch)).await;
                if paused {
                    self.paused.insert(queue)
                } else {
                    self.paused.remove(&queue)
                };
            }
            LimitOp::Crash => {
                self.rig.crash(&self.session).await;
                self.running.clear();
                self.session = self.rig.long_session().await;
            }
        }
        Ok(())
    }

    async fn set_limits(&mut self, limits: Vec<Limit>) {
        let created = self.limits.is_empty();
        for ((name, ..), mut limit) in LIMITS.iter().zip(limits) {
            if let Some(before) = self.limits.get(name) {
                let max_running = limit.rule.max_running;
                limit = before.clone();
                limit.rule.max_running = max_running;
            }
            self.rig.configure(Configure::limit(*name, limit.clone())).await;
            self.limits.insert(name, limit);
        }
        if !created {
            return;
        }
        for queue in QUEUES {
            let lists = LIMITS.iter().filter(|(_, queues, _)| queues.contains(&queue));
            let patch = QueuePatch::limits(lists.map(|(name, ..)| *name));
            self.rig.configure(Configure::queue(queue, patch)).await;
        }
        for kind in KINDS {
            let lists = LIMITS.iter().filter(|(.., kinds)| kinds.contains(&kind));
            let patch = KindPatch::limits(lists.map(|(name, ..)| *name));
            self.rig.configure(Configure::kind(kind, patch)).await;
        }
    }

    async fn jobs(&self) -> Vec<Job> {
        let reply = self.rig.engine().get(Get::new(self.ids.iter().copied())).await.expect("get");
        reply.value.into_iter().flatten().collect()
    }

    async fn claim(&mut self, limit: Option<u32>) -> Result<(), String> {
        let all = limit.unwrap_or(CLAIM_BATCH_MAX);
        let claim = Claim::new(self.rig.claimant(&self.session), QUEUES[0], all);
        let got = self.rig.claim(claim.queue(QUEUES[1], all)).await;
        let now = self.rig.now().await;
        let (left, jobs) = (got.len() < all as usize, self.jobs().await);
        for job in got {
            let header = &job.header;
            let limits = limits_of(&header.queue, &header.kind);
            let group = header.limit_group().to_owned();
            for name in &limits {
                self.check_start(name, &group, header.cost, now, &jobs)?;
            }
            self.starts.push(Start { at: now, cost: header.cost.into(), group, limits });
            self.running.push(job);
        }
        if left { self.check_left(now, &jobs) } else { Ok(()) }
    }

    /// The rule of a limit, and the group in which it counts.
    fn rule(&self, name: &str, group: &str) -> (Rule, Option<String>) {
        let limit = &self.limits[name];
        (limit.rule_for(group), limit.by_group.then(|| group.to_owned()))
    }

    /// Number of running jobs that a limit counts.
    fn running_under(name: &str, group: Option<&str>, jobs: &[Job]) -> u32 {
        let counts = |job: &&Job| {
            let header = &job.header;
            job.state == State::Running
                && limits_of(&header.queue, &header.kind).contains(&name)
                && group.is_none_or(|group| group == header.limit_group())
        };
        jobs.iter().filter(counts).count() as u32
    }

    /// Whether the rate of a limit allows a start at `now`, by the list of all starts.
    fn rate_allows(&self, name: &str, group: &str, cost: u32, now: Timestamp) -> bool {
        let (rule, counted) = self.rule(name, group);
        let Some(rate) = rule.rate else { return true };
        let cost = u64::from(cost.min(rate.capacity()));
        let counts = |start: &&Start| {
            start.limits.contains(&name)
                && counted.as_ref().is_none_or(|group| *group == start.group)
        };
        let starts: Vec<&Start> = self.starts.iter().filter(counts).collect();
        let capacity = u64::from(rate.capacity());
        let sum = |from: usize| {
            starts[from..].iter().map(|start| start.cost.min(capacity)).sum::<u64>() + cost
        };
        let fits = |(index, start): (usize, &&Start)| match rate {
            Rate::Bucket { amount, per_ms, burst } => {
                let over = sum(index).saturating_sub(burst.into());
                over * per_ms <= now.since(start.at) * u64::from(amount)
            }
            Rate::Window { max, per_ms } => {
                start.at.plus(per_ms) <= now || sum(index) <= max.into()
            }
            _ => true,
        };
        starts.iter().enumerate().all(fits)
    }

    fn is_held(&self, name: &str, group: &str, now: Timestamp) -> bool {
        let group = if self.limits[name].by_group { group } else { "" };
        let held = self.held.iter().find(|((limit, of), _)| *limit == name && of == group);
        held.is_some_and(|(_, until)| *until > now)
    }

    fn check_start(
        &self,
        name: &str,
        group: &str,
        cost: u32,
        now: Timestamp,
        jobs: &[Job],
    ) -> Result<(), String> {
        let (rule, counted) = self.rule(name, group);
        let running = Self::running_under(name, counted.as_deref(), jobs);
        if let Some(max) = rule.max_running.filter(|max| running > *max) {
            return Err(format!("{running} jobs run under {name} in {group}, the limit is {max}"));
        }
        if !self.rate_allows(name, group, cost, now) {
            return Err(format!(
                "a start in {group} at {now} exceeds the rate of {name}: {rule:?}"
            ));
        }
        if self.is_held(name, group, now) {
            return Err(format!("a start in {group} while {name} is held"));
        }
        Ok(())
    }

    /// Whether some limit refuses this job now; `by_group` selects the limits.
    fn is_refused(&self, job: &Job, by_group: bool, now: Timestamp, jobs: &[Job]) -> bool {
        let header = &job.header;
        let group = header.limit_group();
        limits_of(&header.queue, &header.kind).into_iter().any(|name| {
            let (rule, counted) = self.rule(name, group);
            let running = Self::running_under(name, counted.as_deref(), jobs);
            counted.is_some() == by_group
                && (rule.max_running.is_some_and(|max| running >= max)
                    || !self.rate_allows(name, group, header.cost, now)
                    || self.is_held(name, group, now))
        })
    }

    /// Checks that a claim which returned fewer jobs than it could left none that could have started: in the line of
    /// each group, a job waits for a limit by group, or in its lane, one waits for a limit over all jobs.
    fn check_left(&self, now: Timestamp, jobs: &[Job]) -> Result<(), String> {
        let paused =
            |job: &Job| self.paused.iter().any(|queue| *QUEUES[*queue] == *job.header.queue);
        let key_is_free = |job: &Job| {
            let Some(key) = &job.header.key else { return true };
            !jobs.iter().any(|other| {
                let same = other.header.queue == job.header.queue
                    && other.header.key.as_ref() == Some(key);
                same && other.header.id != job.header.id && !other.state.is_terminal()
            })
        };
        let waits = |job: &&Job| {
            let state = matches!(job.state, State::Available | State::Blocked);
            state && !job.waits && job.header.run_at <= now && !paused(job) && key_is_free(job)
        };
        let waiting: Vec<&Job> = jobs.iter().filter(waits).collect();
        let lane =
            |job: &Job| -> (Name, Name) { (job.header.queue.clone(), job.header.kind.clone()) };
        for job in &waiting {
            let of_lane = || {
                jobs.iter()
                    .filter(|other| lane(other) == lane(job))
                    .filter(|other| matches!(other.state, State::Available | State::Blocked))
            };
            let group = job.header.limit_group();
            let mut of_group = of_lane().filter(|other| other.header.limit_group() == group);
            let closed = of_lane().any(|other| self.is_refused(other, false, now, jobs));
            if !closed && !of_group.any(|other| self.is_refused(other, true, now, jobs)) {
                return Err(format!("nothing refuses {job:?}, and no claim started it"));
            }
        }
        Ok(())
    }

    async fn settle(&mut self, lease: usize, outcome: usize, hold: Option<u64>) {
        if self.running.is_empty() {
            return;
        }
        let job = self.running.remove(lease % self.running.len());
        let retry = |ms| Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(ms) };
        let outcome = match outcome {
            0 | 1 => Outcome::DONE,
            2 => retry(0),
            3 => retry(1_200),
            4 => Outcome::Release,
            _ => Outcome::Snooze { delay_ms: 300 },
        };
        let header = &job.header;
        let mut item = SettleItem::new(header.id, job.lease.clone(), outcome);
        if let Some(ms) = hold
            && let Some(name) = limits_of(&header.queue, &header.kind).first()
        {
            item = item.hold(Hold::limit(*name, ms));
            let group = if self.limits[name].by_group { header.limit_group() } else { "" };
            let until = self.rig.now().await.plus(ms);
            self.held.insert((name, group.to_owned()), until);
        }
        self.rig.try_settle(item).await.expect("settle");
    }

    async fn change(&self, job: usize, change: usize) {
        if self.ids.is_empty() {
            return;
        }
        let change = match change {
            0 | 1 => Change::Cancel,
            2 => Change::Pause,
            3 => Change::Resume,
            4 => Change::Reschedule(Due::After(800)),
            5 => Change::Reprioritise(2),
            _ => Change::Move(QUEUES[job % 2].into()),
        };
        if matches!(change, Change::Move(_)) && !self.rig.has(Capability::Move) {
            return;
        }
        // A change that the job's state does not allow is refused, which other sequences check.
        let _ = self.rig.try_change(self.ids[job % self.ids.len()], change).await;
    }

    /// Lets everything run: nothing is stuck.
    async fn end(mut self) -> Result<(), String> {
        for queue in QUEUES {
            self.rig.configure(Configure::queue(queue, QueuePatch::paused(false))).await;
        }
        self.paused.clear();
        for id in &self.ids {
            // Refused unless the job waits.
            let _ = self.rig.try_change(*id, Change::Resume).await;
        }
        for _ in 0..ROUNDS_MAX {
            for job in std::mem::take(&mut self.running) {
                self.rig.settle(&job, Outcome::DONE).await;
            }
            self.rig.advance(500);
            self.rig.maintain(Work::Promote).await;
            self.claim(None).await?;
            let open = |job: &Job| !job.state.is_terminal() && job.state != State::Running;
            if self.running.is_empty() && !self.jobs().await.iter().any(open) {
                self.rig.assert_sound().await;
                return Ok(());
            }
        }
        let left: Vec<Job> =
            self.jobs().await.into_iter().filter(|job| !job.state.is_terminal()).collect();
        Err(format!("these jobs never ran: {left:?}"))
    }
}

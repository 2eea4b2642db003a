//! What can happen in a story, and how stories are made.
//!
//! Steps name jobs, sessions and leases by number, and the runner takes the number modulo the count that
//! exists. So any part of a story is a story too, which lets proptest shrink it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;
use std::fmt;
use windlass_core::engine::Work;
use windlass_core::model::{NewJob, Part, State};
use windlass_core::policy::{OnConflict, UniqueScope, Until};

/// The queues and kinds of all stories.
pub(super) const QUEUES: [&str; 3] = ["a", "b", "c"];
pub(super) const KINDS: [&str; 2] = ["x", "y"];
/// The names of signals.
pub(super) const SIGNALS: [&str; 2] = ["go", "stop"];

/// A job to enqueue.
#[derive(Clone)]
pub(super) struct Spec {
    pub(super) queue: usize,
    pub(super) kind: usize,
    pub(super) priority: i32,
    pub(super) delay_ms: u64,
    pub(super) key: Option<u8>,
    pub(super) unique: Option<(u8, UniqueScope, Until, OnConflict)>,
    pub(super) max_attempts: u32,
    pub(super) max_crashes: u32,
    pub(super) max_wait_ms: Option<u64>,
    pub(super) retention_ms: Option<u64>,
    pub(super) extras: Extras,
    /// Uses the id of a job that was enqueued before.
    pub(super) again: Option<usize>,
}

/// What a job may carry that has no effect on others: a set of bits.
#[derive(Clone, Copy)]
pub(super) struct Extras(u8);

impl Extras {
    /// Gives a job what the bits stand for.
    pub(super) fn add_to(self, job: &mut NewJob) {
        let has = |bit: u8| self.0 & 1 << bit != 0;
        let part = |bit: u8| has(bit).then(|| Part::new(vec![bit]));
        job.tenant = has(0).then(|| "acme".to_owned());
        job.trace = has(1).then(|| "00-abc-def-01".to_owned());
        job.tags = has(2).then(|| "tag".to_owned()).into_iter().collect();
        job.policy.timeout_ms = has(3).then_some(1_000);
        job.parts.payload = part(4);
        job.parts.checkpoint = part(5);
        job.parts.blob = part(6);
        job.parts.metadata = part(7);
    }
}

impl fmt::Debug for Spec {
    /// In short: stories are read by people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { priority, delay_ms, max_attempts, max_crashes, .. } = self;
        write!(f, "{}/{} priority {priority}", QUEUES[self.queue], KINDS[self.kind])?;
        write!(f, " in {delay_ms} ms, {max_attempts} attempts, {max_crashes} crashes")?;
        if let Some(key) = self.key {
            write!(f, ", key {key}")?;
        }
        if let Some(unique) = self.unique {
            write!(f, ", unique {unique:?}")?;
        }
        if let Some(ms) = self.max_wait_ms {
            write!(f, ", waits {ms} ms")?;
        }
        if let Some(ms) = self.retention_ms {
            write!(f, ", kept {ms} ms")?;
        }
        if self.extras.0 != 0 {
            write!(f, ", extras {:#010b}", self.extras.0)?;
        }
        self.again.map_or(Ok(()), |number| write!(f, ", again as {number}"))
    }
}

#[derive(Clone, Debug)]
pub(super) struct ClaimSpec {
    /// By this session, or alone for so long.
    pub(super) by: Result<usize, u64>,
    /// Under the name of the claimant's latest claim.
    pub(super) again: bool,
    pub(super) queues: Vec<(usize, u32)>,
    pub(super) kinds: Option<Vec<(usize, u32)>>,
    pub(super) limit: u32,
    pub(super) from_priority: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Report {
    Complete(Option<u8>),
    Retry(Option<u64>),
    Snooze(u64),
    Fail,
    Release,
    /// For a signal, or for any; with a time limit.
    Wait(Option<usize>, Option<u64>),
    Cancel,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    Cancel,
    Promote,
    Reschedule(u64),
    Reprioritise(i32),
    /// To this queue.
    Move(usize),
    Kill,
    Pause,
    Resume,
    /// With this name.
    Signal(usize),
    Replay(Edit),
    Discard,
}

/// What a replay changes about a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edit {
    pub(super) delay_ms: u64,
    pub(super) payload: Option<u8>,
    /// Without the checkpoint.
    pub(super) start_over: bool,
    pub(super) priority: Option<i32>,
    /// Another policy, with these attempts.
    pub(super) max_attempts: Option<u32>,
    /// Another queue.
    pub(super) queue: Option<usize>,
}

/// What a report says.
#[derive(Clone, Debug)]
pub(super) struct SettleSpec {
    pub(super) report: Report,
    pub(super) checkpoint: Option<u8>,
    pub(super) payload: Option<u8>,
    /// The queue to run in again.
    pub(super) queue: Option<usize>,
    pub(super) then: Vec<Spec>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Setting {
    PauseQueue(usize, bool),
    PauseKind(usize, bool),
    Permits(usize, Option<u32>),
    MaxDepth(usize, Option<u64>),
    MaxWait(usize, Option<u64>),
    Retention(usize, u64),
    /// The same number for every final state.
    KeepMax(usize, Option<u64>),
    Events(usize, bool),
}

/// One step of a story.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Enqueue {
        jobs: Vec<Spec>,
        all_or_nothing: bool,
    },
    OpenSession {
        ttl_ms: u64,
    },
    CloseSession {
        session: usize,
    },
    Heartbeat {
        session: usize,
        forgets: Option<usize>,
        unanswered: bool,
    },
    Claim(ClaimSpec),
    Settle {
        lease: usize,
        settle: SettleSpec,
        claim: Option<ClaimSpec>,
    },
    Update {
        lease: usize,
        checkpoint: Option<u8>,
        payload: Option<u8>,
        extend_ms: Option<u64>,
    },
    Change {
        job: usize,
        wish: Wish,
        /// The state that it is decided for.
        if_state: Option<State>,
    },
    /// Imports a job of the store: under its own id if it can be discarded first, else as a copy.
    Import {
        job: usize,
        discards: bool,
    },
    Configure(Setting),
    Advance {
        ms: u64,
    },
    Maintain {
        work: Work,
        budget: u32,
    },
}

/// The strategy of stories. It needs no state of its own: see the module's note on numbers.
#[derive(Debug)]
pub(super) struct Story;

impl ReferenceStateMachine for Story {
    type State = ();
    type Transition = Op;

    fn init_state() -> BoxedStrategy<()> {
        Just(()).boxed()
    }

    fn transitions((): &()) -> BoxedStrategy<Op> {
        prop_oneof![
            8 => (vec(spec(), 1..4), any::<bool>())
                .prop_map(|(jobs, all_or_nothing)| Op::Enqueue { jobs, all_or_nothing }),
            2 => prop_oneof![Just(5_000), Just(60_000)].prop_map(|ttl_ms| Op::OpenSession { ttl_ms }),
            1 => number().prop_map(|session| Op::CloseSession { session }),
            2 => (number(), prop::option::of(number()), any::<bool>()).prop_map(
                |(session, forgets, unanswered)| Op::Heartbeat { session, forgets, unanswered },
            ),
            7 => claim().prop_map(Op::Claim),
            9 => settle(),
            2 => (number(), prop::option::of(any::<u8>()), rarely_a_byte(), extension()).prop_map(
                |(lease, checkpoint, payload, extend_ms)| {
                    Op::Update { lease, checkpoint, payload, extend_ms }
                },
            ),
            5 => (number(), wish(), condition())
                .prop_map(|(job, wish, if_state)| Op::Change { job, wish, if_state }),
            1 => import(),
            2 => setting().prop_map(Op::Configure),
            4 => time().prop_map(|ms| Op::Advance { ms }),
            5 => (work(), 1..4_u32).prop_map(|(work, budget)| Op::Maintain { work, budget }),
        ]
        .boxed()
    }

    fn apply((): (), _: &Op) {}
}

/// The strategy of stories in which operators change jobs that end and are removed soon after.
#[derive(Debug)]
pub(super) struct OperatorStory;

impl ReferenceStateMachine for OperatorStory {
    type State = ();
    type Transition = Op;

    fn init_state() -> BoxedStrategy<()> {
        Just(()).boxed()
    }

    fn transitions((): &()) -> BoxedStrategy<Op> {
        let works = prop_oneof![
            3 => Just(Work::Promote),
            1 => Just(Work::Reclaim),
            4 => Just(Work::Retain),
            1 => Just(Work::Compact),
        ];
        prop_oneof![
            6 => vec(spec(), 1..4).prop_map(|jobs| Op::Enqueue { jobs, all_or_nothing: false }),
            1 => Just(Op::OpenSession { ttl_ms: 60_000 }),
            6 => claim().prop_map(Op::Claim),
            6 => settle(),
            12 => (number(), operators_wish(), condition())
                .prop_map(|(job, wish, if_state)| Op::Change { job, wish, if_state }),
            3 => import(),
            2 => short_retention().prop_map(Op::Configure),
            3 => prop_oneof![Just(1), Just(999), Just(10_000)].prop_map(|ms| Op::Advance { ms }),
            5 => (works, 1..4_u32).prop_map(|(work, budget)| Op::Maintain { work, budget }),
        ]
        .boxed()
    }

    fn apply((): (), _: &Op) {}
}

fn import() -> impl Strategy<Value = Op> {
    (number(), any::<bool>()).prop_map(|(job, discards)| Op::Import { job, discards })
}

fn operators_wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        4 => Just(Wish::Cancel),
        1 => Just(Wish::Promote),
        1 => time().prop_map(Wish::Reschedule),
        1 => (-2..3_i32).prop_map(Wish::Reprioritise),
        3 => queue().prop_map(Wish::Move),
        2 => Just(Wish::Kill),
        6 => edit().prop_map(Wish::Replay),
        2 => Just(Wish::Discard),
    ]
}

fn short_retention() -> impl Strategy<Value = Setting> {
    let ms = prop_oneof![Just(0), Just(1_000), Just(5_000)];
    (0..QUEUES.len(), ms).prop_map(|(queue, ms)| Setting::Retention(queue, ms))
}

fn edit() -> impl Strategy<Value = Edit> {
    let delay_ms = prop_oneof![3 => Just(0), 1 => time()];
    let payload = prop::option::weighted(0.3, any::<u8>());
    let priority = prop::option::weighted(0.3, -2..3_i32);
    let attempts = prop::option::weighted(0.2, 1..4_u32);
    let queue = prop::option::weighted(0.2, queue());
    (delay_ms, payload, any::<bool>(), priority, attempts, queue).prop_map(
        |(delay_ms, payload, start_over, priority, max_attempts, queue)| Edit {
            delay_ms,
            payload,
            start_over,
            priority,
            max_attempts,
            queue,
        },
    )
}

fn queue() -> impl Strategy<Value = usize> + Clone {
    0..QUEUES.len()
}

fn rarely_a_byte() -> impl Strategy<Value = Option<u8>> + Clone {
    prop::option::weighted(0.1, any::<u8>())
}

/// Mostly states in which jobs can be replayed or discarded.
fn condition() -> impl Strategy<Value = Option<State>> {
    let state = prop_oneof![
        3 => Just(State::Dead),
        2 => Just(State::Cancelled),
        1 => Just(State::Completed),
        1 => Just(State::Available),
    ];
    prop::option::weighted(0.3, state)
}

fn number() -> impl Strategy<Value = usize> + Clone {
    0..64_usize
}

/// Spans that cross every limit a story has: delays, session and lease lengths, waits, retention.
fn time() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![Just(0), Just(1), Just(999), Just(10_000), Just(40_000), Just(120_000)]
}

fn extension() -> impl Strategy<Value = Option<u64>> {
    prop::option::weighted(0.2, Just(30_000))
}

fn work() -> impl Strategy<Value = Work> + Clone {
    prop_oneof![
        4 => Just(Work::Promote),
        2 => Just(Work::Reclaim),
        1 => Just(Work::Expire),
        1 => Just(Work::Retain),
        1 => Just(Work::Compact),
    ]
}

fn spec() -> impl Strategy<Value = Spec> + Clone {
    let place = (0..QUEUES.len(), 0..KINDS.len(), -1..2_i32);
    let delay = prop_oneof![3 => Just(0), 1 => time()];
    let names = (prop::option::weighted(0.3, 0..2_u8), prop::option::weighted(0.3, unique()));
    let budgets = (1..4_u32, 0..4_u32);
    let ages = (
        prop::option::weighted(0.2, Just(50_000)),
        prop::option::weighted(0.2, prop_oneof![Just(0), Just(30_000)]),
    );
    let extras = prop_oneof![
        4 => Just(0),
        2 => any::<u8>().prop_map(|bits| bits & 0x1F),
        1 => any::<u8>(),
    ];
    let again = prop::option::weighted(0.1, number());
    (place, delay, names, budgets, ages, extras, again).prop_map(
        |((queue, kind, priority), delay_ms, (key, unique), budgets, ages, extras, again)| Spec {
            queue,
            kind,
            priority,
            delay_ms,
            key,
            unique,
            max_attempts: budgets.0,
            max_crashes: budgets.1,
            max_wait_ms: ages.0,
            retention_ms: ages.1,
            extras: Extras(extras),
            again,
        },
    )
}

fn unique() -> impl Strategy<Value = (u8, UniqueScope, Until, OnConflict)> + Clone {
    let scope =
        prop_oneof![Just(UniqueScope::Lane), Just(UniqueScope::Queue), Just(UniqueScope::Kind)];
    let until =
        prop_oneof![Just(Until::Finished), Just(Until::Removed), Just(Until::window_ms(20_000))];
    let on_conflict = prop_oneof![
        Just(OnConflict::Existing),
        Just(OnConflict::Replace),
        Just(OnConflict::Debounce),
        Just(OnConflict::Throttle),
        Just(OnConflict::Reject),
    ];
    (0..2_u8, scope, until, on_conflict).prop_map(|(key, scope, until, on_conflict)| {
        let throttles = on_conflict == OnConflict::Throttle;
        (key, scope, if throttles { Until::window_ms(20_000) } else { until }, on_conflict)
    })
}

fn claim() -> impl Strategy<Value = ClaimSpec> + Clone {
    let by = prop_oneof![4 => number().prop_map(Ok), 1 => Just(Err(15_000_u64))];
    let queues = vec((0..QUEUES.len(), prop_oneof![Just(u32::MAX), 1..3_u32]), 1..4);
    let kinds = prop::option::weighted(0.3, vec((0..KINDS.len(), 1..4_u32), 1..3));
    let from_priority = prop::option::weighted(0.15, -1..3_i32);
    (by, prop::bool::weighted(0.15), queues, kinds, 1..6_u32, from_priority).prop_map(
        |(by, again, mut queues, kinds, limit, from_priority)| {
            // Naming a queue or kind twice would only ask what the second one adds.
            let mut seen = [false; QUEUES.len()];
            queues.retain(|(queue, _)| !std::mem::replace(&mut seen[*queue], true));
            let kinds = kinds.map(|mut kinds: Vec<(usize, u32)>| {
                let mut seen = [false; KINDS.len()];
                kinds.retain(|(kind, _)| !std::mem::replace(&mut seen[*kind], true));
                kinds
            });
            ClaimSpec { by, again, queues, kinds, limit, from_priority }
        },
    )
}

fn settle() -> impl Strategy<Value = Op> {
    let report = prop_oneof![
        4 => prop::option::weighted(0.3, any::<u8>()).prop_map(Report::Complete),
        3 => prop::option::of(time()).prop_map(Report::Retry),
        1 => time().prop_map(Report::Snooze),
        1 => Just(Report::Fail),
        1 => Just(Report::Release),
        2 => (prop::option::of(0..SIGNALS.len()), prop::option::of(time()))
            .prop_map(|(name, ms)| Report::Wait(name, ms)),
        1 => Just(Report::Cancel),
    ];
    let checkpoint = prop::option::weighted(0.3, any::<u8>());
    let queue = prop::option::weighted(0.2, queue());
    let said = (report, checkpoint, rarely_a_byte(), queue, vec(spec(), 0..2));
    (number(), said, prop::option::weighted(0.4, claim())).prop_map(|(lease, said, claim)| {
        let (report, checkpoint, payload, queue, then) = said;
        let settle = SettleSpec { report, checkpoint, payload, queue, then };
        Op::Settle { lease, settle, claim }
    })
}

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        2 => Just(Wish::Cancel),
        2 => Just(Wish::Promote),
        1 => time().prop_map(Wish::Reschedule),
        1 => (-2..3_i32).prop_map(Wish::Reprioritise),
        2 => queue().prop_map(Wish::Move),
        1 => Just(Wish::Kill),
        1 => Just(Wish::Pause),
        2 => Just(Wish::Resume),
        3 => (0..SIGNALS.len()).prop_map(Wish::Signal),
        2 => edit().prop_map(Wish::Replay),
        1 => Just(Wish::Discard),
    ]
}

fn setting() -> impl Strategy<Value = Setting> {
    let queue = 0..QUEUES.len();
    let kind = 0..KINDS.len();
    prop_oneof![
        (queue.clone(), any::<bool>()).prop_map(|(q, on)| Setting::PauseQueue(q, on)),
        (kind.clone(), any::<bool>()).prop_map(|(k, on)| Setting::PauseKind(k, on)),
        (kind, prop::option::of(0..3_u32)).prop_map(|(k, n)| Setting::Permits(k, n)),
        (queue.clone(), prop::option::of(1..6_u64)).prop_map(|(q, n)| Setting::MaxDepth(q, n)),
        (queue.clone(), prop::option::of(Just(80_000))).prop_map(|(q, ms)| Setting::MaxWait(q, ms)),
        (queue.clone(), prop_oneof![Just(0), Just(60_000)])
            .prop_map(|(q, ms)| Setting::Retention(q, ms)),
        (queue.clone(), prop::option::of(0..4_u64)).prop_map(|(q, n)| Setting::KeepMax(q, n)),
        (queue, any::<bool>()).prop_map(|(q, on)| Setting::Events(q, on)),
    ]
}

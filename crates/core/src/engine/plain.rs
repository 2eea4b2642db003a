//! What is plain: the one definition that every fast path of every store asks.
//!
//! The executor is the semantics. A store may carry out a *plain* request by itself, for example in a single
//! statement, because it concerns no other job, key or limit. Everything else goes through the executor.
//!
//! Each decision destructures its type without `..`. A new field therefore fails to compile here until it is decided
//! whether a request that uses it is still plain. A field that is only stored and returned is (`field: _`); a field with
//! an effect on anything else is not, and is compared with its default.

// tidy: long because what is plain is one definition, and its tests stand beside it.

use super::{Claim, Claimant, KindWant, Lease, Outcome, QueueWant, SessionId, SettleItem};
use crate::id::JobId;
use crate::model::{
    Counters, DependencyCounts, Due, Header, Job, KindSettings, Name, NewJob, Order, PartEdit,
    PartEdits, Parts, Policy, QueueSettings,
};
use crate::policy::Unique;
use bytes::Bytes;

impl NewJob {
    /// Whether the job is ready at once, and storing it reads and writes nothing of other jobs.
    ///
    /// In a queue whose settings are not [plain](QueueSettings::is_plain), the executor stores it all the same.
    pub const fn is_plain(&self) -> bool {
        let Self {
            // An id that exists already is found by the insert, derived or not.
            id: _,
            derived: _,
            queue: _,
            kind: _,
            priority: _,
            due,
            // Fair order uses it; such a queue is not plain.
            tenant: _,
            key,
            group,
            cost,
            unique,
            parent: _,
            after,
            joins,
            flow: _,
            tags: _,
            trace: _,
            parts,
            policy,
        } = self;
        let Parts { payload: _, checkpoint, blob, metadata } = parts;
        let Policy {
            max_attempts: _,
            backoff: _,
            timeout_ms: _,
            max_crashes: _,
            // Expiry has an index of its own.
            max_wait_ms,
            // Asked for when the job completes: see `completes_plainly`.
            retention: _,
        } = policy;
        matches!(due, Due::Now | Due::After(0))
            && key.is_none()
            && group.is_none()
            && *cost == 1
            && unique.is_none()
            && after.is_empty()
            && joins.is_none()
            && checkpoint.is_none()
            && blob.is_none()
            && metadata.is_none()
            && max_wait_ms.is_none()
    }

    /// Whether the job [completes plainly](Job::completes_plainly) once it is stored.
    pub const fn completes_plainly(&self) -> bool {
        let Self {
            id: _,
            derived: _,
            queue: _,
            kind: _,
            priority: _,
            due: _,
            tenant: _,
            key,
            group: _,
            cost: _,
            unique,
            parent: _,
            // Resolved before it starts.
            after: _,
            // The mark that it is followed is set when it is stored.
            joins: _,
            flow: _,
            tags: _,
            trace: _,
            parts: _,
            policy,
        } = self;
        frees_nothing(key.as_ref(), unique.as_ref(), policy)
    }
}

impl Job {
    /// Whether a completion without [further requests](SettleItem::plain) ends the lease, records the end, and does
    /// nothing else: no key to free, no line of a group to examine, no dependent to resolve, and no retention of its own.
    /// `by_group`: limits by group count the job, and jobs of its group may wait. The end of a job under a limit over all
    /// jobs concerns no other job: the next claim counts anew.
    pub const fn completes_plainly(&self, by_group: bool) -> bool {
        let Self {
            header,
            state: _,
            parts: _,
            started_at: _,
            running: _,
            // Derived from the rows of a job that completes plainly.
            transitions: _,
            changed_at: _,
            finished_at: _,
            finish: _,
            // A completion ends the job as completed, requested or not.
            cancel_requested: _,
            // A running job does not wait, and a completion keeps its signals.
            waits: _,
            continuation: _,
            dependencies,
            followed,
            // Names only; `by_group` says what matters about them.
            limits: _,
            progress: _,
            result: _,
            error: _,
            inputs: _,
            history: _,
            log: _,
        } = self;
        let Header {
            id: _,
            queue: _,
            kind: _,
            priority: _,
            run_at: _,
            created_at: _,
            tenant: _,
            key,
            group: _,
            cost: _,
            unique,
            parent: _,
            flow: _,
            tags: _,
            trace: _,
            policy,
            counters,
        } = header;
        // A completion resets the crashes, and reads of completed jobs take that into account.
        let Counters { attempt: _, failures: _, crashes: _ } = counters;
        // Open ones were resolved before it started. Jobs that it keeps are released by its end, and retention passes over a
        // job that is read.
        let DependencyCounts { total: _, open: _, result_bytes: _, kept, kept_from: _, readers } =
            dependencies;
        let resolves = *followed || *kept > 0 || *readers > 0;
        !by_group && !resolves && frees_nothing(key.as_ref(), unique.as_ref(), policy)
    }
}

/// Whether the end of a job frees no key, and its queue alone says how long to keep it.
const fn frees_nothing(key: Option<&String>, unique: Option<&Unique>, policy: &Policy) -> bool {
    let Policy {
        max_attempts: _,
        backoff: _,
        timeout_ms: _,
        max_crashes: _,
        // It has started, so it cannot expire any more.
        max_wait_ms: _,
        retention,
    } = policy;
    key.is_none() && unique.is_none() && retention.is_none()
}

impl QueueSettings {
    /// Whether plain jobs may be stored without reading these settings: no limit by group, no depth limit, no limit on
    /// waiting, and the usual order. `by_group` is whether a limit counts by group: others stop claims, not enqueues.
    pub fn is_plain(&self, by_group: impl FnMut(&Name) -> bool) -> bool {
        let Self {
            // Stops claims, not enqueues.
            paused: _,
            max_depth,
            order,
            // All three are about jobs that have ended.
            retention: _,
            dead_bytes_max: _,
            keep_max: _,
            max_wait_ms,
            limits,
            // Only the executor appends events.
            events,
            // Only the executor stores copies for them.
            subscriptions,
            // Stops claims, not enqueues.
            held_until: _,
        } = self;
        !limits.iter().any(by_group)
            && subscriptions.is_empty()
            && events.is_none()
            && max_depth.is_none()
            && max_wait_ms.is_none()
            && matches!(order, Order::Strict)
    }
}

impl QueueSettings {
    /// Whether claims from the queue and completions in it concern no settings but its gates: no limit, no hold, no turn to
    /// serve, and no index of waiting jobs by age.
    pub const fn starts_plainly(&self) -> bool {
        let Self {
            // A gate: a claim takes nothing behind it.
            paused: _,
            // A claim only lowers the depth.
            max_depth: _,
            order,
            // These are about jobs that have ended.
            retention: _,
            dead_bytes_max: _,
            keep_max: _,
            max_wait_ms,
            limits,
            // Only the executor appends events.
            events,
            // About new jobs.
            subscriptions: _,
            // Opens by time.
            held_until,
        } = self;
        limits.is_empty()
            && events.is_none()
            && max_wait_ms.is_none()
            && held_until.is_none()
            && !matches!(order, Order::Fair)
    }
}

impl KindSettings {
    /// Whether claims and completions of the kind concern no settings but its gate: no limit, and no permits to use up.
    pub const fn starts_plainly(&self) -> bool {
        let Self { paused: _, permits, limits } = self;
        permits.is_none() && limits.is_empty()
    }

    /// Whether plain jobs of the kind may be stored without reading these settings: no limit by group. `by_group` is
    /// whether a limit counts by group: others stop claims, not enqueues.
    pub fn is_plain(&self, by_group: impl FnMut(&Name) -> bool) -> bool {
        // Both gates stop claims, not enqueues.
        let Self { paused: _, permits: _, limits } = self;
        !limits.iter().any(by_group)
    }
}

/// A plain report: the job is done. The store must also know that the job
/// [completes plainly](Job::completes_plainly).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainReport<'a> {
    /// The job.
    pub id: JobId,
    /// The lease it was claimed under.
    pub lease: &'a Lease,
    /// The bytes of its result.
    pub result: Option<&'a Bytes>,
}

impl SettleItem {
    /// The report, if it is a completion that changes nothing else about the job and creates no others.
    pub fn plain(&self) -> Option<PlainReport<'_>> {
        let Self { id, lease, outcome, parts, priority, queue, follow_ups, hold, steps } = self;
        let PartEdits { payload, checkpoint, metadata, blob } = parts;
        let edits = [payload, checkpoint, metadata, blob];
        let keeps_parts = edits.into_iter().all(|edit| matches!(edit, PartEdit::Keep));
        if hold.is_some() || !steps.is_empty() {
            return None;
        }
        if !keeps_parts || priority.is_some() || queue.is_some() || !follow_ups.is_empty() {
            return None;
        }
        let result = match outcome {
            Outcome::Complete { result: None } => None,
            // An envelope takes more than a column of bytes.
            Outcome::Complete { result: Some(part) } if part.envelope().is_some() => return None,
            Outcome::Complete { result: Some(part) } => Some(&part.bytes),
            Outcome::Retry { error: _, delay_ms: _ }
            | Outcome::Snooze { delay_ms: _ }
            | Outcome::Fail { error: _ }
            | Outcome::Release
            | Outcome::Wait(_)
            | Outcome::WaitForJobs
            | Outcome::Cancel => return None,
        };
        Some(PlainReport { id: *id, lease, result })
    }
}

/// A plain claim: up to `limit` jobs of one queue for one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainClaim<'a> {
    /// The session to lease to.
    pub session: &'a SessionId,
    /// The worker's number for the claim.
    pub claim_no: u64,
    /// The queue to claim from.
    pub queue: &'a Name,
    /// The kinds to claim, none of them with a limit below `limit`; `None`: all of them.
    pub kinds: Option<&'a [KindWant]>,
    /// The maximum number of jobs.
    pub limit: u32,
}

impl Claim {
    /// The claim, if it is by a session, from one queue and of any priority, and `limit` is the only limit that can
    /// apply.
    pub fn plain(&self) -> Option<PlainClaim<'_>> {
        let Self { by, queues, kinds, limit, from_priority, parts: _ } = self;
        if from_priority.is_some() {
            return None;
        }
        let (session, claim_no) = match by {
            Claimant::Session { session, claim_no } => (session, *claim_no),
            // It opens a session and ends it with its last lease.
            Claimant::Alone { claim_id: _, worker: _, lease_ms: _ } => return None,
        };
        let [QueueWant { queue, limit: of_queue }] = queues.as_slice() else { return None };
        let kinds = kinds.as_deref();
        let reaches = |KindWant { kind: _, limit: of_kind }: &KindWant| of_kind >= limit;
        if of_queue < limit || !kinds.is_none_or(|kinds| kinds.iter().all(reaches)) {
            return None;
        }
        Some(PlainClaim { session, claim_no, queue, kinds, limit: *limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{ClaimId, Hold};
    use crate::model::{Envelope, JobError, Join, Part, Subscription};
    use crate::policy::{Backoff, Retention};
    use crate::time::Timestamp;

    fn new_job(change: fn(&mut NewJob)) -> NewJob {
        let mut job = NewJob::new("k");
        change(&mut job);
        job
    }

    #[test]
    fn new_jobs_are_plain_unless_they_wait_or_use_keys_expiry_or_more_parts() {
        let decide = |change| {
            let job = new_job(change);
            (job.is_plain(), job.completes_plainly())
        };
        let data: [fn(&mut NewJob); 13] = [
            |_| {},
            |job| job.id = Some(JobId::from_bytes([1; 16])),
            |job| job.queue = "other".into(),
            |job| job.priority = -7,
            |job| job.due = Due::After(0),
            |job| job.tenant = Some("t".into()),
            |job| job.parent = Some(JobId::from_bytes([1; 16])),
            |job| job.tags.push("tag".into()),
            |job| job.trace = Some("00".into()),
            |job| job.parts.payload = Some(Part::sealed(Envelope::PLAIN, "{}")),
            |job| job.policy.max_attempts = 1,
            |job| (job.policy.max_crashes, job.policy.timeout_ms) = (0, Some(1)),
            |job| job.policy.backoff = Backoff::Fixed { delay_ms: 1, jitter_ms: 0 },
        ];
        for (at, change) in data.into_iter().enumerate() {
            assert_eq!(decide(change), (true, true), "{at}");
        }
        assert_eq!(decide(|job| job.key = Some("k".into())), (false, false));
        assert_eq!(decide(|job| job.group = Some("g".into())), (false, true));
        assert_eq!(decide(|job| job.cost = 2), (false, true));
        let after = |job: &mut NewJob| job.after.push(JobId::from_bytes([1; 16]).into());
        assert_eq!(decide(after), (false, true));
        assert_eq!(decide(|job| job.joins = Some(Join::SELF)), (false, true));
        assert_eq!(decide(|job| job.flow = Some("f".into())), (true, true));
        assert_eq!(decide(|job| job.unique = Some(Unique::by("k"))), (false, false));
        assert_eq!(decide(|job| job.policy.max_wait_ms = Some(1)), (false, true));
        let own = |job: &mut NewJob| job.policy.retention = Some(Retention::default());
        assert_eq!(decide(own), (true, false));
        let later: [fn(&mut NewJob); 5] = [
            |job| job.due = Due::After(1),
            |job| job.due = Due::At(Timestamp::EPOCH),
            |job| job.parts.checkpoint = Some(Part::new("1")),
            |job| job.parts.blob = Some(Part::new("1")),
            |job| job.parts.metadata = Some(Part::new("1")),
        ];
        for (at, change) in later.into_iter().enumerate() {
            assert_eq!(decide(change), (false, true), "{at}");
        }
    }

    #[test]
    fn a_job_that_others_depend_on_does_not_complete_plainly() {
        let header = Header::new(JobId::from_bytes([1; 16]), "q", "k", Timestamp::EPOCH);
        let mut job = Job::new(header, crate::model::State::Running, Parts::default());
        assert!(job.completes_plainly(false) && !job.completes_plainly(true));
        job.followed = true;
        assert!(!job.completes_plainly(false));
        job.followed = false;
        job.dependencies.kept = 1;
        assert!(!job.completes_plainly(false), "it keeps others");
        job.dependencies.kept = 0;
        job.dependencies.readers = 1;
        assert!(!job.completes_plainly(false), "others keep it");
    }

    #[test]
    fn queues_are_plain_unless_they_limit_or_order_what_waits() {
        let with = |change: fn(&mut QueueSettings)| {
            let mut settings = QueueSettings::default();
            change(&mut settings);
            settings.is_plain(|name| &**name == "grouped")
        };
        assert!(with(|it| it.paused = true));
        assert!(with(|it| it.retention = Retention::uniform_ms(1)));
        assert!(with(|it| it.dead_bytes_max = Some(1)));
        assert!(with(|it| it.keep_max.dead = Some(1)));
        assert!(!with(|it| it.max_depth = Some(1)));
        assert!(!with(|it| it.max_wait_ms = Some(1)));
        assert!(with(|it| it.held_until = Some(Timestamp::MAX)));
        assert!(with(|it| it.limits.push("over all jobs".into())));
        assert!(!with(|it| it.limits.push("grouped".into())));
        assert!(!with(|it| it.events = Some(crate::model::EventBounds::default())));
        assert!(!with(|it| it.subscriptions.push(Subscription::new("s", "q"))));
        assert!(!with(|it| it.order = Order::Lifo));
        assert!(!with(|it| it.order = Order::Fair));
        assert!(!with(|it| it.order = Order::Ageing { quantum_ms: 1 }));
    }

    #[test]
    fn claims_concern_settings_that_count_order_or_list_what_waits() {
        let with = |change: fn(&mut QueueSettings)| {
            let mut settings = QueueSettings::default();
            change(&mut settings);
            settings.starts_plainly()
        };
        assert!(!with(|it| it.events = Some(crate::model::EventBounds::default())));
        assert!(with(|it| it.subscriptions.push(Subscription::new("s", "q"))));
        assert!(with(|it| it.paused = true) && with(|it| it.order = Order::Lifo));
        assert!(with(|it| it.max_depth = Some(1)) && with(|it| it.keep_max.dead = Some(1)));
        assert!(!with(|it| it.order = Order::Fair) && !with(|it| it.max_wait_ms = Some(1)));
        assert!(!with(|it| it.limits.push("l".into())));
        assert!(!with(|it| it.held_until = Some(Timestamp::EPOCH)));
        let kind = KindSettings { paused: true, ..KindSettings::default() };
        assert!(kind.starts_plainly());
        let permits = KindSettings { permits: Some(1), ..KindSettings::default() };
        let limits = KindSettings { limits: vec!["l".into()], ..KindSettings::default() };
        assert!(!permits.starts_plainly() && !limits.starts_plainly());
    }

    #[test]
    fn reports_are_plain_if_they_complete_and_do_nothing_else() {
        let report =
            |outcome| SettleItem::new(JobId::from_bytes([1; 16]), Lease::new("l"), outcome);
        let done = report(Outcome::DONE);
        assert_eq!(done.plain().map(|plain| (plain.id, plain.result)), Some((done.id, None)));
        let result = |part| report(Outcome::Complete { result: Some(part) });
        let bytes = result(Part::new("42"));
        assert_eq!(bytes.plain().and_then(|plain| plain.result), Some(&Bytes::from("42")));
        let codec = crate::model::Codec::Zstd;
        let sealed = Part::sealed(Envelope { codec, ..Envelope::PLAIN }, "42");
        let set = || PartEdit::Set(Part::new("1"));
        let error = JobError::new("oops", "oops");
        let others = [
            result(sealed),
            report(Outcome::DONE).checkpoint(set()),
            report(Outcome::DONE).metadata(set()),
            report(Outcome::DONE).blob(PartEdit::Unset),
            report(Outcome::DONE).priority(0),
            report(Outcome::DONE).follow_up(NewJob::new("k")),
            report(Outcome::DONE).hold(Hold::queue(1)),
            report(Outcome::Retry { error: error.clone(), delay_ms: None }),
            report(Outcome::Snooze { delay_ms: 0 }),
            report(Outcome::Fail { error }),
            report(Outcome::Release),
            report(Outcome::WAIT),
            report(Outcome::Cancel),
        ];
        for item in others {
            assert_eq!(item.plain(), None, "{item:?}");
        }
    }

    #[test]
    fn claims_are_plain_if_one_session_one_queue_and_one_limit_say_it_all() {
        let session = || Claimant::Session { session: SessionId::new("s"), claim_no: 3 };
        let claim = |by| Claim::new(by, "q", 5);
        let all = claim(session());
        let plain = all.plain().expect("is plain");
        assert_eq!((plain.claim_no, &**plain.queue, plain.limit), (3, "q", 5));
        assert_eq!((plain.session.as_str(), plain.kinds), ("s", None));
        let kinds = claim(session()).kind("a", 5).kind("b", u32::MAX);
        assert_eq!(kinds.plain().and_then(|plain| plain.kinds).map(<[_]>::len), Some(2));
        let alone =
            Claimant::Alone { claim_id: ClaimId::new("c"), worker: "w".into(), lease_ms: 1_000 };
        let mut limited = claim(session());
        limited.queues[0].limit = 5;
        assert!(limited.plain().is_some(), "the limit of the queue is that of the claim");
        limited.queues[0].limit = 4;
        let others = [
            claim(alone),
            limited,
            claim(session()).queue("other", 5),
            claim(session()).kind("a", 5).kind("b", 4),
            claim(session()).from_priority(0),
        ];
        for claim in others {
            assert_eq!(claim.plain(), None, "{claim:?}");
        }
    }
}

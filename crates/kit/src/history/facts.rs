//! Groups the history by job: from calls per client to actions and observations per job.

use super::record::{
    Admission, Call, Effect, History, Hold, Note, Receipt, Reply, Report, Start, Wanted, Wish,
};
use super::verdict::{Kind, Verdict};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use windlass_core::JobId;
use windlass_core::engine::Lease;
use windlass_core::model::{AttemptEnd, State};

/// When a call may have taken effect: at some time from its invocation to its reply, or at any later time if
/// it was never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    /// `u64::MAX` if there was no reply.
    pub(super) to: u64,
}

impl Span {
    /// The end of the run, when the snapshot was taken.
    pub(super) const END: Self = Self { from: u64::MAX, to: u64::MAX };

    /// Whether this ended before the other began. Nothing else implies an order.
    pub(super) const fn before(self, other: Self) -> bool {
        self.to < other.from
    }
}

/// What happened to a job that was enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Insertion {
    Stored(Option<State>),
    NotStored,
    Unclear,
}

/// The result of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Applied(State),
    Already(AttemptEnd, State),
    Refused,
    Unclear,
}

/// An action on a job, or an observation of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action<'a> {
    Enqueue(&'a Wanted, Insertion),
    /// Another enqueue was answered with this job.
    StandIn(Option<State>),
    /// Another enqueue replaced it.
    Replaced(JobId),
    Start(&'a Start, &'a str),
    Report(&'a Report, Outcome),
    /// An update, and whether its lease was accepted.
    Update(&'a Lease, Option<bool>),
    Change(Wish, Effect),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fact<'a> {
    pub(super) span: Span,
    client: u32,
    op: u64,
    pub(super) action: Action<'a>,
}

impl fmt::Display for Fact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}..", self.span.from)?;
        match self.span.to {
            u64::MAX => write!(f, "no answer]")?,
            to => write!(f, "{to}]")?,
        }
        write!(f, " client {} op {}: ", self.client, self.op)?;
        match &self.action {
            Action::Enqueue(wanted, stored) => {
                write!(f, "enqueue {}", wanted.id)?;
                if let Some(key) = &wanted.key {
                    write!(f, " of key {key:?}")?;
                }
                write!(f, " → {stored:?}")
            }
            Action::StandIn(state) => write!(f, "another enqueue was answered with it, {state:?}"),
            Action::Replaced(by) => write!(f, "replaced by {by}"),
            Action::Start(start, claim) => {
                let Start { id, lease, attempt, .. } = start;
                write!(f, "claim {claim} → {id}, attempt {attempt}, {lease:?}")
            }
            Action::Report(report, outcome) => {
                let Report { id, lease, end, .. } = report;
                write!(f, "settle {id} as {end:?} under {lease:?} → {outcome:?}")
            }
            Action::Update(lease, Some(true)) => write!(f, "update under {lease:?} → accepted"),
            Action::Update(lease, Some(false)) => write!(f, "update under {lease:?} → refused"),
            Action::Update(lease, None) => write!(f, "update under {lease:?} → unclear"),
            Action::Change(wish, effect) => write!(f, "{wish:?} → {effect:?}"),
        }
    }
}

/// All facts by job, and those that concern no particular job.
#[derive(Debug, Default)]
pub(super) struct Facts<'a> {
    pub(super) jobs: HashMap<JobId, Vec<Fact<'a>>>,
    /// An enqueue with an unknown outcome may have replaced, and so cancelled, any job.
    pub(super) unclear_replacement: bool,
    /// Names of claims with an unknown outcome: each may have started any job.
    pub(super) unclear_claims: HashSet<&'a str>,
    /// Jobs that joined one that waits for them.
    pub(super) joined: Vec<Joined<'a>>,
    /// Leases under which reports with different follow-ups were sent.
    contested: HashSet<&'a Lease>,
}

/// A job that joined one that waits for it, and the report that certainly created it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined<'a> {
    pub(super) child: JobId,
    pub(super) waiting: JobId,
    pub(super) report: &'a Report,
}

impl<'a> Facts<'a> {
    /// The jobs that a job runs after, as it was enqueued.
    pub(super) fn after(&self, id: JobId) -> &'a [JobId] {
        let facts = self.jobs.get(&id).into_iter().flatten();
        let mut wanted = facts.filter_map(|fact| match fact.action {
            Action::Enqueue(wanted, _) => Some(wanted),
            _ => None,
        });
        wanted.next().map_or(&[], |wanted| wanted.after.as_slice())
    }

    /// Whether a job runs after others, and so may end because of them.
    pub(super) fn is_dependent(&self, id: JobId) -> bool {
        !self.after(id).is_empty()
    }
}

/// A call with its reply.
#[derive(Clone, Copy)]
struct Op<'a> {
    span: Span,
    client: u32,
    op: u64,
    call: &'a Call,
    reply: Option<&'a Reply>,
}

/// Groups the history by job; adds contradictions in it and the counts of calls to the verdict.
pub(super) fn gather<'a>(history: &'a History, verdict: &mut Verdict) -> Facts<'a> {
    let mut ops: Vec<Op<'a>> = Vec::with_capacity(history.events.len() / 2 + 1);
    let mut index = HashMap::with_capacity(history.events.len() / 2 + 1);
    let mut bad = |client: u32, op: u64, what: &str| {
        verdict.blame(
            Kind::BadRecord,
            &[],
            || format!("client {client} op {op}: {what}"),
            Vec::new,
        );
    };
    for event in &history.events {
        let Note::Invoked(call) = &event.note else { continue };
        match index.entry((event.client, event.op)) {
            Entry::Occupied(_) => bad(event.client, event.op, "invoked twice"),
            Entry::Vacant(vacant) => {
                vacant.insert(ops.len());
                let span = Span { from: event.at, to: u64::MAX };
                ops.push(Op { span, client: event.client, op: event.op, call, reply: None });
            }
        }
    }
    for event in &history.events {
        let Note::Answered(reply) = &event.note else { continue };
        let Some(op) = index.get(&(event.client, event.op)).map(|at| &mut ops[*at]) else {
            bad(event.client, event.op, "answered, but never invoked");
            continue;
        };
        if op.reply.is_some() || event.at < op.span.from || !fits(op.call, reply) {
            bad(event.client, event.op, "answered twice, before its invocation, or not fitting it");
            continue;
        }
        op.span.to = event.at;
        op.reply = Some(reply);
    }
    verdict.counts.operations = ops.len() as u64;
    verdict.counts.unanswered = ops.iter().filter(|op| op.reply.is_none()).count() as u64;
    let mut facts = Facts { contested: contested(&ops), ..Facts::default() };
    for op in &ops {
        facts.add(*op);
    }
    for of_job in facts.jobs.values_mut() {
        of_job.sort_by_key(|fact| (fact.span.from, fact.span.to));
    }
    facts
}

/// Leases under which not all reports with the same end had the same follow-ups.
fn contested<'a>(ops: &[Op<'a>]) -> HashSet<&'a Lease> {
    let reports = || {
        ops.iter().flat_map(|op| match op.call {
            Call::Settle { items, .. } => items.as_slice(),
            _ => &[],
        })
    };
    let with = reports().filter(|report| !report.follow_ups.is_empty());
    let first: HashMap<&Lease, &Report> = with.map(|report| (&report.lease, report)).collect();
    if first.is_empty() {
        return HashSet::new();
    }
    let differs = |report: &&Report| {
        first
            .get(&report.lease)
            .filter(|first| first.is_recorded_as(report.end) || report.is_recorded_as(first.end))
            .is_some_and(|first| first.follow_ups != report.follow_ups)
    };
    reports().filter(differs).map(|report| &report.lease).collect()
}

/// Whether this reply can belong to this call: the right type, with one result per item.
fn fits(call: &Call, reply: &Reply) -> bool {
    match (call, reply) {
        (_, Reply::Refused(_)) | (Call::Claim(_), Reply::Claimed(_)) => true,
        (Call::Enqueue(jobs), Reply::Enqueued(answers)) => jobs.len() == answers.len(),
        (Call::Settle { items, claim }, Reply::Settled { items: answers, claimed }) => {
            items.len() == answers.len() && (claim.is_some() || claimed.is_empty())
        }
        (Call::Update(items), Reply::Updated(answers)) => items.len() == answers.len(),
        (Call::Change(items), Reply::Changed(answers)) => items.len() == answers.len(),
        _ => false,
    }
}

impl<'a> Facts<'a> {
    fn add(&mut self, op: Op<'a>) {
        match op.call {
            Call::Enqueue(jobs) => {
                for (at, wanted) in jobs.iter().enumerate() {
                    let answer = match op.reply {
                        Some(Reply::Enqueued(answers)) => answers[at],
                        Some(_) => Admission::Refused,
                        None => Admission::Unclear,
                    };
                    self.enqueued(op, wanted, answer);
                }
            }
            Call::Claim(name) => self.claimed(op, name),
            Call::Settle { items, claim } => {
                for (at, report) in items.iter().enumerate() {
                    let receipt = match op.reply {
                        Some(Reply::Settled { items, .. }) => Some(&items[at]),
                        _ => None,
                    };
                    self.settled(op, report, receipt);
                }
                if let Some(name) = claim {
                    self.claimed(op, name);
                }
            }
            Call::Update(items) => {
                for (at, Hold { id, lease }) in items.iter().enumerate() {
                    let accepted = match op.reply {
                        Some(Reply::Updated(answers)) => answers[at],
                        Some(_) => Some(false),
                        None => None,
                    };
                    self.put(op, *id, Action::Update(lease, accepted));
                }
            }
            Call::Change(items) => {
                for (at, (id, wish)) in items.iter().enumerate() {
                    let effect = match op.reply {
                        Some(Reply::Changed(answers)) => answers[at],
                        Some(_) => Effect::Refused,
                        None => Effect::Unclear,
                    };
                    self.put(op, *id, Action::Change(*wish, effect));
                }
            }
        }
    }

    fn put(&mut self, op: Op<'a>, job: JobId, action: Action<'a>) {
        let fact = Fact { span: op.span, client: op.client, op: op.op, action };
        self.jobs.entry(job).or_default().push(fact);
    }

    fn enqueued(&mut self, op: Op<'a>, wanted: &'a Wanted, answer: Admission) {
        let stored = match answer {
            Admission::Stored { state, replaced } => {
                if let Some(old) = replaced {
                    self.put(op, old, Action::Replaced(wanted.id));
                }
                Insertion::Stored(Some(state))
            }
            Admission::StoodIn { by, state } => {
                self.put(op, by, Action::StandIn(state));
                Insertion::NotStored
            }
            Admission::Refused => Insertion::NotStored,
            Admission::Unclear => Insertion::Unclear,
        };
        self.unclear_replacement |= stored == Insertion::Unclear && wanted.replaces();
        self.put(op, wanted.id, Action::Enqueue(wanted, stored));
    }

    fn claimed(&mut self, op: Op<'a>, name: &'a str) {
        let starts = match op.reply {
            Some(Reply::Claimed(starts) | Reply::Settled { claimed: starts, .. }) => starts,
            Some(_) => return,
            None => {
                self.unclear_claims.insert(name);
                return;
            }
        };
        for start in starts {
            self.put(op, start.id, Action::Start(start, name));
        }
    }

    fn settled(&mut self, op: Op<'a>, report: &'a Report, receipt: Option<&'a Receipt>) {
        let outcome = match (receipt, op.reply) {
            (Some(Receipt::Applied { state, .. }), _) => Outcome::Applied(*state),
            (Some(Receipt::Already { end, state }), _) => Outcome::Already(*end, *state),
            (Some(Receipt::Refused(_)), _) | (None, Some(_)) => Outcome::Refused,
            (Some(Receipt::Unclear), _) | (None, None) => Outcome::Unclear,
        };
        self.put(op, report.id, Action::Report(report, outcome));
        for (at, wanted) in report.follow_ups.iter().enumerate() {
            let answer = match receipt {
                Some(Receipt::Applied { follow_ups, .. }) => follow_ups.get(at).copied(),
                _ => None,
            };
            // Atomic with the report: if the report took effect, its follow-ups exist. (A unique one may have
            // been answered with another job.) A job that is cancelled instead of waiting for its children has none.
            let carried_out = match outcome {
                Outcome::Applied(state) => !(report.waits_for_children() && state.is_terminal()),
                // By an earlier attempt to send this report. (A release may have been made by the store
                // itself.)
                Outcome::Already(end, _) => {
                    report.is_recorded_as(end)
                        && end != AttemptEnd::Release
                        && !report.waits_for_children()
                        && !self.contested.contains(&report.lease)
                }
                Outcome::Refused | Outcome::Unclear => false,
            };
            if let Some(waiting) = wanted.joins.filter(|_| carried_out) {
                self.joined.push(Joined { child: wanted.id, waiting, report });
            }
            match answer {
                Some(answer) => self.enqueued(op, wanted, answer),
                None if carried_out && wanted.unique.is_none() => {
                    self.put(op, wanted.id, Action::Enqueue(wanted, Insertion::Stored(None)));
                }
                None if outcome == Outcome::Refused => {
                    self.enqueued(op, wanted, Admission::Refused);
                }
                None => self.enqueued(op, wanted, Admission::Unclear),
            }
        }
    }
}

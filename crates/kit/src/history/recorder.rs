//! A layer that records all calls, so that any client or worker contributes to a history.

use super::record::{
    Admission, Call, Effect, Event, History, Hold, Note, Receipt, Reply, Report, Start, Wanted,
    Wish,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use windlass_core::engine::{
    Admin, Answer, Change, ChangeItem, Changed, Claim, Claimant, Claimed, Disposition, Engine,
    Enqueue, Enqueued, Item, Jobs, Lease, Maintain, Settle, SettleItem, SettleReply, Settled,
    Stamped, Update, Updated,
};
use windlass_core::model::{NewJob, State};
use windlass_core::sync::lock;
use windlass_core::{Error, JobId, Result, Timestamp};

/// A sink for events.
pub trait Journal: Send + Sync {
    /// Writes one event, with a timestamp taken now. It must be durable before this returns (written out, if
    /// the process may be killed): the checker relies on it.
    fn note(&self, client: u32, op: u64, note: Note);
}

/// An in-memory journal: its timestamps are the positions of the events.
#[derive(Debug, Default)]
pub struct MemoryJournal(Mutex<Vec<Event>>);

impl MemoryJournal {
    /// The events so far.
    pub fn history(&self) -> History {
        History { events: lock(&self.0).clone() }
    }
}

impl Journal for MemoryJournal {
    fn note(&self, client: u32, op: u64, note: Note) {
        let mut events = lock(&self.0);
        let at = events.len() as u64;
        events.push(Event { at, client, op, note });
    }
}

/// An engine as seen by one client, with every call about jobs and leases recorded.
///
/// Jobs must be enqueued with ids chosen by the producer, or the call panics, because a job without a reply
/// must be identifiable. The same holds for follow-ups, unless this client claimed the lease they are
/// reported under: then it derives their ids as the engine does. A call that fails with an unknown outcome is
/// recorded as never answered.
pub struct Recorded {
    inner: Arc<dyn Engine>,
    journal: Arc<dyn Journal>,
    client: u32,
    ops: AtomicU64,
    /// Attempt number and start of the known leases, from which ids of follow-ups are derived.
    starts: Mutex<HashMap<Lease, (u32, Timestamp)>>,
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorded(client {})", self.client)
    }
}

impl Recorded {
    /// `engine` as seen by `client`. A restarted worker is another client.
    pub fn new(engine: Arc<dyn Engine>, journal: Arc<dyn Journal>, client: u32) -> Self {
        let (ops, starts) = (AtomicU64::new(0), Mutex::default());
        Self { inner: engine, journal, client, ops, starts }
    }

    fn invoked(&self, call: Call) -> u64 {
        let op = self.ops.fetch_add(1, Ordering::Relaxed);
        self.journal.note(self.client, op, Note::Invoked(call));
        op
    }

    fn answered<T>(&self, op: u64, answer: &Result<Stamped<T>>, reply: impl FnOnce(&T) -> Reply) {
        let reply = match answer {
            Ok(answer) => reply(&answer.value),
            Err(error) if unclear(error) => return,
            Err(error) => Reply::Refused(error.code().to_owned()),
        };
        self.journal.note(self.client, op, Note::Answered(reply));
    }

    fn started(&self, claimed: &Claimed) -> Vec<Start> {
        let mut starts = lock(&self.starts);
        let jobs = claimed.jobs.iter().map(|job| {
            let (id, attempt) = (job.header.id, job.header.counters.attempt);
            starts.insert(job.lease.clone(), (attempt, job.started_at));
            let started_at = Some(job.started_at);
            Start { id, lease: job.lease.clone(), attempt, started_at }
        });
        jobs.collect()
    }

    fn report(&self, item: &SettleItem) -> Report {
        let starts = lock(&self.starts);
        let start = starts.get(&item.lease).copied();
        let wanted = item.follow_ups.iter().enumerate().map(|(index, job)| {
            let derive = |(attempt, at)| JobId::follow_up(item.id, attempt, index, at);
            let id = job.id.or_else(|| start.map(derive));
            let id = id.expect("a follow-up has an id, or a lease this client was given");
            let wanted = Wanted::of(id, job);
            // Without another job, it joins the one that reports.
            let joins = job.joins.as_ref().map(|join| join.to.unwrap_or(item.id));
            joins.into_iter().fold(wanted, Wanted::joins)
        });
        // A retry of a job that must not run again is recorded as a failure; see `Report::is_recorded_as`.
        let (lease, end) = (item.lease.clone(), item.outcome.end(State::Available));
        Report { id: item.id, lease, end, follow_ups: wanted.collect() }
    }
}

/// Whether the outcome of a call with this error is unknown.
const fn unclear(error: &Error) -> bool {
    matches!(error, Error::Unavailable { .. } | Error::Corrupt { .. })
}

fn wanted(job: &NewJob) -> Wanted {
    let id = job.id.expect("a recorded client gives its jobs ids");
    Wanted::of(id, job)
}

fn name(claim: &Claim) -> String {
    match &claim.by {
        Claimant::Session { session, claim_no } => format!("{session}#{claim_no}"),
        Claimant::Alone { claim_id, .. } => claim_id.to_string(),
        other => panic!("histories do not know {other:?}"),
    }
}

fn admission(id: JobId, answer: &Item<Enqueued>) -> Admission {
    match answer {
        Ok(Enqueued { disposition: Disposition::Replaced(old), state: Some(state), .. }) => {
            Admission::Stored { state: *state, replaced: Some(*old) }
        }
        // It will be stored, and has to wait until then.
        Ok(Enqueued { disposition: Disposition::Deferred, .. }) => {
            Admission::Stored { state: State::Scheduled, replaced: None }
        }
        Ok(Enqueued { id: there, state: Some(state), .. }) if *there == id => {
            Admission::Stored { state: *state, replaced: None }
        }
        Ok(Enqueued { id: by, state, .. }) => Admission::StoodIn { by: *by, state: *state },
        Err(error) if unclear(error) => Admission::Unclear,
        Err(_) => Admission::Refused,
    }
}

fn receipt(answer: &Item<Settled>, wanted: &[Wanted]) -> Receipt {
    match answer {
        Ok(Settled { already: true, end, state, .. }) => {
            Receipt::Already { end: *end, state: *state }
        }
        Ok(Settled { state, follow_ups, .. }) => {
            let pairs = wanted.iter().zip(follow_ups);
            let admitted =
                |(wanted, job): (&Wanted, &Enqueued)| admission(wanted.id, &Ok(job.clone()));
            let follow_ups = pairs.map(admitted).collect();
            Receipt::Applied { state: *state, follow_ups }
        }
        Err(error) if unclear(error) => Receipt::Unclear,
        Err(error) => Receipt::Refused(error.code().to_owned()),
    }
}

fn wish(item: &ChangeItem) -> Wish {
    match &item.change {
        Change::Cancel => Wish::Cancel,
        Change::Replay(_) => Wish::Replay,
        Change::Discard => item.if_state.map_or(Wish::Discard, Wish::DiscardIf),
        Change::Pause | Change::Resume | Change::Reschedule(_) | Change::Move(_) => Wish::Move,
        _ => Wish::Other,
    }
}

const fn effect(answer: &Item<Changed>) -> Effect {
    match answer {
        Ok(changed) => Effect::Done(changed.state),
        Err(error) if unclear(error) => Effect::Unclear,
        Err(_) => Effect::Refused,
    }
}

impl Jobs for Recorded {
    windlass_core::pass_on!(inner: capabilities);

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(async move {
            let jobs: Vec<Wanted> = request.jobs.iter().map(wanted).collect();
            let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
            let op = self.invoked(Call::Enqueue(jobs));
            let answer = self.inner.enqueue(request).await;
            self.answered(op, &answer, |items| {
                let pairs = ids.iter().zip(items);
                Reply::Enqueued(pairs.map(|(id, item)| admission(*id, item)).collect())
            });
            answer
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            let op = self.invoked(Call::Claim(name(&request)));
            let answer = self.inner.claim(request).await;
            self.answered(op, &answer, |claimed| Reply::Claimed(self.started(claimed)));
            answer
        })
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        Box::pin(async move {
            let items: Vec<Report> = request.items.iter().map(|item| self.report(item)).collect();
            let claim = request.claim.as_ref().map(name);
            let op = self.invoked(Call::Settle { items: items.clone(), claim });
            let answer = self.inner.settle(request).await;
            self.answered(op, &answer, |reply| {
                let pairs = items.iter().zip(&reply.items);
                let claimed = reply.claimed.as_ref().and_then(|claimed| claimed.as_ref().ok());
                Reply::Settled {
                    items: pairs.map(|(item, got)| receipt(got, &item.follow_ups)).collect(),
                    claimed: claimed.map(|claimed| self.started(claimed)).unwrap_or_default(),
                }
            });
            answer
        })
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        Box::pin(async move {
            let holds = request.items.iter();
            let holds = holds.map(|item| Hold { id: item.id, lease: item.lease.clone() });
            let op = self.invoked(Call::Update(holds.collect()));
            let answer = self.inner.update(request).await;
            let accepted = |item: &Item<Updated>| match item {
                Ok(_) => Some(true),
                Err(error) if unclear(error) => None,
                Err(_) => Some(false),
            };
            self.answered(op, &answer, |items| {
                Reply::Updated(items.iter().map(accepted).collect())
            });
            answer
        })
    }

    windlass_core::pass_on!(inner: open_session, heartbeat, close_session, take, wait);
}

impl Admin for Recorded {
    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        Box::pin(async move {
            let wishes = batch.iter().map(|item| (item.id, wish(item))).collect();
            let op = self.invoked(Call::Change(wishes));
            let answer = self.inner.change(batch).await;
            self.answered(op, &answer, |items| Reply::Changed(items.iter().map(effect).collect()));
            answer
        })
    }

    windlass_core::pass_on!(inner: get, list, stats, limits, why, sessions, configure, settings, removed, events, records, import, health);
}

impl Maintain for Recorded {
    windlass_core::pass_on!(inner: maintain, check);
}

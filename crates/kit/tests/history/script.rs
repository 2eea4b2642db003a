//! Histories written by hand, one call per line.

use std::ops::{Range, RangeFrom};
use windlass_core::JobId;
use windlass_core::engine::Lease;
use windlass_core::model::{AttemptEnd, State};
use windlass_core::random::Seeded;
use windlass_kit::START;
use windlass_kit::history::{
    Admission, Call, Effect, Event, History, Hold, Kind, Note, Options, Receipt, Reply, Report,
    Snapshot, Start, Verdict, Wanted, Wish, check,
};

/// When a call was invoked and answered: `1..2`, or `1..` if it never was.
pub(crate) struct When(u64, Option<u64>);

impl From<Range<u64>> for When {
    fn from(range: Range<u64>) -> Self {
        Self(range.start, Some(range.end))
    }
}

impl From<RangeFrom<u64>> for When {
    fn from(range: RangeFrom<u64>) -> Self {
        Self(range.start, None)
    }
}

/// The `n`-th job.
pub(crate) fn job(n: u64) -> JobId {
    JobId::new(START, &Seeded::new(n))
}

pub(crate) fn applied(state: State) -> Receipt {
    Receipt::Applied { state, follow_ups: Vec::new() }
}

pub(crate) fn lease_lost() -> Receipt {
    Receipt::Refused("lease_lost".into())
}

/// A report that the job is done, and what a sound store answers.
pub(crate) const DONE: AttemptEnd = AttemptEnd::Complete;

/// A history in the making. Each call is another operation of one client.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) events: Vec<Event>,
    pub(crate) end: Snapshot,
    pub(crate) options: Options,
    ops: u64,
}

impl Script {
    pub(crate) fn call(&mut self, when: impl Into<When>, call: Call, reply: Reply) -> &mut Self {
        let When(from, to) = when.into();
        self.ops += 1;
        let event = |at, note| Event { at, client: 1, op: self.ops, note };
        self.events.push(event(from, Note::Invoked(call)));
        if let Some(to) = to {
            self.events.push(event(to, Note::Answered(reply)));
        }
        self
    }

    pub(crate) fn enqueue(&mut self, when: impl Into<When>, wanted: Wanted) -> &mut Self {
        let stored = Admission::Stored { state: State::Available, replaced: None };
        self.enqueue_as(when, wanted, stored)
    }

    pub(crate) fn enqueue_as(
        &mut self,
        when: impl Into<When>,
        wanted: Wanted,
        admission: Admission,
    ) -> &mut Self {
        self.call(when, Call::Enqueue(vec![wanted]), Reply::Enqueued(vec![admission]))
    }

    /// A claim of its own name that gets one job.
    pub(crate) fn claim(
        &mut self,
        when: impl Into<When>,
        id: JobId,
        lease: &str,
        attempt: u32,
    ) -> &mut Self {
        let name = format!("claim {}", self.ops);
        self.claim_as(when, &name, id, lease, attempt)
    }

    pub(crate) fn claim_as(
        &mut self,
        when: impl Into<When>,
        name: &str,
        id: JobId,
        lease: &str,
        attempt: u32,
    ) -> &mut Self {
        let start = Start { id, lease: Lease::new(lease), attempt, started_at: None };
        self.call(when, Call::Claim(name.into()), Reply::Claimed(vec![start]))
    }

    pub(crate) fn settle(
        &mut self,
        when: impl Into<When>,
        id: JobId,
        lease: &str,
        end: AttemptEnd,
        receipt: Receipt,
    ) -> &mut Self {
        let report = Report { id, lease: Lease::new(lease), end, follow_ups: Vec::new() };
        let reply = Reply::Settled { items: vec![receipt], claimed: Vec::new() };
        self.call(when, Call::Settle { items: vec![report], claim: None }, reply)
    }

    pub(crate) fn done(&mut self, when: impl Into<When>, id: JobId, lease: &str) -> &mut Self {
        self.settle(when, id, lease, DONE, applied(State::Completed))
    }

    /// An update that is accepted under its lease.
    pub(crate) fn update(&mut self, when: impl Into<When>, id: JobId, lease: &str) -> &mut Self {
        let hold = Hold { id, lease: Lease::new(lease) };
        self.call(when, Call::Update(vec![hold]), Reply::Updated(vec![Some(true)]))
    }

    pub(crate) fn change(
        &mut self,
        when: impl Into<When>,
        id: JobId,
        wish: Wish,
        state: Option<State>,
    ) -> &mut Self {
        let reply = Reply::Changed(vec![Effect::Done(state)]);
        self.call(when, Call::Change(vec![(id, wish)]), reply)
    }

    pub(crate) fn ends(&mut self, id: JobId, state: State) -> &mut Self {
        self.end.jobs.insert(id, state);
        self
    }

    pub(crate) fn with(&mut self, options: Options) -> &mut Self {
        self.options = options;
        self
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let history: History = self.events.iter().cloned().collect();
        check(&history, &self.end, &self.options)
    }

    /// Asserts that nothing is wrong with it.
    #[track_caller]
    pub(crate) fn is_fine(&self) -> Verdict {
        let verdict = self.verdict();
        verdict.assert_clean();
        verdict
    }

    /// Asserts that exactly these promises are broken, once each, with the story of the job.
    #[track_caller]
    pub(crate) fn breaks(&self, kinds: &[Kind]) -> Verdict {
        let verdict = self.verdict();
        let broken: Vec<Kind> = verdict.violations.iter().map(|violation| violation.kind).collect();
        assert_eq!(broken, kinds, "{verdict}");
        let reported = |kind: Kind| kind == Kind::BadRecord || kind == Kind::Phantom;
        let silent =
            verdict.violations.iter().find(|known| known.story.is_empty() && !reported(known.kind));
        assert!(silent.is_none(), "without a story: {silent:?}");
        verdict
    }
}

/// A script of one job, enqueued at `1..2` and started at `3..4` under `L1`.
pub(crate) fn started() -> Script {
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1))).claim(3..4, job(1), "L1", 1);
    script
}

/// A job of the key `k`.
pub(crate) fn keyed(n: u64) -> Wanted {
    Wanted::plain(job(n)).key("k")
}

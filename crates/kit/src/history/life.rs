//! What is known about one job: when it was stored, under which leases it ran, how it ended.

use super::checker::Options;
use super::facts::{Action, Fact, Facts, Insertion, Outcome, Span};
use super::keys::Turn;
use super::record::{Effect, Wish};
use std::collections::HashMap;
use windlass_core::JobId;
use windlass_core::engine::Lease;
use windlass_core::model::{AttemptEnd, State};

/// One lease of a job, and when it was certainly the current one.
#[derive(Debug)]
pub(super) struct Term<'a> {
    pub(super) lease: &'a Lease,
    /// `None` if no claim returned it.
    pub(super) attempt: Option<u32>,
    /// It was current at some time not after this.
    pub(super) first: u64,
    /// It was current at some time not before this.
    pub(super) last: u64,
    /// Reports that were applied under it.
    pub(super) applied: Vec<Span>,
    /// The claims that returned it.
    pub(super) claims: Vec<&'a str>,
}

/// What is known about one job.
pub(super) struct Life<'a> {
    pub(super) id: JobId,
    pub(super) facts: &'a [Fact<'a>],
    pub(super) last: Option<State>,
    /// It was not stored before this; `None` if no call can have stored it.
    pub(super) wanted_from: Option<u64>,
    /// It was stored by this time at the latest.
    pub(super) acknowledged: Option<u64>,
    pub(super) terms: Vec<Term<'a>>,
    /// Index of a lease in `terms`, because a job may have been started very often.
    by_lease: HashMap<&'a Lease, usize>,
    /// Final states that were reported to a client.
    pub(super) ends: Vec<(Span, State)>,
    pub(super) replays: Vec<Span>,
    /// It may have been created more than once.
    pub(super) reborn: bool,
    /// It had not ended at some time not before this: the latest such observation.
    seen_alive: u64,
    /// Its last life did not begin before this: the latest replay that certainly took effect.
    last_life: u64,
}

impl<'a> Life<'a> {
    pub(super) fn read(
        id: JobId,
        facts: &'a [Fact<'a>],
        last: Option<State>,
        options: &Options,
    ) -> Self {
        let (mut wanted_from, mut acknowledged) = (None::<u64>, None::<u64>);
        let mut life = Self {
            id,
            facts,
            last,
            wanted_from: None,
            acknowledged: None,
            terms: Vec::new(),
            by_lease: HashMap::new(),
            ends: Vec::new(),
            replays: Vec::new(),
            reborn: false,
            seen_alive: 0,
            last_life: 0,
        };
        for fact in facts {
            let Fact { span, action, .. } = *fact;
            let mut reported = None;
            match action {
                Action::Enqueue(_, Insertion::NotStored) => {}
                Action::Enqueue(_, stored) => {
                    wanted_from = Some(wanted_from.map_or(span.from, |from| from.min(span.from)));
                    if let Insertion::Stored(state) = stored {
                        acknowledged = Some(acknowledged.map_or(span.to, |to| to.min(span.to)));
                        reported = state;
                    }
                }
                Action::StandIn(state) => {
                    if state.is_some() {
                        acknowledged = Some(acknowledged.map_or(span.to, |to| to.min(span.to)));
                    }
                    reported = state;
                }
                Action::Report(_, Outcome::Applied(state) | Outcome::Already(_, state)) => {
                    reported = Some(state);
                }
                Action::Change(wish, effect) => {
                    if wish == Wish::Replay && effect != Effect::Refused {
                        life.replays.push(span);
                    }
                    if let Effect::Done(state) = effect {
                        reported = state;
                        if wish == Wish::Replay {
                            life.last_life = life.last_life.max(span.from);
                        }
                    }
                }
                _ => {}
            }
            match reported {
                Some(state) if state.is_terminal() => life.ends.push((span, state)),
                Some(_) => life.seen_alive = life.seen_alive.max(span.from),
                None => {}
            }
            life.sight(fact);
        }
        (life.wanted_from, life.acknowledged) = (wanted_from, acknowledged);
        life.reborn = life.may_be_reborn(options);
        if life.reborn {
            life.replays.push(Span { from: 0, to: u64::MAX });
        }
        life
    }

    /// Records that a lease was observed to be the current one.
    fn sight(&mut self, fact: &Fact<'a>) {
        let (lease, start, applied) = match fact.action {
            Action::Start(start, claim) => (&start.lease, Some((start.attempt, claim)), false),
            Action::Report(report, Outcome::Applied(_)) => (&report.lease, None, true),
            Action::Update(lease, Some(true)) => (lease, None, false),
            _ => return,
        };
        let at = *self.by_lease.entry(lease).or_insert(self.terms.len());
        if at == self.terms.len() {
            let (first, last) = (u64::MAX, 0);
            let (applied, claims) = (Vec::new(), Vec::new());
            self.terms.push(Term { lease, attempt: None, first, last, applied, claims });
        }
        if !applied {
            self.seen_alive = self.seen_alive.max(fact.span.from);
        }
        let term = &mut self.terms[at];
        term.first = term.first.min(fact.span.to);
        term.last = term.last.max(fact.span.from);
        if let Some((attempt, claim)) = start {
            term.attempt = Some(attempt);
            if !term.claims.contains(&claim) {
                term.claims.push(claim);
            }
        }
        if applied {
            term.applied.push(fact.span);
        }
    }

    /// Whether an enqueue may have taken effect after the job had been removed: the job was then created
    /// again, with new attempt numbers.
    fn may_be_reborn(&self, options: &Options) -> bool {
        let births: Vec<Span> =
            self.spans(|action| matches!(action, Action::Enqueue(_, stored) if *stored != Insertion::NotStored));
        let late = |gone: Span| births.iter().any(|birth| !birth.before(gone));
        births.len() > 1 && (options.retention || self.discards().into_iter().any(late))
    }

    pub(super) fn discards(&self) -> Vec<Span> {
        self.spans(|action| match action {
            Action::Change(Wish::Discard | Wish::DiscardIf(_), effect) => {
                *effect != Effect::Refused
            }
            _ => false,
        })
    }

    /// Whether it may have been discarded since it was last observed as not ended.
    pub(super) fn may_be_discarded(&self) -> bool {
        self.reborn || self.discards().iter().any(|discard| discard.to >= self.seen_alive)
    }

    /// Whether its last life may have ended: an end was, or may have been, reported or observed since it was
    /// last observed as not ended; or its leases were lost and it was either cancelled or exceeded its
    /// allowed crashes.
    pub(super) fn may_have_ended(&self, facts: &Facts<'_>) -> bool {
        let ended = |fact: &Fact<'_>| match fact.action {
            Action::Report(_, Outcome::Unclear) | Action::Replaced(_) => true,
            Action::Change(Wish::Cancel, Effect::Done(Some(State::Running)) | Effect::Unclear) => {
                fact.span.to >= self.last_life
            }
            _ => false,
        };
        let reported = |(span, _): &(Span, State)| span.to >= self.seen_alive;
        self.reborn
            || facts.unclear_replacement
            || self.ends.iter().any(reported)
            || self.facts.iter().any(ended)
            || self.may_be_out_of_crashes(facts)
    }

    /// Whether it was started in its last life more often than it may lose its lease. The loss of a lease is
    /// not observed, and neither is a start if its claim was never answered.
    fn may_be_out_of_crashes(&self, facts: &Facts<'_>) -> bool {
        let started = self.terms.iter().filter(|term| term.first >= self.last_life).count();
        let crashes_max = self.facts.iter().filter_map(|fact| match fact.action {
            Action::Enqueue(wanted, stored) if stored != Insertion::NotStored => {
                Some(wanted.crashes_max)
            }
            _ => None,
        });
        let starts = (started + facts.unclear_claims.len()) as u64;
        crashes_max.min().is_some_and(|max| starts > u64::from(max))
    }

    /// A discard conditional on one state that took effect although the job had ended in another.
    pub(super) fn wrongly_discarded(&self) -> Option<(State, State)> {
        self.facts.iter().find_map(|fact| {
            let Action::Change(Wish::DiscardIf(wanted), Effect::Done(_)) = fact.action else {
                return None;
            };
            let other = self.ends.iter().find(|(reported, state)| {
                *state != wanted
                    && reported.before(fact.span)
                    && !self.replayed_between(*reported, fact.span)
            });
            other.map(|(_, state)| (wanted, *state))
        })
    }

    fn spans(&self, action: impl Fn(&Action<'a>) -> bool) -> Vec<Span> {
        self.facts.iter().filter(|fact| action(&fact.action)).map(|fact| fact.span).collect()
    }

    /// Whether a replay may have taken effect between the two.
    pub(super) fn replayed_between(&self, earlier: Span, later: Span) -> bool {
        self.replays.iter().any(|replay| !replay.before(earlier) && !later.before(*replay))
    }

    /// When the first call was made that may have ended it in this state.
    pub(super) fn asked_for(&self, state: State) -> Option<u64> {
        let requested = self.facts.iter().filter(|fact| match (state, &fact.action) {
            (_, Action::Report(_, Outcome::Refused)) => false,
            (State::Completed, Action::Report(report, _)) => report.end == AttemptEnd::Complete,
            (State::Cancelled, Action::Report(report, _)) => report.end == AttemptEnd::Cancel,
            (State::Cancelled, Action::Change(Wish::Cancel, effect)) => *effect != Effect::Refused,
            (State::Cancelled, Action::Replaced(_)) => true,
            _ => false,
        });
        requested.map(|fact| fact.span.from).min()
    }

    /// Its period among the jobs of its key, unless it had several lives.
    pub(super) fn turn(&self, facts: &Facts<'_>) -> Option<(&'a str, Turn)> {
        let wanted = self.facts.iter().find_map(|fact| match fact.action {
            Action::Enqueue(wanted, stored) if stored != Insertion::NotStored => Some(wanted),
            _ => None,
        })?;
        let key = wanted.key.as_deref()?;
        if !self.replays.is_empty() {
            return None;
        }
        let held = self.terms.iter().map(|term| term.last).max().unwrap_or_default();
        let ended = match self.last {
            Some(State::Cancelled) if facts.unclear_replacement => 0,
            Some(state) => self.asked_for(state).unwrap_or_default(),
            None => 0,
        };
        let moved = self.spans(|action| matches!(action, Action::Change(Wish::Move, _)));
        let in_line = wanted.in_line && moved.is_empty();
        let turn = Turn {
            id: self.id,
            wanted_from: self.wanted_from.filter(|_| in_line),
            stored_by: self.acknowledged.filter(|_| in_line),
            started_by: self.terms.iter().map(|term| term.first).min(),
            held_until: held.max(ended),
        };
        Some((key, turn))
    }
}

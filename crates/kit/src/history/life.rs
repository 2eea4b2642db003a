//! What is known of one job: when it was stored, under which leases it ran, how it ended.

use super::checker::Options;
use super::facts::{Deed, Fact, Facts, Fate, Outcome, Span};
use super::keys::Turn;
use super::record::{Effect, Wish};
use std::collections::HashMap;
use windlass_core::JobId;
use windlass_core::engine::Lease;
use windlass_core::model::{AttemptEnd, State};

/// One lease of a job: when it was certainly the current one.
#[derive(Debug)]
pub(super) struct Term<'a> {
    pub(super) lease: &'a Lease,
    /// `None` if nobody was given it.
    pub(super) attempt: Option<u32>,
    /// It was current at some instant not after this.
    pub(super) first: u64,
    /// It was current at some instant not before this.
    pub(super) last: u64,
    /// The reports that were applied under it.
    pub(super) applied: Vec<Span>,
    /// The claims it was given to.
    pub(super) claims: Vec<&'a str>,
}

/// What is known of one job.
pub(super) struct Life<'a> {
    pub(super) id: JobId,
    pub(super) facts: &'a [Fact<'a>],
    pub(super) last: Option<State>,
    /// It was not stored before this; `None` if nobody can have stored it.
    pub(super) wanted_from: Option<u64>,
    /// It was stored by this time at the latest.
    pub(super) acknowledged: Option<u64>,
    pub(super) terms: Vec<Term<'a>>,
    /// Where in `terms` a lease is: a job may have been started very often.
    by_lease: HashMap<&'a Lease, usize>,
    /// Ends somebody was told of.
    pub(super) ends: Vec<(Span, State)>,
    pub(super) replays: Vec<Span>,
    /// It may have been created more than once.
    pub(super) reborn: bool,
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
        };
        for fact in facts {
            let Fact { span, deed, .. } = *fact;
            let mut told = None;
            match deed {
                Deed::Enqueue(_, Fate::NotStored) => {}
                Deed::Enqueue(_, fate) => {
                    wanted_from = Some(wanted_from.map_or(span.from, |from| from.min(span.from)));
                    if let Fate::Stored(state) = fate {
                        acknowledged = Some(acknowledged.map_or(span.to, |to| to.min(span.to)));
                        told = state;
                    }
                }
                Deed::StandIn(state) => {
                    if state.is_some() {
                        acknowledged = Some(acknowledged.map_or(span.to, |to| to.min(span.to)));
                    }
                    told = state;
                }
                Deed::Report(_, Outcome::Applied(state) | Outcome::Already(_, state)) => {
                    told = Some(state);
                }
                Deed::Change(wish, effect) => {
                    if wish == Wish::Replay && effect != Effect::Refused {
                        life.replays.push(span);
                    }
                    if let Effect::Done(state) = effect {
                        told = state;
                    }
                }
                _ => {}
            }
            if let Some(state) = told.filter(|state| state.is_terminal()) {
                life.ends.push((span, state));
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

    /// Notes that a lease was seen to be the current one.
    fn sight(&mut self, fact: &Fact<'a>) {
        let (lease, start, applied) = match fact.deed {
            Deed::Start(start, claim) => (&start.lease, Some((start.attempt, claim)), false),
            Deed::Report(report, Outcome::Applied(_)) => (&report.lease, None, true),
            Deed::Update(lease, Some(true)) => (lease, None, false),
            _ => return,
        };
        let at = *self.by_lease.entry(lease).or_insert(self.terms.len());
        if at == self.terms.len() {
            let (first, last) = (u64::MAX, 0);
            let (applied, claims) = (Vec::new(), Vec::new());
            self.terms.push(Term { lease, attempt: None, first, last, applied, claims });
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

    /// Whether an enqueue may have come late, when the job's record was gone: then the job began anew,
    /// attempts and all, because nobody remembered it.
    fn may_be_reborn(&self, options: &Options) -> bool {
        let births: Vec<Span> =
            self.spans(|deed| matches!(deed, Deed::Enqueue(_, fate) if *fate != Fate::NotStored));
        let late = |gone: Span| births.iter().any(|birth| !birth.before(gone));
        births.len() > 1 && (options.retention || self.discards().into_iter().any(late))
    }

    pub(super) fn discards(&self) -> Vec<Span> {
        self.spans(|deed| {
            matches!(deed, Deed::Change(Wish::Discard, effect) if *effect != Effect::Refused)
        })
    }

    fn spans(&self, deed: impl Fn(&Deed<'a>) -> bool) -> Vec<Span> {
        self.facts.iter().filter(|fact| deed(&fact.deed)).map(|fact| fact.span).collect()
    }

    /// Whether a replay may lie after one thing and before the other.
    pub(super) fn replayed_between(&self, earlier: Span, later: Span) -> bool {
        self.replays.iter().any(|replay| !replay.before(earlier) && !later.before(*replay))
    }

    /// When the first call was made that may have ended it this way.
    pub(super) fn asked_for(&self, state: State) -> Option<u64> {
        let asked = self.facts.iter().filter(|fact| match (state, &fact.deed) {
            (_, Deed::Report(_, Outcome::Refused)) => false,
            (State::Completed, Deed::Report(report, _)) => report.end == AttemptEnd::Complete,
            (State::Cancelled, Deed::Report(report, _)) => report.end == AttemptEnd::Cancel,
            (State::Cancelled, Deed::Change(Wish::Cancel, effect)) => *effect != Effect::Refused,
            (State::Cancelled, Deed::Replaced(_)) => true,
            _ => false,
        });
        asked.map(|fact| fact.span.from).min()
    }

    /// Its turn among the jobs of its key, unless it had several lives.
    pub(super) fn turn(&self, facts: &Facts<'_>) -> Option<(&'a str, Turn)> {
        let wanted = self.facts.iter().find_map(|fact| match fact.deed {
            Deed::Enqueue(wanted, fate) if fate != Fate::NotStored => Some(wanted),
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
        let moved = self.spans(|deed| matches!(deed, Deed::Change(Wish::Move, _)));
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

//! An operator: lists jobs in a state and cancels, edits, moves, replays or discards a few of them, or sends them signals,
//! while the services remove ended jobs.

use super::client::Order;
use super::stage::{Stage, payload};
use super::waits;
use super::{CHANGE_CODES, happens};
use std::sync::Arc;
use windlass_core::JobId;
use windlass_core::engine::{Admin as _, Change, ChangeItem, Edits, Filter, List, ListOrder};
use windlass_core::model::{Due, Part, PartEdit, State};
use windlass_core::random::{Random as _, Seeded};
use windlass_kit::history::Recorded;

/// Maximum pause between two rounds.
const PAUSE_MAX_MS: u64 = 300;
/// Number of jobs that an operator lists in one round.
const LISTED: u32 = 60;
/// Maximum number of jobs that it changes in one round.
const CHANGED_MAX: u64 = 8;
/// Maximum delay of a job that is moved or replayed.
const DELAY_MAX_MS: u64 = 1_500;
/// States that an operator lists, chosen at random. States in which jobs can be replayed occur more often.
const STATES: [State; 10] = [
    State::Dead,
    State::Dead,
    State::Dead,
    State::Cancelled,
    State::Cancelled,
    State::Completed,
    State::Available,
    State::Available,
    State::Scheduled,
    State::Running,
];

pub(super) struct Operator {
    stage: Arc<Stage>,
    engine: Recorded,
    random: Seeded,
}

impl Operator {
    pub(super) fn new(stage: Arc<Stage>, number: u64) -> Self {
        let (engine, random) = (stage.client(), stage.random(number));
        Self { stage, engine, random }
    }

    pub(super) async fn run(self) {
        while self.stage.order() == Order::Work {
            let state = STATES[self.random.below(STATES.len() as u64) as usize];
            self.round(state).await;
            self.stage.rest(self.random.below(PAUSE_MAX_MS), Order::Rest).await;
        }
    }

    /// Changes a few of the oldest or newest jobs in this state.
    async fn round(&self, state: State) {
        let mut ids = self.ids_in(state).await;
        let mut items = Vec::new();
        for _ in 0..=self.random.below(CHANGED_MAX) {
            if ids.is_empty() {
                break;
            }
            let id = ids.swap_remove(self.random.below(ids.len() as u64) as usize);
            items.extend(self.change(id, state));
        }
        if items.is_empty() {
            return;
        }
        let call = self.engine.change(items);
        for item in self.stage.ask("change", call, &[]).await.into_iter().flatten() {
            self.stage.expected("change", item, &CHANGE_CODES);
        }
    }

    async fn ids_in(&self, state: State) -> Vec<JobId> {
        let order = [ListOrder::Oldest, ListOrder::Newest][self.random.below(2) as usize];
        let filter = Filter::state(state).queue(self.stage.spec.queue.clone());
        let list = List::new(filter).order(order).limit(LISTED);
        let page = self.stage.ask("list", self.engine.list(list), &[]).await;
        page.map_or_else(Vec::new, |page| page.rows.iter().map(|job| job.header.id).collect())
    }

    /// Chooses a change for a job in this state; half of the changes are conditional on that state.
    fn change(&self, id: JobId, state: State) -> Option<ChangeItem> {
        let random = &self.random;
        let removes = self.stage.spec.retention_ms.is_some();
        if self.stage.spec.flows && !state.is_terminal() && happens(random, 400) {
            return Some(ChangeItem::new(id, waits::signal_to(id, random)));
        }
        let change = match (state, random.below(10)) {
            // Discards only with retention: otherwise an engine that removes a record early would go unnoticed.
            (State::Dead | State::Cancelled, 0..2) | (State::Completed, _) if removes => {
                Change::Discard
            }
            (State::Completed, _) => return None,
            (State::Dead | State::Cancelled, _) => Change::Replay(Box::new(self.edits(id))),
            (State::Running, _) => Change::Cancel,
            (_, 0..4) => Change::Cancel,
            (_, 4..6) => Change::Reprioritise(random.below(5) as i32),
            (_, 6..8) => Change::Reschedule(Due::After(random.below(DELAY_MAX_MS))),
            _ => Change::Promote,
        };
        let item = ChangeItem::new(id, change);
        Some(if happens(random, 500) { item.if_state(state) } else { item })
    }

    fn edits(&self, id: JobId) -> Edits {
        let random = &self.random;
        let mut edits = Edits::default();
        if happens(random, 300) {
            edits.payload = PartEdit::Set(Part::new(payload(id, random)));
        }
        if happens(random, 300) {
            edits.checkpoint = PartEdit::Unset;
        }
        if happens(random, 300) {
            edits.priority = Some(random.below(3) as i32);
        }
        if happens(random, 300) {
            edits.due = Due::After(random.below(DELAY_MAX_MS));
        }
        edits
    }
}

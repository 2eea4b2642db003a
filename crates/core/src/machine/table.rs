//! The full transition table, enumerated from [`step`], for the kit and the docs.

use super::{EventKind, Facts, Refusal, Step, step};
use crate::model::State;
use std::fmt::Write as _;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The state before; `None` before the job exists.
    pub from: Option<State>,
    /// The event.
    pub event: EventKind,
    /// The facts that hold.
    pub facts: Facts,
    /// The transition, or the reason why it is refused.
    pub outcome: Result<Step, Refusal>,
}

/// The names of the facts, in the order [`facts`] decodes them.
const FACTS: [&str; 11] = [
    "due",
    "waits",
    "time limit",
    "signal taken",
    "dependency open",
    "key taken",
    "limited",
    "budget spent",
    "cancel requested",
    "followed",
    "other queue",
];

/// Every combination of state, event and facts.
pub fn rows() -> impl Iterator<Item = Row> {
    let states = std::iter::once(None).chain(State::ALL.map(Some));
    states.flat_map(|from| {
        EventKind::ALL.into_iter().flat_map(move |event| {
            (0..1 << FACTS.len()).map(move |bits| {
                let facts = facts(bits);
                Row { from, event, facts, outcome: step(from, event, facts) }
            })
        })
    })
}

/// Whether an event is possible in a state, under any facts.
pub fn is_possible(from: State, event: EventKind) -> bool {
    (0..1 << FACTS.len()).any(|bits| step(Some(from), event, facts(bits)).is_ok())
}

/// The facts encoded by `bits`, one bit per name in [`FACTS`].
fn facts(bits: u32) -> Facts {
    let bit = |n: u32| bits & (1 << n) != 0;
    Facts {
        due: bit(0),
        waits: bit(1),
        timed: bit(2),
        signalled: bit(3),
        depends: bit(4),
        key_taken: bit(5),
        limited: bit(6),
        spent: bit(7),
        cancel_requested: bit(8),
        followed: bit(9),
        moves: bit(10),
    }
}

/// The possible transitions as Markdown, one line for each distinct outcome; facts that make no
/// difference are omitted.
pub fn markdown() -> String {
    let mut text = String::from("| from | event | when | to | effects |\n|---|---|---|---|---|\n");
    for from in std::iter::once(None).chain(State::ALL.map(Some)) {
        for event in EventKind::ALL {
            for (when, done) in cases(from, event) {
                let effects: Vec<String> = done.effects.iter().map(|e| e.to_string()).collect();
                let (from, to) = (name(from, "—"), name(done.next, "gone"));
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "| {from} | {event:?} | {when} | {to} | {} |",
                    effects.join(", ")
                );
            }
        }
    }
    text
}

/// The transitions as a Mermaid state diagram.
pub fn mermaid() -> String {
    let mut text = String::from("stateDiagram-v2\n");
    for from in std::iter::once(None).chain(State::ALL.map(Some)) {
        let mut arrows: Vec<(Option<State>, Vec<String>)> = Vec::new();
        // An import comes from another store.
        for event in EventKind::ALL.into_iter().filter(|event| *event != EventKind::Import) {
            for (_, done) in cases(from, event) {
                if done.next == from {
                    continue;
                }
                let label = format!("{event:?}");
                match arrows.iter_mut().find(|(to, _)| *to == done.next) {
                    Some((_, labels)) if labels.contains(&label) => {}
                    Some((_, labels)) => labels.push(label),
                    None => arrows.push((done.next, vec![label])),
                }
            }
        }
        for (to, labels) in arrows {
            let (from, to) = (name(from, "[*]"), name(to, "[*]"));
            let _ = writeln!(text, "    {from} --> {to}: {}", labels.join(", "));
        }
    }
    text
}

fn name(state: Option<State>, none: &'static str) -> &'static str {
    state.map_or(none, State::as_str)
}

/// The distinct outcomes of one event in one state, each with the facts that lead to it.
fn cases(from: Option<State>, event: EventKind) -> Vec<(String, Step)> {
    let all = 0..1_u32 << FACTS.len();
    let outcome = |bits: u32| step(from, event, facts(bits)).ok();
    let mut distinct: Vec<Step> = Vec::new();
    for done in all.clone().filter_map(outcome) {
        if !distinct.contains(&done) {
            distinct.push(done);
        }
    }
    let describe = |done: Step| {
        let ways: Vec<u32> = all.clone().filter(|bits| outcome(*bits) == Some(done)).collect();
        let shared = |n: &u32| ways.iter().all(|bits| (bits ^ ways[0]) & (1 << n) == 0);
        let shared: Vec<u32> = (0..FACTS.len() as u32).filter(shared).collect();
        let fits = |bits: u32| shared.iter().all(|n| (bits ^ ways[0]) & (1 << n) == 0);
        let mut when: Vec<String> = shared
            .iter()
            .map(|n| {
                let no = if ways[0] & (1 << n) == 0 { "not " } else { "" };
                format!("{no}{}", FACTS[*n as usize])
            })
            .collect();
        // The shared facts alone do not distinguish this outcome from another one.
        if all.clone().any(|bits| fits(bits) && outcome(bits) != Some(done)) {
            when.push("otherwise".to_owned());
        }
        (when.join(", "), done)
    };
    distinct.into_iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_covers_every_combination_and_every_state_can_be_reached_and_left() {
        assert_eq!(rows().count(), 10 * EventKind::ALL.len() * 2048);
        for state in State::ALL {
            let arrives = |row: &Row| row.outcome.is_ok_and(|done| done.next == Some(state));
            let leaves = |row: &Row| row.outcome.is_ok_and(|done| done.next != Some(state));
            assert!(rows().any(|row| row.from != Some(state) && arrives(&row)), "{state}");
            assert!(rows().any(|row| row.from == Some(state) && leaves(&row)), "{state}");
        }
    }

    #[test]
    fn the_documented_table_is_the_real_one() {
        let docs = include_str!("../../../../docs/state-machine.md");
        assert!(
            docs.contains(&markdown()) && docs.contains(&mermaid()),
            "docs/state-machine.md is out of date; it must contain:\n{}\n```mermaid\n{}```",
            markdown(),
            mermaid()
        );
    }
}

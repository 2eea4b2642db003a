//! Gates: how many jobs of a lane may start now. The one definition that claims, waits and statistics ask.

use super::Room;
use crate::engine::Gate;
use crate::model::{KindSettings, QueueSettings};
use crate::time::Timestamp;

/// What the settings of a lane and its limits over all jobs allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allowance {
    /// How many jobs may start; `None`: any number.
    pub starts: Option<u32>,
    /// Why none may start, if so.
    pub gate: Option<Gate>,
    /// When the gate opens by itself, if it does.
    pub opens_at: Option<Timestamp>,
}

impl Allowance {
    const OPEN: Self = Self { starts: None, gate: None, opens_at: None };

    /// Whether at least one job may start.
    pub const fn is_open(self) -> bool {
        self.gate.is_none()
    }

    const fn closed(gate: Gate) -> Self {
        Self { starts: Some(0), gate: Some(gate), opens_at: None }
    }

    /// Closes the gate if a limit over all jobs has no room for the first job of the lane.
    #[must_use]
    pub const fn under(self, room: Room) -> Self {
        match (self.gate, room) {
            (Some(_), _) | (None, Room::Now) => self,
            (None, Room::At(at)) => Self { opens_at: Some(at), ..Self::closed(Gate::Limited) },
            (None, Room::Later) => Self::closed(Gate::Limited),
        }
    }
}

/// How many jobs may start in a lane whose queue and kind have these settings; `None`: the defaults. Limits over all
/// jobs are added by [`Allowance::under`].
pub fn allowance(
    queue: Option<&QueueSettings>,
    kind: Option<&KindSettings>,
    now: Timestamp,
) -> Allowance {
    match closed_gates(queue, kind, now).next() {
        Some((gate, opens_at)) => Allowance { opens_at, ..Allowance::closed(gate) },
        None => Allowance { starts: kind.and_then(|kind| kind.permits), ..Allowance::OPEN },
    }
}

/// All closed gates of a lane whose queue and kind have these settings, in the order in which they are named, each with
/// the time at which it opens by itself. Limits are not included.
///
/// Settings are destructured without `..`: a new one must be decided here.
pub fn closed_gates(
    queue: Option<&QueueSettings>,
    kind: Option<&KindSettings>,
    now: Timestamp,
) -> impl Iterator<Item = (Gate, Option<Timestamp>)> + use<> {
    let (queue_paused, held_until) = match queue {
        None => (false, None),
        Some(QueueSettings {
            paused,
            max_depth: _,
            order: _,
            retention: _,
            max_wait_ms: _,
            dead_bytes_max: _,
            keep_max: _,
            // Counted by the executor.
            limits: _,
            // They stop nothing.
            events: _,
            subscriptions: _,
            held_until,
        }) => (*paused, held_until.filter(|until| *until > now)),
    };
    let (kind_paused, permits) = match kind {
        None => (false, None),
        Some(KindSettings { paused, permits, limits: _ }) => (*paused, *permits),
    };
    let gates = [
        queue_paused.then_some((Gate::QueuePaused, None)),
        held_until.map(|until| (Gate::QueueHeld, Some(until))),
        kind_paused.then_some((Gate::KindPaused, None)),
        (permits == Some(0)).then_some((Gate::NoPermits, None)),
    ];
    gates.into_iter().flatten()
}

impl KindSettings {
    /// Counts a job that starts; whether that changed the settings.
    pub const fn start_one(&mut self) -> bool {
        let Self { paused: _, permits, limits: _ } = self;
        match permits {
            None => false,
            Some(permits) => {
                *permits = permits.saturating_sub(1);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn allowance(queue: Option<&QueueSettings>, kind: Option<&KindSettings>) -> Allowance {
        super::allowance(queue, kind, NOW)
    }

    fn queue(paused: bool) -> QueueSettings {
        QueueSettings { paused, max_depth: Some(1), ..QueueSettings::default() }
    }

    #[test]
    fn the_first_closed_gate_is_named_and_permits_are_the_limit_where_all_are_open() {
        let kind = |paused, permits| KindSettings { paused, permits, limits: Vec::new() };
        let allowed = |starts| Allowance { starts, ..Allowance::OPEN };
        assert_eq!(allowance(None, None), allowed(None));
        assert_eq!(allowance(Some(&queue(false)), None), allowed(None));
        assert_eq!(allowance(Some(&queue(false)), Some(&kind(false, Some(3)))), allowed(Some(3)));
        let closed = [
            (true, kind(true, Some(0)), Gate::QueuePaused),
            (true, kind(false, None), Gate::QueuePaused),
            (false, kind(true, Some(0)), Gate::KindPaused),
            (false, kind(true, None), Gate::KindPaused),
            (false, kind(false, Some(0)), Gate::NoPermits),
        ];
        for (paused, kind, gate) in closed {
            let got = allowance(Some(&queue(paused)), Some(&kind));
            assert_eq!(got, Allowance::closed(gate), "{kind:?}");
            assert!(!got.is_open());
        }
        let all = closed_gates(Some(&queue(true)), Some(&kind(true, Some(0))), NOW);
        let all: Vec<Gate> = all.map(|(gate, _)| gate).collect();
        assert_eq!(all, [Gate::QueuePaused, Gate::KindPaused, Gate::NoPermits]);
    }

    #[test]
    fn a_hold_ends_by_itself_and_a_limit_closes_an_open_gate() {
        let held = QueueSettings { held_until: Some(NOW.plus(5)), ..QueueSettings::default() };
        let got = allowance(Some(&held), None);
        assert_eq!((got.gate, got.opens_at), (Some(Gate::QueueHeld), Some(NOW.plus(5))));
        assert_eq!(super::allowance(Some(&held), None, NOW.plus(5)), Allowance::OPEN);
        assert_eq!(Allowance::OPEN.under(Room::Now), Allowance::OPEN);
        assert_eq!(Allowance::OPEN.under(Room::Later), Allowance::closed(Gate::Limited));
        assert_eq!(Allowance::OPEN.under(Room::At(NOW)).opens_at, Some(NOW));
        assert_eq!(got.under(Room::Later), got, "the first gate is named");
    }

    #[test]
    fn starts_use_permits_up_and_nothing_else() {
        let mut kind = KindSettings { permits: Some(1), ..KindSettings::default() };
        assert!(kind.start_one() && kind.permits == Some(0));
        assert!(kind.start_one() && kind.permits == Some(0), "never below zero");
        let mut free = KindSettings::default();
        assert!(!free.start_one() && free == KindSettings::default());
    }
}

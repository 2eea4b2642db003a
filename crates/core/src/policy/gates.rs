//! Gates: how many jobs of a lane may start now. The one definition that claims, waits and statistics ask.

use crate::engine::Gate;
use crate::model::{KindSettings, QueueSettings};

/// What the settings of a lane allow.
///
/// Every gate of today opens by a change of settings only, never by itself, so an allowance names no time at which
/// more may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allowance {
    /// How many jobs may start; `None`: any number.
    pub starts: Option<u32>,
    /// Why none may start, if so.
    pub gate: Option<Gate>,
}

impl Allowance {
    /// Whether at least one job may start.
    pub const fn is_open(self) -> bool {
        self.gate.is_none()
    }

    const fn closed(gate: Gate) -> Self {
        Self { starts: Some(0), gate: Some(gate) }
    }
}

/// How many jobs may start in a lane whose queue and kind have these settings; `None`: the defaults.
///
/// Settings are destructured without `..`: a new one must be decided here.
pub const fn allowance(queue: Option<&QueueSettings>, kind: Option<&KindSettings>) -> Allowance {
    if let Some(QueueSettings {
        paused: true,
        max_depth: _,
        order: _,
        retention: _,
        max_wait_ms: _,
        dead_bytes_max: _,
        keep_max: _,
    }) = queue
    {
        return Allowance::closed(Gate::QueuePaused);
    }
    let Some(KindSettings { paused, permits }) = kind else {
        return Allowance { starts: None, gate: None };
    };
    match (paused, permits) {
        (true, _) => Allowance::closed(Gate::KindPaused),
        (false, Some(0)) => Allowance::closed(Gate::NoPermits),
        (false, permits) => Allowance { starts: *permits, gate: None },
    }
}

impl KindSettings {
    /// Counts a job that starts; whether that changed the settings.
    pub const fn start_one(&mut self) -> bool {
        let Self { paused: _, permits } = self;
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

    fn queue(paused: bool) -> QueueSettings {
        QueueSettings { paused, max_depth: Some(1), ..QueueSettings::default() }
    }

    #[test]
    fn the_first_closed_gate_is_named_and_permits_are_the_limit_where_all_are_open() {
        let kind = |paused, permits| KindSettings { paused, permits };
        let allowed = |starts| Allowance { starts, gate: None };
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
            assert_eq!(got, Allowance { starts: Some(0), gate: Some(gate) }, "{kind:?}");
            assert!(!got.is_open());
        }
    }

    #[test]
    fn starts_use_permits_up_and_nothing_else() {
        let mut kind = KindSettings { paused: false, permits: Some(1) };
        assert!(kind.start_one() && kind.permits == Some(0));
        assert!(kind.start_one() && kind.permits == Some(0), "never below zero");
        let mut free = KindSettings::default();
        assert!(!free.start_one() && free == KindSettings::default());
    }
}

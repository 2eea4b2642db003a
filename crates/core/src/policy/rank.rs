//! The rank of a ready job: the first part of its position `(rank, seq)` in its lane.

use crate::limits::RANK_MAX;
use crate::model::Order;
use crate::time::Timestamp;

/// The inputs of the rank of a job that becomes ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Its priority.
    pub priority: i32,
    /// When it became ready.
    pub at: Timestamp,
    /// Its tenant's turn in a fair queue; see [`FairClock::take_turn`].
    pub turn: i64,
}

/// The rank of a job that becomes ready; lower is claimed first, equal ranks in the order of becoming ready.
pub fn rank(order: Order, ready: Ready) -> i64 {
    let Ready { priority, at, turn } = ready;
    let rank = match order {
        Order::Strict => i64::from(priority),
        Order::Ageing { quantum_ms } => {
            let quantum = i64::try_from(quantum_ms).unwrap_or(i64::MAX);
            at.as_millis().saturating_add(i64::from(priority).saturating_mul(quantum))
        }
        Order::Lifo => at.as_millis().saturating_neg(),
        Order::Fair => turn,
    };
    rank.clamp(-RANK_MAX, RANK_MAX)
}

/// The turns of a queue's tenants: start-time fair queueing with integers.
///
/// Each tenant's jobs get consecutive turns; a new tenant, or one that was idle, starts at the current turn.
/// So a thousand jobs of one tenant are spread over a thousand turns, and a new tenant's first job starts
/// within one turn of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FairClock {
    /// The current turn: the highest rank of a claimed job.
    pub served: i64,
}

impl FairClock {
    /// The turn of a tenant's next job, given the turn of its latest one (`None` for a new tenant).
    pub fn take_turn(self, latest: Option<i64>) -> i64 {
        latest.map_or(self.served, |turn| turn.saturating_add(1).max(self.served))
    }

    /// Records that a job of rank `rank` was claimed.
    pub fn serve(&mut self, rank: i64) {
        self.served = self.served.max(rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(priority: i32, at: i64) -> Ready {
        Ready { priority, at: Timestamp::from_millis(at), turn: 0 }
    }

    #[test]
    fn strict_order_is_priority() {
        assert!(rank(Order::Strict, ready(-1, 9)) < rank(Order::Strict, ready(0, 1)));
        assert_eq!(rank(Order::Strict, ready(3, 9)), rank(Order::Strict, ready(3, 1)));
    }

    #[test]
    fn ageing_lets_an_old_low_priority_overtake_a_new_high_one() {
        let order = Order::Ageing { quantum_ms: 100 };
        assert!(rank(order, ready(0, 1_000)) < rank(order, ready(1, 1_000)));
        assert!(rank(order, ready(5, 0)) < rank(order, ready(0, 501)));
        let huge = Order::Ageing { quantum_ms: u64::MAX };
        assert_eq!(rank(huge, ready(i32::MAX, i64::MAX)), RANK_MAX);
    }

    #[test]
    fn lifo_takes_the_newest() {
        assert!(rank(Order::Lifo, ready(9, 2)) < rank(Order::Lifo, ready(0, 1)));
    }

    #[test]
    fn fair_turns_let_a_newcomer_in_after_one_round() {
        let mut clock = FairClock::default();
        let mut latest = None;
        for expected in 0..5 {
            latest = Some(clock.take_turn(latest));
            assert_eq!(latest, Some(expected));
        }
        clock.serve(1);
        assert_eq!(clock.take_turn(None), 1, "a newcomer joins the turn being served");
        clock.serve(9);
        assert_eq!(clock.take_turn(latest), 9, "idling saves no turns up");
    }
}

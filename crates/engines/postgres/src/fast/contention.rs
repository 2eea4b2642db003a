//! Whether so many claim at a time that they are in each other's way: each passes by what all others have in their
//! hands, and the longer they take, the more that is. Then claims go through doors, a few at a time. Whoever waits for
//! one holds neither jobs nor a snapshot, and whoever is let through begins where the last one of all ended.

use std::sync::atomic::{AtomicU32, Ordering};
use windlass_core::random::Random;

/// How many doors there are; `sql/008_doors.sql` makes them.
const DOORS: u64 = 4;
/// So many others at least make a crowd,
const OTHERS_MIN: i64 = 8;
/// if they may have so many jobs in their hands. With fewer, waiting for each other would cost more than passing by.
const HELD_MIN: i64 = 1_000;
/// Whoever waits less than this for a door could do without;
const WAITED_MS_MIN: i64 = 5;
/// if so many in a row do, the crowd is gone.
const UNWAITED_MAX: u32 = 16;

/// What this process knows of others that claim.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Claims that go through doors from now on, unless there is a crowd still.
    through_doors: AtomicU32,
}

/// One of the doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Door(u64);

/// What a claim saw of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The door it came through.
    pub(crate) door: Option<Door>,
    /// How many jobs it wanted, as others probably do.
    pub(crate) limit: u32,
    /// Transactions under way when it began,
    pub(crate) others: i64,
    /// and how long it had waited by then.
    pub(crate) waited_ms: i64,
}

impl Crowd {
    /// The door to go through, if there is a crowd.
    pub(crate) fn door(&self, random: &dyn Random) -> Option<Door> {
        let is_there = self.through_doors.load(Ordering::Relaxed) > 0;
        is_there.then(|| Door(random.next_u64() % DOORS))
    }

    /// Learns from a claim. Behind a door few are under way at a time, but the wait tells.
    pub(crate) fn saw(&self, seen: Seen) {
        let held = seen.others.saturating_mul(seen.limit.into());
        let is_there = match seen.door {
            Some(_) => seen.waited_ms >= WAITED_MS_MIN,
            None => seen.others >= OTHERS_MIN && held >= HELD_MIN,
        };
        let left = |left: u32| Some(if is_there { UNWAITED_MAX } else { left.saturating_sub(1) });
        let _ = self.through_doors.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }
}

impl Door {
    /// How a claim through it begins. Who does not end it, and keeps everybody waiting, loses the connection.
    pub(crate) fn begin(self) -> String {
        let Self(door) = self;
        format!(
            "BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL idle_in_transaction_session_timeout = '5s';
            LOCK TABLE {{s}}.door_{door} IN EXCLUSIVE MODE"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::schema::Schema;
    use crate::{Options, PostgresEngine, remove};
    use std::time::Duration;
    use tokio::time::timeout;
    use tokio_postgres::NoTls;
    use windlass_core::random::SystemRandom;

    fn after(seen: Seen) -> bool {
        let crowd = Crowd::default();
        crowd.saw(seen);
        crowd.door(&SystemRandom).is_some()
    }

    const ALONE: Seen = Seen { door: None, limit: 100, others: 0, waited_ms: 0 };
    const THROUGH: Seen = Seen { door: Some(Door(0)), ..ALONE };

    #[test]
    fn a_crowd_is_many_with_full_hands() {
        assert!(!after(ALONE));
        assert!(after(Seen { others: 10, ..ALONE }));
        assert!(!after(Seen { others: 10, limit: 10, ..ALONE }), "there is little to pass by");
        assert!(after(Seen { others: 100, limit: 10, ..ALONE }));
        assert!(!after(Seen { others: 3, limit: 1_000, ..ALONE }), "they are few");
    }

    #[test]
    fn it_is_there_for_as_long_as_doors_must_be_waited_for() {
        let crowd = Crowd::default();
        for waited_ms in [20, 0] {
            crowd.saw(Seen { waited_ms, ..THROUGH });
        }
        let is_there = || crowd.door(&SystemRandom).is_some();
        assert!(is_there(), "by chance there was no wait");
        (1..UNWAITED_MAX).for_each(|_| crowd.saw(Seen { others: 100, ..THROUGH }));
        assert!(!is_there());
    }

    /// Others would wait for ever for a process that is stopped in the middle of a claim.
    #[tokio::test]
    async fn who_comes_through_a_door_and_falls_silent_loses_it() {
        let url = std::env::var("WINDLASS_TEST_POSTGRES").expect("`cargo xtask test` sets it");
        let name = format!("test_{:016x}", SystemRandom.next_u64());
        PostgresEngine::connect(Options::new(&url).schema(&name)).await.unwrap();
        let begin = Schema::new(&name).unwrap().put_into(&Door(0).begin());
        let mut clients = Vec::new();
        for _ in 0..2 {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            clients.push(client);
        }
        clients[0].batch_execute(&begin).await.unwrap();
        assert!(!clients[0].is_closed());
        timeout(Duration::from_secs(30), clients[1].batch_execute(&begin)).await.unwrap().unwrap();
        assert!(clients[0].is_closed(), "the server ended the connection that held the door");
        drop(clients);
        remove(&url, &name).await.unwrap();
    }
}

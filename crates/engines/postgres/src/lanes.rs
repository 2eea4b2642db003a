//! The numbers of lanes. Rows of `lane` never change, so what was read once holds for as long as the store
//! is the same one: set back, as by the promotion of a replica that lagged, it may have given the same
//! number to another lane. So connections share what is known only within an epoch.

use crate::conn::Conn;
use crate::error::{Try, corrupt};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use windlass_core::model::Name;
use windlass_executor::LaneKey;

const ALL: &str = "SELECT id, queue, kind FROM {s}.lane";
const ADD: &str = "INSERT INTO {s}.lane (queue, kind)
    SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING";
const FIND: &str =
    "SELECT l.id, l.queue, l.kind FROM unnest($1::text[], $2::text[]) w (queue, kind)
    JOIN {s}.lane l ON l.queue = w.queue AND l.kind = w.kind";

/// What this process knows of the lanes of a store.
#[derive(Default)]
pub(crate) struct Lanes {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    numbers: HashMap<LaneKey, i32>,
    names: HashMap<i32, LaneKey>,
}

impl Lanes {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, rows: Vec<tokio_postgres::Row>) {
        let mut known = self.known();
        for row in rows {
            let (number, queue, kind) =
                (row.get(0), row.get::<_, String>(1), row.get::<_, String>(2));
            let key: LaneKey = (queue.into(), kind.into());
            known.numbers.insert(key.clone(), number);
            known.names.insert(number, key);
        }
    }

    /// The number of a lane, if this process knows it.
    pub(crate) fn number(&self, queue: &Name, kind: &Name) -> Option<i32> {
        self.known().numbers.get(&(queue.clone(), kind.clone())).copied()
    }

    /// Makes sure that these lanes have numbers, and that we know them. Not within a transaction that
    /// may be rolled back: what we know must be so.
    pub(crate) async fn intern(&self, conn: &Conn<'_>, lanes: &[LaneKey]) -> Try<()> {
        let missing: Vec<&LaneKey> =
            lanes.iter().filter(|(queue, kind)| self.number(queue, kind).is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let (queues, kinds): (Vec<&str>, Vec<&str>) =
            missing.iter().map(|(queue, kind)| (&**queue, &**kind)).unzip();
        let found = conn.query(FIND, &[&queues, &kinds]).await?;
        let all_found = found.len() == missing.len();
        self.learn(found);
        if !all_found {
            conn.execute(ADD, &[&queues, &kinds]).await?;
            self.learn(conn.query(FIND, &[&queues, &kinds]).await?);
        }
        Ok(())
    }

    /// The names of these lanes; asks for those that came since.
    pub(crate) async fn names(&self, conn: &Conn<'_>, lanes: &[i32]) -> Try<HashMap<i32, LaneKey>> {
        if lanes.iter().any(|lane| !self.known().names.contains_key(lane)) {
            self.learn(conn.query(ALL, &[]).await?);
        }
        let known = self.known();
        let name = |lane: &i32| match known.names.get(lane) {
            Some(key) => Ok((*lane, key.clone())),
            None => Err(corrupt(&format_args!("no lane has the number {lane}")).into()),
        };
        lanes.iter().map(name).collect()
    }
}

//! Cache of lane numbers. Maintenance deletes lanes without jobs, so a cached number is verified from time to time
//! before it is used for new jobs. The cache is valid within one epoch: after the promotion of a lagging replica a
//! number may belong to another lane.

use crate::conn::Conn;
use crate::conn::error::{Trouble, Try, corrupt};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::Error;
use windlass_core::limits::{LANE_IDLE_MS, LANES_PER_QUEUE_MAX};
use windlass_core::model::Name;
use windlass_core::sync::lock;
use windlass_core::time::{DAY_MS, MINUTE_MS, SECOND_MS};
use windlass_executor::LaneKey;

const ALL: &str = "SELECT id, queue, kind FROM {s}.lane";
/// Creates lanes as far as their queues have room.
const ADD: &str = "SELECT {s}.add_lanes($1::text[], $2::text[], $3::bigint, $4::bigint)";
/// Lanes by name; whether each must be marked as used, and whether it may be deleted at any time.
const FIND: &str = "SELECT l.id, l.queue, l.kind, l.idle OR l.used_at < c.now - $4::bigint,
        l.idle AND l.used_at < c.now - $5::bigint
    FROM unnest($1::text[], $2::text[]) w (queue, kind) JOIN {s}.lane l ON l.queue = w.queue AND l.kind = w.kind
    CROSS JOIN (SELECT coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now) c";
/// Finds, creates and marks lanes inside an application's transaction.
const JOIN: &str = "SELECT w.number, w.queue, w.kind FROM (
        SELECT {s}.lane_of(w.queue, w.kind, coalesce($3::bigint,
            (extract(epoch FROM clock_timestamp()) * 1000)::bigint)) AS number, w.queue, w.kind
        FROM unnest($1::text[], $2::text[]) w (queue, kind)) w WHERE w.number IS NOT NULL";
/// Marks lanes as used. Skips locked rows: an application's transaction may hold them for long, and marks them, too.
const USE: &str = "UPDATE {s}.lane SET idle = false,
        used_at = coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    WHERE id IN (SELECT id FROM {s}.lane WHERE id = ANY($1::integer[]) ORDER BY id FOR UPDATE SKIP LOCKED)
    RETURNING id";

/// A cached number is verified again after this time if the lane gets new jobs.
const CHECK_AGAIN: Duration = Duration::from_secs(10);
/// Precision of `lane.used_at`. Coarse, so that it is rarely written.
pub(crate) const USED_MS: u64 = 20 * SECOND_MS;
/// Maintenance marks a lane without live jobs as idle after this time without use. Much longer than [`CHECK_AGAIN`],
/// because claims skip idle lanes.
pub(crate) const IDLE_AFTER_MS: u64 = 2 * MINUTE_MS;
/// A lane that was not used for this long may be deleted soon.
pub(crate) const DOOMED_MS: u64 = LANE_IDLE_MS - DAY_MS;

/// The cache.
#[derive(Default)]
pub(crate) struct Lanes {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    numbers: HashMap<LaneKey, i32>,
    names: HashMap<i32, LaneKey>,
    /// When a lane was last verified.
    checked: HashMap<i32, Checked>,
}

/// The time of a verification: by this process's clock, and by a test's clock if there is one, which decides when lanes
/// are idle.
#[derive(Clone, Copy)]
struct Checked {
    at: Instant,
    test_ms: Option<i64>,
}

impl Checked {
    fn is_recent(self, now: Option<i64>) -> bool {
        let passed_ms = self.test_ms.zip(now).map_or(0, |(then, now)| now.abs_diff(then));
        self.at.elapsed().max(Duration::from_millis(passed_ms)) < CHECK_AGAIN
    }
}

impl Known {
    /// Whether a lane was verified recently.
    fn is_checked(&self, lane: &LaneKey, now: Option<i64>) -> bool {
        let checked = self.numbers.get(lane).and_then(|number| self.checked.get(number));
        checked.is_some_and(|checked| checked.is_recent(now))
    }
}

/// The result of [`FIND`].
#[derive(Default)]
struct Found {
    numbers: HashMap<LaneKey, i32>,
    /// Lanes to mark as used.
    stale: Vec<i32>,
    /// Stale lanes that may be deleted at any time.
    doomed: Vec<i32>,
}

impl Lanes {
    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    fn learn(&self, rows: &[crate::conn::Row]) {
        let mut known = self.known();
        for row in rows {
            let (number, queue, kind) =
                (row.get(0), row.get::<_, String>(1), row.get::<_, String>(2));
            let key: LaneKey = (queue.into(), kind.into());
            known.numbers.insert(key.clone(), number);
            known.names.insert(number, key);
        }
    }

    /// The number of a lane, if cached.
    pub(crate) fn number(&self, queue: &Name, kind: &Name) -> Option<i32> {
        self.known().numbers.get(&(queue.clone(), kind.clone())).copied()
    }

    /// Removes deleted lanes.
    pub(crate) fn forget(&self, lanes: &[i32]) {
        let mut known = self.known();
        for number in lanes {
            known.checked.remove(number);
            if let Some(key) = known.names.remove(number) {
                known.numbers.remove(&key);
            }
        }
    }

    /// Creates and caches these lanes, which are about to get jobs; lanes for which their queue has no room stay
    /// without a number. Runs outside of transactions that may be rolled back, so that the cache is right. `now` is a
    /// test's clock.
    pub(crate) async fn intern(
        &self,
        conn: &Conn<'_>,
        lanes: &[LaneKey],
        now: Option<i64>,
    ) -> Try<()> {
        let unsure: Vec<&LaneKey> = {
            let known = self.known();
            lanes.iter().filter(|lane| !known.is_checked(lane, now)).collect()
        };
        if unsure.is_empty() {
            return Ok(());
        }
        let (queues, kinds): (Vec<&str>, Vec<&str>) =
            unsure.iter().map(|(queue, kind)| (&**queue, &**kind)).unzip();
        let mut found = self.find(conn, &queues, &kinds, now).await?;
        if found.numbers.len() < unsure.len() {
            let max = LANES_PER_QUEUE_MAX as i64;
            conn.query(ADD, &[&queues, &kinds, &now, &max]).await?;
            found = self.find(conn, &queues, &kinds, now).await?;
        }
        if !found.stale.is_empty() {
            let used = conn.query(USE, &[&found.stale, &now]).await?;
            let used: Vec<i32> = used.iter().map(|row| row.get(0)).collect();
            if found.doomed.iter().any(|lane| !used.contains(lane)) {
                self.forget(&found.doomed);
                let reason =
                    "a kind that was not used for days is being deleted; try again".to_owned();
                return Err(Trouble::Retryable(Error::Busy { store: "postgres".into(), reason }));
            }
        }
        let mut known = self.known();
        let checked = Checked { at: Instant::now(), test_ms: now };
        for lane in unsure {
            match found.numbers.get(lane) {
                Some(number) => known.checked.insert(*number, checked).map(drop),
                // Deleted, or refused.
                None => known.numbers.remove(lane).map(drop),
            };
        }
        Ok(())
    }

    /// Creates these lanes inside an application's transaction, for a cache that ends with it. Takes no lock that
    /// others would wait for, except for the rows of new lanes.
    pub(crate) async fn join(
        &self,
        conn: &Conn<'_>,
        lanes: &[LaneKey],
        now: Option<i64>,
    ) -> Try<()> {
        if lanes.is_empty() {
            return Ok(());
        }
        let (queues, kinds): (Vec<&str>, Vec<&str>) =
            lanes.iter().map(|(queue, kind)| (&**queue, &**kind)).unzip();
        self.learn(&conn.query(JOIN, &[&queues, &kinds, &now]).await?);
        Ok(())
    }

    async fn find(
        &self,
        conn: &Conn<'_>,
        queues: &[&str],
        kinds: &[&str],
        now: Option<i64>,
    ) -> Try<Found> {
        let (used_ms, doomed_ms) = (USED_MS.cast_signed(), DOOMED_MS.cast_signed());
        let rows = conn.query(FIND, &[&queues, &kinds, &now, &used_ms, &doomed_ms]).await?;
        self.learn(&rows);
        let those = |column: usize| {
            let rows = rows.iter().filter(|row| row.get::<_, bool>(column));
            rows.map(|row| row.get(0)).collect()
        };
        let number = |row: &crate::conn::Row| {
            let (queue, kind): (&str, &str) = (row.get(1), row.get(2));
            ((queue.into(), kind.into()), row.get(0))
        };
        let numbers = rows.iter().map(number).collect();
        Ok(Found { numbers, stale: those(3), doomed: those(4) })
    }

    /// The names of these lanes; reads all lanes if one is not cached.
    pub(crate) async fn names(&self, conn: &Conn<'_>, lanes: &[i32]) -> Try<HashMap<i32, LaneKey>> {
        if lanes.iter().any(|lane| !self.known().names.contains_key(lane)) {
            self.learn(&conn.query(ALL, &[]).await?);
        }
        let known = self.known();
        let name = |lane: &i32| match known.names.get(lane) {
            Some(key) => Ok((*lane, key.clone())),
            None => Err(corrupt(&format_args!("no lane has the number {lane}")).into()),
        };
        lanes.iter().map(name).collect()
    }
}

impl windlass_workset::Lanes for Lanes {
    fn lanes_before(&self, (queue, kind): &LaneKey) -> Option<usize> {
        // Lanes are added before a run, as far as their queue has room: a lane without a number found none.
        self.number(queue, kind).is_none().then_some(LANES_PER_QUEUE_MAX)
    }
}

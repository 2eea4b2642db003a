//! Loads and locks the rows that a verb needs, in few round trips. Makes no decisions about jobs.
//! Locks are taken in one order, which makes deadlocks rare: sessions, settings, unique keys, ordering keys, jobs,
//! places, tenants. The keys of a job are read from its definition first, which never changes.

mod due;
mod gather;
mod keys;
mod turns;

use crate::conn::Conn;
use crate::conn::error::Try;
use crate::rows::codec::Spec;
use crate::rows::entries::{self, Found, SEQ_BITS, at, job_id};
use crate::slow::wants::{Held, Tenant, Wants};
pub(crate) use due::{EXPIRES, REMOVED};
use futures_util::future::{try_join3, try_join4};
pub(crate) use gather::{CONFIGURE_LOCK, PLAIN, SUSPECT, session};
pub(crate) use keys::LineRows;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::engine::SessionId;
use windlass_core::model::{KindSettings, Name, PartName, QueueSettings};
use windlass_core::time::Clock;
use windlass_core::{JobId, Timestamp};
use windlass_executor::{Due, Head, LaneKey, SessionEntry, Standing, UniqueHold, UniqueSlot};

pub(crate) const NOW: &str =
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, nextval({'s.entry'})";
const DEFINITIONS: &str = "SELECT j.id, l.queue, l.kind, j.spec, e.session, s.alone
    FROM unnest($1::uuid[]) w (id) JOIN {s}.job j ON j.id = ANY(ARRAY[w.id])
    JOIN {s}.lane l ON l.id = ANY(ARRAY[j.lane]) LEFT JOIN {s}.lease e ON e.id = ANY(ARRAY[j.id])
    LEFT JOIN {s}.session s ON s.id = ANY(ARRAY[e.session])";
/// A join, so that each job is looked up in its own partition only.
const LOCK_JOBS: &str =
    "SELECT j.id FROM unnest($1::uuid[]) w (id) JOIN {s}.job j ON j.id = ANY(ARRAY[w.id])
    ORDER BY w.id FOR UPDATE OF j";
const LOCK_FREE_JOBS: &str =
    "SELECT j.id FROM unnest($1::uuid[]) w (id) JOIN {s}.job j ON j.id = ANY(ARRAY[w.id])
    ORDER BY w.id FOR UPDATE OF j SKIP LOCKED";
/// A lateral lookup per job: the planner could reverse a join and scan all ready jobs.
const LOCK_READY: &str = "SELECT r.id FROM unnest($1::uuid[]) w (id)
    JOIN {s}.job j ON j.id = ANY(ARRAY[w.id]) LEFT JOIN {s}.life l ON l.id = ANY(ARRAY[j.id])
    CROSS JOIN LATERAL
        (SELECT id FROM {s}.ready WHERE lane = j.lane AND rank = coalesce(l.rank, j.rank)
            AND seq = coalesce(l.seq, j.seq) FOR UPDATE) r";
const LOCK_LEASES: &str = "SELECT id FROM {s}.lease WHERE id = ANY($1) ORDER BY id FOR UPDATE";

/// Maximum links that a load follows from row to row; beyond that, a run reports missing rows.
const LINKS_MAX: usize = 3;

/// A job that was looked up.
#[derive(Debug)]
pub(crate) struct Known {
    /// The job, if it exists.
    pub(crate) found: Option<Found>,
    /// Whether it may be changed.
    pub(crate) locked: bool,
}

/// The rows loaded so far.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) now: Timestamp,
    /// The time of a test's clock, which replaces the store's in statements.
    pub(crate) test_now: Option<Timestamp>,
    /// New jobs are numbered from here on.
    pub(crate) seq: u64,
    pub(crate) sessions: BTreeMap<SessionId, SessionEntry>,
    pub(crate) queues: Option<BTreeMap<Name, QueueSettings>>,
    pub(crate) kinds: BTreeMap<Name, KindSettings>,
    pub(crate) held: HashMap<SessionId, BTreeSet<JobId>>,
    pub(crate) jobs: HashMap<JobId, Known>,
    pub(crate) uniques: HashMap<UniqueSlot, Option<UniqueHold>>,
    pub(crate) lines: HashMap<(Name, String), LineRows>,
    pub(crate) turns: HashMap<Tenant, Standing>,
    pub(crate) depths: HashMap<Name, u64>,
    /// Whether ready jobs were loaded.
    pub(crate) has_heads: bool,
    /// Ready jobs that were locked for a claim, by lane, in order.
    pub(crate) heads: BTreeMap<LaneKey, Vec<Head>>,
    /// The time at which due jobs were chosen.
    pub(crate) due_at: Option<Timestamp>,
    /// Due jobs and sessions, and the first one after them.
    pub(crate) due: Vec<Due>,
    /// Whether more may be due than listed.
    pub(crate) unsure: bool,
    /// Rows of `deadline` and `aging` that are out of date.
    pub(crate) stale: Vec<(Option<Name>, i64, JobId)>,
}

/// Loads rows over a connection.
pub(crate) struct Loader<'a> {
    pub(crate) conn: &'a Conn<'a>,
    pub(crate) clock: Option<&'a Arc<dyn Clock>>,
}

/// Jobs to load.
#[derive(Default)]
struct Jobs {
    peek: Vec<Uuid>,
    own: Vec<Uuid>,
    /// Locked already by their row in `ready`.
    heads: Vec<Uuid>,
    /// Skip `own` jobs that other transactions have locked.
    skip_held: bool,
}

impl Jobs {
    /// Chooses the wanted jobs that are not loaded yet.
    fn choose(&mut self, wants: &Wants, loaded: &Loaded) {
        let owned = |id: &JobId| loaded.jobs.get(id).is_some_and(|known| known.locked);
        let own = wants.own.iter().filter(|id| !owned(id));
        self.own = own.map(|id| id.as_uuid()).collect();
        let unseen = |id: &&JobId| !loaded.jobs.contains_key(id) && !wants.own.contains(id);
        self.peek = wants.peek.iter().filter(unseen).map(|id| id.as_uuid()).collect();
        // A job may be settled with a stale lease and be ready again.
        self.heads.retain(|id| !wants.own.contains(&job_id(*id)));
        let heads: HashSet<&Uuid> = self.heads.iter().collect();
        self.peek.retain(|id| !heads.contains(id));
    }
}

impl Loaded {
    /// Removes leases from sessions that, once locked, turned out to belong to them no more.
    fn let_go(&mut self) {
        let Self { held, jobs, .. } = self;
        for (session, held) in held {
            held.retain(|id| {
                let Some(known) = jobs.get(id) else { return true };
                let leased = known.found.as_ref().and_then(|found| found.entry.leased.as_ref());
                leased.is_some_and(|leased| leased.session == *session)
            });
        }
    }

    /// The rows that follow from those just read: holders of unique keys, and heirs of ordering keys.
    fn linked(&self, wants: &Wants) -> Wants {
        let mut more = Wants { parts: wants.parts, heirs: wants.heirs, ..Wants::default() };
        let holds = wants.slots.iter().filter_map(|slot| self.uniques.get(slot).copied().flatten());
        let holders = holds.map(|hold| hold.holder);
        more.peek = holders.filter(|id| !self.jobs.contains_key(id)).collect();
        let owned = |id: &JobId| self.jobs.get(id).is_some_and(|known| known.locked);
        if wants.heirs {
            let lines = wants.lines.iter().filter_map(|line| self.lines.get(line));
            let ending = lines.filter(|line| line.holder.as_ref().is_some_and(owned));
            let heirs = ending.filter_map(|line| line.waiting.first()).map(|(_, id)| *id);
            more.own = heirs.filter(|id| !owned(id)).collect();
            more.moving_up = true;
        }
        more
    }
}

impl Loader<'_> {
    /// Loads the wanted rows that are missing, and the rows that follow from them.
    pub(crate) async fn load(&self, wants: &Wants, loaded: &mut Loaded) -> Try<()> {
        let mut wants = wants.clone();
        let mut jobs = Jobs::default();
        self.gather(&mut wants, loaded, &mut jobs).await?;
        self.find_due(&mut wants, loaded, &mut jobs).await?;
        let (due, claim) = (wants.due, wants.heads.clone());
        for _ in 0..LINKS_MAX {
            jobs.choose(&wants, loaded);
            self.define(&mut wants, &jobs).await?;
            self.read(&wants, loaded, &jobs).await?;
            jobs = Jobs { skip_held: jobs.skip_held, ..Jobs::default() };
            wants = loaded.linked(&wants);
            if wants.is_empty() {
                break;
            }
        }
        if let Some(request) = due {
            self.verify_due(request, loaded);
        }
        // Last, so that a transaction with locks on ready jobs waits for nothing.
        if let Some(claim) = claim.filter(|_| !loaded.has_heads) {
            self.heads(&claim, loaded).await?;
        }
        loaded.let_go();
        Ok(())
    }

    /// Adds the keys and sessions of the jobs to lock to the wants.
    async fn define(&self, wants: &mut Wants, jobs: &Jobs) -> Try<()> {
        if jobs.own.is_empty() {
            return Ok(());
        }
        for row in self.conn.query(DEFINITIONS, &[&jobs.own]).await? {
            if let Some(session) = row.get::<_, Option<String>>(4)
                && (wants.lease_sessions || row.get::<_, Option<bool>>(5) == Some(true))
            {
                wants.sessions.entry(SessionId::new(session)).or_insert(Held::All);
            }
            let Some(spec) = row.get::<_, Option<&str>>(3) else { continue };
            let spec: Spec = crate::rows::codec::from_text(Some(spec))?;
            let (queue, kind): (&str, &str) = (row.get(1), row.get(2));
            if let Some(unique) = spec.unique.as_ref().filter(|_| !wants.moving_up) {
                wants.slots.insert(UniqueSlot::new(unique.scope, queue, kind, &unique.key));
            }
            if let Some(key) = spec.key {
                wants.lines.insert((queue.into(), key));
            }
        }
        Ok(())
    }

    /// Loads everything else in one round trip.
    async fn read(&self, wants: &Wants, loaded: &mut Loaded, jobs: &Jobs) -> Try<()> {
        let conn = self.conn;
        let lock = if jobs.skip_held { LOCK_FREE_JOBS } else { LOCK_JOBS };
        let payload = wants.parts.has(PartName::Payload);
        let bits = entries::part_bits(wants.parts);
        let all: Vec<Uuid> = [&jobs.own[..], &jobs.peek, &jobs.heads].concat();
        let statements = [lock, LOCK_READY, LOCK_LEASES, entries::BY_ID, entries::PARTS, NOW];
        conn.prepare(&statements).await?;
        keys::prepare(conn).await?;
        gather::prepare(conn).await?;
        let owns = !jobs.own.is_empty();
        let reads = !all.is_empty();
        // In this order: they are sent one after the other, and the last ones read under the locks.
        let ((session_rows, settings, keys), (locked, _, _, turns), (found, parts, now)) =
            try_join3(
                try_join3(
                    self.late_sessions(wants, loaded),
                    self.settings(loaded.queues.is_none(), &wants.depths),
                    self.keys(wants, loaded),
                ),
                try_join4(
                    some(owns, conn.query(lock, &[&jobs.own])),
                    some(owns, conn.query(LOCK_READY, &[&jobs.own])),
                    some(owns, conn.query(LOCK_LEASES, &[&jobs.own])),
                    self.turns(wants),
                ),
                try_join3(
                    some(reads, conn.query(entries::BY_ID, &[&all, &payload])),
                    some(reads, conn.query(entries::PARTS, &[&all, &bits])),
                    conn.query(NOW, &[]),
                ),
            )
            .await?;
        loaded.add_sessions(session_rows);
        loaded.add_settings(settings)?;
        loaded.add_keys(wants, keys);
        loaded.add_turns(wants, turns);
        let mut locked: HashSet<Uuid> = locked.iter().map(|row| row.get(0)).collect();
        locked.extend(&jobs.heads);
        let left: HashSet<&Uuid> = jobs.own.iter().filter(|id| !locked.contains(id)).collect();
        let mut found = entries::found(conn, &found, &parts).await?;
        for id in all {
            if jobs.skip_held && left.contains(&id) {
                continue;
            }
            let found = found.remove(&job_id(id));
            let locked = locked.contains(&id) || found.is_none();
            loaded.jobs.insert(job_id(id), Known { found, locked });
        }
        self.tell_time(&now, loaded);
        Ok(())
    }

    fn tell_time(&self, rows: &[Row], loaded: &mut Loaded) {
        let Some(row) = rows.first() else { return };
        loaded.test_now = self.clock.map(|clock| clock.now());
        // Due jobs were chosen at one instant, which stays the time of the run.
        if loaded.due_at.is_none() {
            loaded.now = self.clock.map_or_else(|| at(row.get(0)), |clock| clock.now());
        }
        loaded.seq = row.get::<_, i64>(1).cast_unsigned() << SEQ_BITS;
    }
}

/// The rows of a statement, or none if it is not needed.
async fn some(needed: bool, rows: impl Future<Output = Try<Vec<Row>>>) -> Try<Vec<Row>> {
    if needed { rows.await } else { Ok(Vec::new()) }
}

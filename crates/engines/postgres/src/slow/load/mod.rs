//! Reads and locks what a verb looks at, in as few round trips as can be. Decides nothing about jobs.
//!
//! Locks are taken in one order, so that verbs rarely meet in a deadlock: sessions, settings, unique
//! keys, ordering keys, jobs, places, tenants. What a job's keys are is read from its definition first, which
//! never changes.

mod due;
mod gather;
mod keys;
mod turns;

use crate::conn::Conn;
use crate::conn::error::Try;
use crate::rows::codec::Spec;
use crate::rows::entries::{self, Found, at, job_id};
use crate::slow::wants::{Held, Tenant, Wants};
pub(crate) use due::{EXPIRES, REMOVED};
use futures_util::future::{try_join3, try_join4};
pub(crate) use gather::{CONFIGURE_LOCK, PLAIN, SUSPECT, session};
pub(crate) use keys::LineRows;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::engine::{LaneStats, SessionId};
use windlass_core::model::{KindSettings, Name, PartName, QueueSettings};
use windlass_core::time::Clock;
use windlass_core::{JobId, Timestamp};
use windlass_executor::{Due, Head, LaneKey, SessionEntry, Standing, UniqueHold, UniqueSlot};

pub(crate) const NOW: &str =
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, nextval('{s}.entry')";
const DEFINITIONS: &str = "SELECT j.id, l.queue, l.kind, j.spec, e.session, s.alone
    FROM unnest($1::uuid[]) w (id) JOIN {s}.job j ON j.id = ANY(ARRAY[w.id])
    JOIN {s}.lane l ON l.id = ANY(ARRAY[j.lane]) LEFT JOIN {s}.lease e ON e.id = ANY(ARRAY[j.id])
    LEFT JOIN {s}.session s ON s.id = ANY(ARRAY[e.session])";
/// By a join, so that each job is looked for in its own leaf.
const LOCK_JOBS: &str =
    "SELECT j.id FROM unnest($1::uuid[]) w (id) JOIN {s}.job j ON j.id = ANY(ARRAY[w.id])
    ORDER BY w.id FOR UPDATE OF j";
const LOCK_FREE_JOBS: &str =
    "SELECT j.id FROM unnest($1::uuid[]) w (id) JOIN {s}.job j ON j.id = ANY(ARRAY[w.id])
    ORDER BY w.id FOR UPDATE OF j SKIP LOCKED";
/// By a look for each job: a join could be turned around, into one that passes by all that is ready.
const LOCK_READY: &str = "SELECT r.id FROM unnest($1::uuid[]) w (id)
    JOIN {s}.job j ON j.id = ANY(ARRAY[w.id]) LEFT JOIN {s}.life l ON l.id = ANY(ARRAY[j.id])
    CROSS JOIN LATERAL
        (SELECT id FROM {s}.ready WHERE lane = j.lane AND rank = coalesce(l.rank, j.rank)
            AND seq = coalesce(l.seq, j.seq) FOR UPDATE) r";
const LOCK_LEASES: &str = "SELECT id FROM {s}.lease WHERE id = ANY($1) ORDER BY id FOR UPDATE";

/// How far a load follows links from one thing to the next; beyond that, a run says what it misses.
const LINKS_MAX: usize = 3;
/// Entries a transaction may make under one number of the sequence.
const ENTRY_BITS: u32 = 20;

/// A job that was looked for.
#[derive(Debug)]
pub(crate) struct Known {
    /// As it was found, if there is one.
    pub(crate) found: Option<Found>,
    /// Whether it may be changed.
    pub(crate) locked: bool,
}

/// What was read so far.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) now: Timestamp,
    /// The time of a test, which statements take instead of the store's.
    pub(crate) test_now: Option<Timestamp>,
    /// Entries are numbered from here on.
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
    /// Whether ready jobs were looked for.
    pub(crate) has_heads: bool,
    /// Ready jobs that were locked for a claim, by lane, in order.
    pub(crate) heads: BTreeMap<LaneKey, Vec<Head>>,
    /// When it was decided what is due.
    pub(crate) due_at: Option<Timestamp>,
    /// What a maintenance step may touch, and the first thing after that.
    pub(crate) due: Vec<Due>,
    /// Whether more may be due than what is known to be.
    pub(crate) unsure: bool,
    /// Lanes in numbers.
    pub(crate) stats: Vec<LaneStats>,
    /// Rows of `deadline` and `aging` that are out of date.
    pub(crate) stale: Vec<(Option<Name>, i64, JobId)>,
}

/// With what to load.
pub(crate) struct Loader<'a> {
    pub(crate) conn: &'a Conn<'a>,
    pub(crate) clock: Option<&'a Arc<dyn Clock>>,
}

/// Jobs a load is going to read.
#[derive(Default)]
struct Jobs {
    peek: Vec<Uuid>,
    own: Vec<Uuid>,
    /// Locked by their place already.
    heads: Vec<Uuid>,
    /// Own jobs that others hold are left to them.
    skip_held: bool,
}

impl Jobs {
    /// Chooses the jobs that are wanted and not there yet.
    fn choose(&mut self, wants: &Wants, loaded: &Loaded) {
        let owned = |id: &JobId| loaded.jobs.get(id).is_some_and(|known| known.locked);
        let own = wants.own.iter().filter(|id| !owned(id));
        self.own = own.map(|id| id.as_uuid()).collect();
        let unseen = |id: &&JobId| !loaded.jobs.contains_key(id) && !wants.own.contains(id);
        self.peek = wants.peek.iter().filter(unseen).map(|id| id.as_uuid()).collect();
        // A job may be both settled, in vain, and ready again.
        self.heads.retain(|id| !wants.own.contains(&job_id(*id)));
        let heads: HashSet<&Uuid> = self.heads.iter().collect();
        self.peek.retain(|id| !heads.contains(id));
    }
}

impl Loaded {
    /// Takes from sessions what turned out, once it was locked, not to be theirs any more.
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

    /// What leads on from what was just read: the holders of unique keys, and heirs.
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
    /// Reads what is wanted and not there yet, and what that leads to.
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
        // Last, so that nobody who holds a ready job waits for anything.
        if let Some(claim) = claim.filter(|_| !loaded.has_heads) {
            self.heads(&claim, loaded).await?;
        }
        loaded.let_go();
        Ok(())
    }

    /// Learns the keys and sessions of jobs that are to be locked.
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

    /// The rest, in one round trip.
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
        // In this order: they are sent one after the other, and the last ones see what the locks left.
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
        // What was found to be due was so at one instant; it must stay that one.
        if loaded.due_at.is_none() {
            loaded.now = self.clock.map_or_else(|| at(row.get(0)), |clock| clock.now());
        }
        loaded.seq = row.get::<_, i64>(1).cast_unsigned() << ENTRY_BITS;
    }
}

/// The rows of a statement that may not be needed.
async fn some(needed: bool, rows: impl Future<Output = Try<Vec<Row>>>) -> Try<Vec<Row>> {
    if needed { rows.await } else { Ok(Vec::new()) }
}

//! Loads and locks the rows that a verb needs, in few round trips. Makes no decisions about jobs.
//! Locks are taken in one order, which makes deadlocks rare: sessions, settings, groups and limits, unique keys, ordering keys, jobs,
//! places, tenants. The keys and the group of a job are read from its definition first, which never changes.

mod due;
mod edges;
mod gather;
mod groups;
mod keys;
pub(crate) mod peek;
mod turns;

use crate::conn::Conn;
use crate::conn::Row;
use crate::conn::error::{Trouble, Try};
use crate::rows::codec::Spec;
use crate::rows::entries::{self, JobRow, SEQ_BITS, at, job_id};
use crate::slow::save::{Saves, WorkingSet, saves};
pub(crate) use due::{EXPIRES, REMOVED};
pub(crate) use edges::{UNRESOLVED_MAX, inputs_of};
use futures_util::future::{try_join, try_join3, try_join4};
use gather::Metered;
pub(crate) use gather::{
    CONFIGURE_LOCK, COSTLY, PLAIN, PLAIN_ALONE, PLAIN_IN_GROUP, SUSPECT, SettingRows, add_settings,
    session,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex};
use uuid::Uuid;
use windlass_core::JobId;
use windlass_core::engine::SessionId;
use windlass_core::model::{Name, PartName};
use windlass_core::sync::lock;
use windlass_core::time::Clock;
use windlass_executor::{LaneKey, Turns, UniqueSlot};
use windlass_workset::{Held, Known, Store, Wants};

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

/// Jobs that are read in one round trip. The server ends a transaction that is silent for 2 seconds, and decoding the rows
/// of tens of thousands of jobs can take that long.
const READ_TOGETHER: usize = 5_000;
/// Maximum links that a load follows from row to row; beyond that, a run reports missing rows.
const LINKS_MAX: usize = 3;

/// The rows that were loaded for a verb.
pub(crate) type Loaded = windlass_workset::Loaded<JobRow>;

/// Loads rows over a connection.
pub(crate) struct Loader<'a, 'c> {
    pub(crate) conn: &'a Conn<'c>,
    pub(crate) clock: Option<&'a Arc<dyn Clock>>,
    /// Lanes that the runs add jobs to.
    entered: Mutex<BTreeSet<LaneKey>>,
}

impl<'a, 'c> Loader<'a, 'c> {
    pub(crate) fn new(conn: &'a Conn<'c>, clock: Option<&'a Arc<dyn Clock>>) -> Self {
        Self { conn, clock, entered: Mutex::default() }
    }

    /// The lanes that the runs add jobs to, beside those that were `created` for them. Jobs that are copied for the
    /// subscriptions of a topic have such lanes.
    pub(crate) fn lanes_beside(&self, created: &[LaneKey]) -> Vec<LaneKey> {
        let created: BTreeSet<&LaneKey> = created.iter().collect();
        let entered = lock(&self.entered);
        entered.iter().filter(|lane| !created.contains(lane)).cloned().collect()
    }
}

impl windlass_workset::Lanes for Loader<'_, '_> {
    fn lanes_before(&self, lane: &LaneKey) -> Option<usize> {
        let mut entered = lock(&self.entered);
        if !entered.contains(lane) {
            entered.insert(lane.clone());
        }
        self.conn.lanes.lanes_before(lane)
    }
}

/// Jobs to load.
#[derive(Default)]
struct Jobs {
    peek: Vec<Uuid>,
    own: Vec<Uuid>,
    /// Locked already by their row in `ready`.
    heads: Vec<Uuid>,
    /// Those of them whose starts the executor decides.
    metered: Metered,
    /// Skip `own` jobs that other transactions have locked.
    skip_held: bool,
}

impl Jobs {
    /// Chooses the wanted jobs that are not loaded yet.
    fn choose(&mut self, wants: &Wants, loaded: &Loaded) {
        self.own = loaded.to_own(wants).map(|id| id.as_uuid()).collect();
        self.peek = loaded.to_peek(wants).map(|id| id.as_uuid()).collect();
        // A job may be settled with a stale lease and be ready again.
        self.heads.retain(|id| !wants.own.contains(&job_id(*id)));
        let heads: HashSet<&Uuid> = self.heads.iter().collect();
        self.peek.retain(|id| !heads.contains(id));
    }
}

impl Jobs {
    /// Splits off the jobs that are too many for one round trip; they are locked in the order of their ids all the same.
    fn split(&mut self) -> Vec<Self> {
        let own = self.own.split_off(self.own.len().min(READ_TOGETHER));
        let peek = self.peek.split_off(self.peek.len().min(READ_TOGETHER));
        let skip_held = self.skip_held;
        let own = own.chunks(READ_TOGETHER).map(|own| Self {
            own: own.to_vec(),
            skip_held,
            ..Self::default()
        });
        let peek = peek.chunks(READ_TOGETHER).map(|peek| Self {
            peek: peek.to_vec(),
            skip_held,
            ..Self::default()
        });
        own.chain(peek).collect()
    }
}

impl Store for Loader<'_, '_> {
    type Row = JobRow;
    type Saves = Saves;
    type Error = Trouble;

    /// Reads the wanted rows that are not loaded yet, and the rows they refer to.
    async fn load(&self, wants: &Wants, loaded: &mut Loaded) -> Try<()> {
        let mut wants = wants.clone();
        let mut jobs = Jobs::default();
        self.gather(&mut wants, loaded, &mut jobs).await?;
        self.find_due(&mut wants, loaded, &mut jobs).await?;
        let (due, claim) = (wants.due, wants.heads.clone());
        for link in 0..LINKS_MAX {
            jobs.choose(&wants, loaded);
            let rest = jobs.split();
            self.define(&mut wants, &jobs, loaded).await?;
            for jobs in &rest {
                self.define(&mut wants, jobs, loaded).await?;
            }
            self.groups(&wants, loaded).await?;
            self.read(&wants, loaded, &jobs).await?;
            if let Some(claim) = &claim {
                self.add_metered(mem::take(&mut jobs.metered), claim, loaded).await?;
            }
            // Everything else was read with the first jobs.
            let nothing = Wants { parts: wants.parts, ..Wants::default() };
            for jobs in &rest {
                self.read(&nothing, loaded, jobs).await?;
            }
            // Dependents of dependents are loaded once a run needs them.
            if wants.heirs && link == 0 {
                let followed: Vec<JobId> = loaded.followed(&wants.own).collect();
                wants.edges.extend(followed);
            }
            self.edges(&wants, loaded).await?;
            jobs = Jobs { skip_held: jobs.skip_held, ..Jobs::default() };
            wants = loaded.linked(&wants);
            if wants.is_empty() {
                break;
            }
        }
        if let Some(request) = due {
            loaded.verify_due(request);
        }
        // Last, so that a transaction with locks on ready jobs waits for nothing.
        if let Some(claim) = claim.filter(|_| !loaded.has_heads) {
            self.heads(&claim, loaded).await?;
        }
        loaded.drop_ended_leases();
        Ok(())
    }

    fn lanes(&self) -> &dyn windlass_workset::Lanes {
        self
    }

    fn saves(&self, set: &WorkingSet<'_>, turns: &HashMap<Name, Turns>) -> Try<Saves> {
        saves(set, turns, &self.conn.lanes)
    }
}

impl Loader<'_, '_> {
    /// Adds the keys, groups and sessions of the jobs to lock to the wants.
    async fn define(&self, wants: &mut Wants, jobs: &Jobs, loaded: &mut Loaded) -> Try<()> {
        let needs_limits = !wants.groups.is_empty() || !wants.meters.is_empty();
        if jobs.own.is_empty() && !needs_limits {
            return Ok(());
        }
        self.conn.prepare(&[DEFINITIONS]).await?;
        gather::prepare(self.conn).await?;
        let (defined, settings) = try_join(
            some(!jobs.own.is_empty(), self.conn.query(DEFINITIONS, &[&jobs.own])),
            self.settings(loaded.queues.is_none(), &Default::default()),
        )
        .await?;
        if loaded.queues.is_none() {
            add_settings(loaded, settings)?;
        }
        for row in defined {
            if let Some(session) = row.get::<_, Option<String>>(4)
                && (wants.lease_sessions || row.get::<_, Option<bool>>(5) == Some(true))
            {
                wants.sessions.entry(SessionId::new(session)).or_insert(Held::All);
            }
            let spec: Spec = crate::rows::codec::from_text(row.get(3))?;
            let lane: LaneKey = (row.get::<_, &str>(1).into(), row.get::<_, &str>(2).into());
            if let Some(unique) = spec.unique.as_ref().filter(|_| !wants.moving_up) {
                let (queue, kind) = (&*lane.0, &*lane.1);
                wants.slots.insert(UniqueSlot::new(unique.scope, queue, kind, &unique.key));
            }
            if let Some(key) = &spec.key {
                wants.lines.insert((lane.0.clone(), key.clone()));
            }
            if loaded.is_grouped(&lane) && !loaded.has_group(spec.limit_group()) {
                wants.groups.insert(spec.limit_group().to_owned());
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
        gather::add_sessions(loaded, session_rows);
        add_settings(loaded, settings)?;
        keys::add_keys(loaded, wants, keys);
        turns::add_turns(loaded, wants, turns);
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

//! Loads sessions, settings and ready jobs.

use super::{Jobs, Loaded, Loader, NOW, some};
use crate::conn::Conn;
use crate::conn::Row;
use crate::conn::error::Try;
use crate::rows::codec;
use crate::rows::entries::{at, job_id, session_columns};
use futures_util::future::{try_join, try_join3, try_join5};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use uuid::Uuid;
use windlass_core::JobId;
use windlass_core::engine::{Claim, SessionId, WorkerInfo};
use windlass_core::limits::RANK_MAX;
use windlass_core::model::Name;
use windlass_executor::{Head, LaneKey, SessionEntry};
use windlass_workset::{Held, KnownLeases, Wants};

const SESSIONS: &str = concat!(
    "SELECT ",
    session_columns!("expires_at"),
    " FROM {s}.session WHERE id = ANY($1) ORDER BY id FOR UPDATE"
);
const HELD_ALL: &str = "SELECT session, id FROM {s}.lease WHERE session = ANY($1)";
/// The leases of sessions, as far as the heartbeat cache leaves them possible.
const HELD_KNOWN: &str =
    "SELECT session, id FROM {s}.lease WHERE session = ANY($1) AND claim_no > $2
    UNION SELECT session, id FROM {s}.lease WHERE session = ANY($1) AND claim_no = ANY($3)
    UNION SELECT session, id FROM (SELECT session, id FROM {s}.lease WHERE id = ANY($4) OFFSET 0) e
        WHERE session = ANY($1)";
const HELD_CLAIM: &str =
    "SELECT e.session, e.id FROM unnest($1::text[], $2::bigint[]) w (session, no)
    JOIN {s}.lease e ON e.session = ANY(ARRAY[w.session]) AND e.claim_no = w.no";
pub(crate) const CONFIGURE_LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended({'s'} || ' is configured', 0))";
const LOCK_KINDS: &str = "SELECT name FROM {s}.kind WHERE $1 OR limited ORDER BY name FOR UPDATE";
/// The settings of all queues (0), kinds (1) and limits (2).
const SETTINGS: &str = "SELECT 0::smallint, name, settings FROM {s}.queue
    UNION ALL SELECT 1::smallint, name, settings FROM {s}.kind
    UNION ALL SELECT 2::smallint, name, settings FROM {s}.limit_rule";
const LIMITED: &str =
    "SELECT name FROM {s}.queue WHERE name = ANY($1) AND limited ORDER BY name FOR UPDATE";
const DEPTHS: &str = "SELECT q.name,
        coalesce(sum(t.scheduled + t.blocked + t.available + t.paused), 0)::bigint
    FROM {s}.queue q LEFT JOIN {s}.lane l ON l.queue = q.name LEFT JOIN {s}.tally t ON t.lane = l.id
    WHERE q.name = ANY($1) AND q.limited GROUP BY q.name";
/// Heads of open lanes without limits, idle ones included. Skips jobs locked by other claims.
const HEADS: &str = "SELECT l.queue, l.kind, r.rank, r.seq, r.id, r.flags
    FROM {s}.open_lane l CROSS JOIN LATERAL
        (SELECT rank, seq, id, flags FROM {s}.ready WHERE lane = l.id AND rank >= $4
            ORDER BY rank, seq LIMIT $3 FOR UPDATE SKIP LOCKED) r
    WHERE l.queue = ANY($1) AND ($2::text[] IS NULL OR l.kind = ANY($2)) AND NOT l.metered /* busy */";
/// Heads of open lanes with limits.
const HEADS_METERED: &str = "SELECT l.queue, l.kind, r.rank, r.seq, r.id, r.flags
    FROM {s}.open_lane l CROSS JOIN LATERAL
        (SELECT rank, seq, id, flags FROM {s}.ready WHERE lane = l.id AND rank >= $4
            ORDER BY rank, seq LIMIT $3 FOR UPDATE SKIP LOCKED) r
    WHERE l.queue = ANY($1) AND ($2::text[] IS NULL OR l.kind = ANY($2)) AND l.metered";
/// Heads of open lanes that are not idle.
static HEADS_BUSY: LazyLock<String> =
    LazyLock::new(|| HEADS.replace("/* busy */", "AND NOT l.idle"));

/// Bits of `ready.flags` and `lease.flags`.
pub(crate) const SUSPECT: i16 = 1;
/// The job can be completed by changing only its lease and its end.
pub(crate) const PLAIN: i16 = 2;
/// The same for a job that was claimed without a session, whose last completion also ends the claim's session. Only the
/// SQL function does that.
pub(crate) const PLAIN_ALONE: i16 = 4;
/// The start of the job takes another number of tokens than one.
pub(crate) const COSTLY: i16 = 8;
/// A limit by group counts the job. It can be completed like a plain one while its group is locked and no job of the
/// group waits.
pub(crate) const PLAIN_IN_GROUP: i16 = 16;

/// Ready jobs that a claim reads of a lane with limits at least: it may return some of them to their lines.
const METERED_MIN: i64 = 32;

pub(super) async fn prepare(conn: &Conn<'_>) -> Try<()> {
    conn.prepare(&[SESSIONS, HELD_ALL, LIMITED, SETTINGS, DEPTHS]).await
}

/// Ready jobs of lanes with limits, locked, and groups of their queues whose time has come.
#[derive(Default)]
pub(super) struct Metered {
    heads: Vec<(LaneKey, Head)>,
    due: BTreeSet<String>,
}

impl Metered {
    /// All of them are read, because the claim may return some to their lines.
    fn ids(&self) -> impl Iterator<Item = Uuid> {
        self.heads.iter().map(|(_, head)| head.id.as_uuid())
    }
}

/// Rows of settings and depths.
#[derive(Default)]
pub(crate) struct SettingRows {
    settings: Vec<Row>,
    depths: Vec<Row>,
}

impl SettingRows {
    pub(super) async fn prepare(conn: &Conn<'_>) -> Try<()> {
        conn.prepare(&[SETTINGS]).await
    }

    /// All settings.
    pub(crate) async fn read(conn: &Conn<'_>) -> Try<Self> {
        Ok(Self { settings: conn.query(SETTINGS, &[]).await?, depths: Vec::new() })
    }
}

impl Loader<'_, '_> {
    /// Loads sessions, their leases, settings and heads of lanes, and adds the jobs found to the wants.
    pub(super) async fn gather(
        &self,
        wants: &mut Wants,
        loaded: &mut Loaded,
        jobs: &mut Jobs,
    ) -> Try<()> {
        if wants.sessions.is_empty()
            && wants.heads.is_none()
            && !wants.settings
            && wants.due.is_none()
        {
            return Ok(());
        }
        let conn = self.conn;
        conn.prepare(&[SESSIONS, HELD_ALL, HELD_KNOWN, HELD_CLAIM, CONFIGURE_LOCK, LOCK_KINDS])
            .await?;
        conn.prepare(&[SETTINGS, LIMITED, DEPTHS, &HEADS_BUSY, NOW]).await?;
        let ids: Vec<&str> = wants.sessions.keys().map(SessionId::as_str).collect();
        let all = held_whole(&wants.sessions);
        let (of_claims, numbers): (Vec<&str>, Vec<i64>) = claims(&wants.sessions).unzip();
        let claims = wants.heads.is_some();
        // In the same round trip if nothing else is locked after them.
        let heads_now = wants.heads.as_ref().filter(|_| wants.locks_nothing_more());
        let (queues, kinds, limit, from) = heads_now.map_or_else(Default::default, wanted);
        let no_queues = BTreeSet::new();
        let ((sessions, whole, part, _, _), (settings, heads, now)) = try_join(
            try_join5(
                some(!ids.is_empty(), conn.query(SESSIONS, &[&ids])),
                some(!all.is_empty(), self.held_whole(wants, &all)),
                some(!of_claims.is_empty(), conn.query(HELD_CLAIM, &[&of_claims, &numbers])),
                some(wants.settings, conn.query(CONFIGURE_LOCK, &[])),
                some(claims || wants.settings, conn.query(LOCK_KINDS, &[&wants.settings])),
            ),
            try_join3(
                self.settings(true, &no_queues),
                some(
                    heads_now.is_some(),
                    conn.query(&HEADS_BUSY, &[&queues, &kinds, &limit, &from]),
                ),
                conn.query(NOW, &[]),
            ),
        )
        .await?;
        self.tell_time(&now, loaded);
        add_settings(loaded, settings)?;
        for id in wants.sessions.keys() {
            loaded.held.entry(id.clone()).or_default();
        }
        add_sessions(loaded, (sessions, Vec::new()));
        for row in &whole {
            let id = add_held(loaded, row);
            // Leases that the worker did not name will be released.
            if !wants.peek.contains(&id) {
                wants.own.insert(id);
            }
        }
        wants.peek.extend(part.iter().map(|row| add_held(loaded, row)));
        // Before ready jobs are locked.
        self.groups(wants, loaded).await?;
        wants.groups.clear();
        if let Some(claim) = wants.heads.as_ref().filter(|_| wants.locks_nothing_more()) {
            let heads = self.or_everywhere(heads, claim).await?;
            jobs.heads = add_heads(loaded, &heads, claim);
            jobs.metered = self.metered_heads(claim, loaded).await?;
            jobs.heads.extend(jobs.metered.ids());
        }
        Ok(())
    }

    /// Ready jobs of lanes with limits for a claim. The meters of limits over all jobs come first: a transaction with
    /// locks on ready jobs waits for nothing.
    async fn metered_heads(&self, claim: &Claim, loaded: &mut Loaded) -> Try<Metered> {
        if !is_metered(claim, loaded) {
            return Ok(Metered::default());
        }
        let conn = self.conn;
        let (queues, kinds, limit, from) = wanted(claim);
        let limit = limit.max(METERED_MIN);
        self.groups(&limits_over_all(claim, loaded), loaded).await?;
        conn.prepare(&[HEADS_METERED]).await?;
        let (rows, due) = try_join(
            conn.query(HEADS_METERED, &[&queues, &kinds, &limit, &from]),
            self.due_groups(&queues, loaded.now),
        )
        .await?;
        let heads = rows.iter().map(head).collect();
        Ok(Metered { heads, due: due.into_iter().map(|(_, it)| it.group).collect() })
    }

    /// Adds these ready jobs, which were read, and their groups. Skips groups that other transactions have locked, with
    /// their jobs.
    pub(super) async fn add_metered(
        &self,
        metered: Metered,
        claim: &Claim,
        loaded: &mut Loaded,
    ) -> Try<()> {
        let Metered { heads, due: mut groups } = metered;
        if heads.is_empty() && groups.is_empty() {
            return Ok(());
        }
        let group = |lane: &LaneKey, head: &Head, loaded: &Loaded| {
            let found = loaded.jobs.get(&head.id)?.found.as_ref();
            found
                .filter(|_| loaded.is_grouped(lane))
                .map(|it| it.entry.job.header.limit_group().to_owned())
        };
        groups.extend(heads.iter().filter_map(|(lane, head)| group(lane, head, loaded)));
        self.try_groups(groups, loaded).await?;
        let (free, skipped): (Vec<_>, Vec<_>) = heads.into_iter().partition(|(lane, head)| {
            group(lane, head, loaded).is_none_or(|group| loaded.has_group(&group))
        });
        for (_, head) in skipped {
            loaded.jobs.remove(&head.id);
        }
        drop(loaded.add_heads(claim, free.into_iter()));
        Ok(())
    }

    /// The leases of sessions.
    async fn held_whole(&self, wants: &Wants, sessions: &[&str]) -> Try<Vec<Row>> {
        match wants.known.as_deref() {
            Some(KnownLeases { upto, unanswered, declared }) => {
                let unanswered: Vec<i64> = unanswered.iter().map(|no| no.cast_signed()).collect();
                let declared: Vec<Uuid> = declared.iter().map(|id| id.as_uuid()).collect();
                let upto = upto.cast_signed();
                self.conn.query(HELD_KNOWN, &[&sessions, &upto, &unanswered, &declared]).await
            }
            None => self.conn.query(HELD_ALL, &[&sessions]).await,
        }
    }

    /// Ready jobs for a claim, locked last.
    pub(super) async fn heads(&self, claim: &Claim, loaded: &mut Loaded) -> Try<()> {
        let (queues, kinds, limit, from) = wanted(claim);
        let rows = self.conn.query(&HEADS_BUSY, &[&queues, &kinds, &limit, &from]).await?;
        let rows = self.or_everywhere(rows, claim).await?;
        let mut heads = add_heads(loaded, &rows, claim);
        let metered = self.metered_heads(claim, loaded).await?;
        heads.extend(metered.ids());
        heads.retain(|id| !loaded.is_locked(&job_id(*id)));
        let wants = Wants { parts: claim.parts, ..Wants::default() };
        self.read(&wants, loaded, &Jobs { heads, ..Jobs::default() }).await?;
        self.add_metered(metered, claim, loaded).await
    }

    /// These heads; if there are none, heads of idle lanes.
    async fn or_everywhere(&self, heads: Vec<Row>, claim: &Claim) -> Try<Vec<Row>> {
        if !heads.is_empty() {
            return Ok(heads);
        }
        let (queues, kinds, limit, from) = wanted(claim);
        self.conn.query(HEADS, &[&queues, &kinds, &limit, &from]).await
    }

    /// Reads settings; locks queues that limit their depth and reads their depth.
    pub(super) async fn settings(&self, needed: bool, depths: &BTreeSet<Name>) -> Try<SettingRows> {
        let conn = self.conn;
        let names: Vec<&str> = depths.iter().map(|name| &**name).collect();
        let limits = !names.is_empty();
        let (_, settings, depths) = try_join3(
            some(limits, conn.query(LIMITED, &[&names])),
            some(needed, conn.query(SETTINGS, &[])),
            some(limits, conn.query(DEPTHS, &[&names])),
        )
        .await?;
        Ok(SettingRows { settings, depths })
    }

    /// Sessions wanted because of wanted jobs.
    pub(super) async fn late_sessions(
        &self,
        wants: &Wants,
        loaded: &Loaded,
    ) -> Try<(Vec<Row>, Vec<Row>)> {
        let missing = wants.sessions.keys().filter(|id| !loaded.held.contains_key(*id));
        let ids: Vec<&str> = missing.map(SessionId::as_str).collect();
        let needed = !ids.is_empty();
        try_join(
            some(needed, self.conn.query(SESSIONS, &[&ids])),
            some(needed, self.conn.query(HELD_ALL, &[&ids])),
        )
        .await
    }
}

fn held_whole(sessions: &BTreeMap<SessionId, Held>) -> Vec<&str> {
    let whole = sessions.iter().filter(|(_, held)| **held == Held::All);
    whole.map(|(id, _)| id.as_str()).collect()
}

fn claims(sessions: &BTreeMap<SessionId, Held>) -> impl Iterator<Item = (&str, i64)> {
    sessions.iter().filter_map(|(id, held)| match held {
        Held::Claim(number) => Some((id.as_str(), number.cast_signed())),
        Held::All => None,
    })
}

/// The queues and kinds of a claim, the maximum jobs per lane, and the lowest rank.
fn wanted(claim: &Claim) -> (Vec<String>, Option<Vec<String>>, i64, i64) {
    let queues = claim.queues.iter().map(|want| want.queue.to_string()).collect();
    let kinds = claim.kinds.as_ref();
    let kinds = kinds.map(|kinds| kinds.iter().map(|want| want.kind.to_string()).collect());
    let from = claim.from_priority.map_or(-RANK_MAX, i64::from);
    (queues, kinds, i64::from(claim.limit), from)
}

/// Whether a claim may find jobs in lanes whose starts the executor decides: limits, or a queue that is held.
fn is_metered(claim: &Claim, loaded: &Loaded) -> bool {
    let queues = loaded.queues.as_ref();
    let mut of_claim = claim.queues.iter().filter_map(|want| queues?.get(&want.queue));
    of_claim.any(|settings| !settings.limits.is_empty() || settings.held_until.is_some())
        || loaded.kinds.values().any(|settings| !settings.limits.is_empty())
}

/// Adds rows of sessions, and of the leases they hold.
pub(super) fn add_sessions(loaded: &mut Loaded, (sessions, held): (Vec<Row>, Vec<Row>)) {
    for row in &sessions {
        let (id, session) = session(row);
        loaded.held.entry(id.clone()).or_default();
        loaded.sessions.insert(id, session);
    }
    for row in &held {
        add_held(loaded, row);
    }
}

/// Adds a lease to the session that holds it.
pub(super) fn add_held(loaded: &mut Loaded, row: &Row) -> JobId {
    let id = job_id(row.get(1));
    loaded.held.entry(SessionId::new(row.get::<_, &str>(0))).or_default().insert(id);
    id
}

/// Adds settings of queues and kinds, limits, and depths of queues.
pub(crate) fn add_settings(loaded: &mut Loaded, rows: SettingRows) -> Try<()> {
    let SettingRows { settings, depths } = rows;
    let queues = loaded.queues.get_or_insert_default();
    for row in &settings {
        let (name, text) = (row.get::<_, &str>(1).into(), row.get(2));
        match row.get::<_, i16>(0) {
            0 => drop(queues.insert(name, codec::from_text(text)?)),
            1 => drop(loaded.kinds.insert(name, codec::from_text(text)?)),
            _ => drop(loaded.limits.insert(name, codec::from_text(text)?)),
        }
    }
    for row in &depths {
        let depth: i64 = row.get(1);
        loaded.depths.insert(row.get::<_, &str>(0).into(), depth.max(0).cast_unsigned());
    }
    Ok(())
}

/// Adds heads of lanes; returns the jobs that a claim is going to take.
fn add_heads(loaded: &mut Loaded, rows: &[Row], claim: &Claim) -> Vec<Uuid> {
    let heads = rows.iter().map(head);
    loaded.add_heads(claim, heads).map(|id| id.as_uuid()).collect()
}

/// Reads the head of a lane.
fn head(row: &Row) -> (LaneKey, Head) {
    let lane = (row.get::<_, &str>(0).into(), row.get::<_, &str>(1).into());
    let head = Head {
        rank: row.get(2),
        seq: row.get::<_, i64>(3).cast_unsigned(),
        id: job_id(row.get(4)),
        suspect: row.get::<_, i16>(5) & SUSPECT != 0,
    };
    (lane, head)
}

/// The meters of limits over all jobs that may concern a claim.
fn limits_over_all(claim: &Claim, loaded: &Loaded) -> Wants {
    let queues = loaded.queues.as_ref();
    let of_queues = claim.queues.iter().filter_map(|want| queues?.get(&want.queue));
    let of_kinds = loaded.kinds.iter().filter(|(kind, _)| {
        claim.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|want| want.kind == **kind))
    });
    let listed = of_queues.map(|settings| &settings.limits);
    let listed = listed.chain(of_kinds.map(|(_, settings)| &settings.limits)).flatten();
    let over_all = |name: &&Name| loaded.limits.get(*name).is_some_and(|limit| !limit.by_group);
    let meters = listed.filter(over_all).cloned().collect();
    Wants { meters, ..Wants::default() }
}

/// Reads a session from its row.
pub(crate) fn session(row: &Row) -> (SessionId, SessionEntry) {
    let entry = SessionEntry {
        worker: row.get(1),
        info: WorkerInfo::default(),
        opened_at: at(row.get(2)),
        ttl_ms: row.get::<_, i64>(3).cast_unsigned(),
        expires_at: at(row.get(4)),
        alone: row.get(5),
        remote: row.get(6),
    };
    (SessionId::new(row.get::<_, String>(0)), entry)
}

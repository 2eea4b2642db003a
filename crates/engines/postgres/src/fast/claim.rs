//! Claiming from one queue for a session: heads of open lanes, straight into leases.

use crate::conn::error::{Trouble, Try};
use crate::conn::{Conn, Lent, Params};
use crate::engine::PostgresEngine;
use crate::fast::contention::{Door, Seen};
use crate::fast::scan_cursor::{Come, Ranges, Told};
use crate::rows::entries::{self, at};
use futures_util::future::{try_join, try_join5};
use std::sync::LazyLock;
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::engine::{Claim, Claimant, Claimed, Stamped};
use windlass_core::model::PartName;
use windlass_core::{Error, Result, Timestamp};

/// Looks at all lanes of a queue, however many are idle.
pub(super) const CLAIM: &str = include_str!("../../sql/claim.sql");
/// The same without idle lanes.
static CLAIM_BUSY: LazyLock<String> = LazyLock::new(|| CLAIM.replace("--busy ", ""));
/// The same through a door. Apart, as what it does more takes time that others need not spend.
static CLAIM_IN_CROWD: LazyLock<String> = LazyLock::new(|| CLAIM.replace("--door ", ""));
static CLAIM_BUSY_IN_CROWD: LazyLock<String> = LazyLock::new(|| CLAIM_BUSY.replace("--door ", ""));
/// One claim at a time under one name; and no session is reclaimed while it claims.
pub(super) const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended(id || ' claims', $2::bigint))
    FROM {s}.session WHERE id = $1 FOR KEY SHARE";
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off";
/// What is leased under a claim: its own jobs, or those of the claim it repeats.
pub(super) const LEASED: &str = "SELECT j.id, j.lane, j.priority, j.run_at, j.created_at, j.state, j.rank,
        j.seq, j.spec, j.payload IS NOT NULL, CASE WHEN $3 THEN j.payload END, j.envelope,
        l.state, l.rank, l.seq, l.ready_at, l.run_at, l.priority, l.attempt, l.failures, l.crashes,
        l.flags, l.started_at, l.finished_at, l.tail,
        e.token, e.session, e.claim_no, e.started_at, e.attempt, e.seq, ''::text,
        NULL::smallint, NULL::bigint, NULL::uuid, NULL::text, NULL::bigint, NULL::bigint, NULL::bytea
    FROM {s}.lease e JOIN {s}.job j ON j.id = ANY(ARRAY[e.id])
        LEFT JOIN {s}.life l ON l.id = ANY(ARRAY[e.id])
    WHERE e.session = $1 AND e.claim_no = $2 ORDER BY e.seq";
pub(super) const LEASED_PARTS: &str = "SELECT p.id, p.name, p.bytes IS NOT NULL,
        CASE WHEN (1 << p.name) & $3 <> 0 THEN p.bytes END, p.envelope
    FROM {s}.lease e JOIN {s}.part p ON p.id = ANY(ARRAY[e.id])
    WHERE e.session = $1 AND e.claim_no = $2";

/// A claim that can be carried out by the shortcut.
pub(crate) struct HotClaim<'a> {
    claim: &'a Claim,
    session: &'a str,
    claim_no: i64,
    kinds: Option<Vec<&'a str>>,
    tokens: Vec<Uuid>,
    /// What reports that came before it leave on the connection, once all of them are settled.
    after: Option<Uuid>,
    /// Where to look.
    ranges: Ranges,
    told: Option<Told>,
    /// What to go through.
    door: Option<Door>,
}

/// What a claim's statements said.
struct Answer {
    locked: Vec<Row>,
    told: Vec<Row>,
    jobs: Vec<Row>,
    parts: Vec<Row>,
}

impl<'a> HotClaim<'a> {
    /// This claim, if its shape is one that the shortcut takes.
    pub(crate) fn of(claim: &'a Claim, engine: &PostgresEngine) -> Option<Self> {
        let Claimant::Session { session, claim_no } = &claim.by else { return None };
        let [want] = claim.queues.as_slice() else { return None };
        let limited = |limit: u32| limit < claim.limit;
        let by_kind = claim.kinds.iter().flatten().any(|want| limited(want.limit));
        if limited(want.limit) || by_kind {
            return None;
        }
        let random = &engine.inner.shared.random;
        let kinds = claim.kinds.as_ref();
        Some(Self {
            claim,
            session: session.as_str(),
            claim_no: claim_no.cast_signed(),
            kinds: kinds.map(|kinds| kinds.iter().map(|want| &*want.kind).collect()),
            tokens: (0..claim.limit).map(|_| Uuid::from_u128(random.next_u128())).collect(),
            after: None,
            ranges: Ranges::default(),
            told: None,
            door: None,
        })
    }

    /// The same, from where on ready jobs are known to be, and through a door where there is a crowd. On a connection
    /// by now: what is known holds for one epoch of the store. A pooler lets few through at a time by itself.
    pub(super) fn aim(&mut self, engine: &PostgresEngine, conn: &Conn<'_>) {
        let inner = &engine.inner;
        let door = inner.crowd.door(&*inner.shared.random).filter(|_| conn.has_session());
        let (ranges, told) = inner.hints.for_claim(&self.claim.queues[0].queue, door.is_some());
        (self.ranges, self.told, self.door) = (ranges, Some(told), door);
    }

    /// Remembers from where on ready jobs are, and whether there is a crowd.
    fn learn(&self, engine: &PostgresEngine, told: &Row, jobs: &[Row]) {
        let (others, waited_ms) = (told.get(3), told.get(4));
        let seen = Seen { door: self.door, limit: self.claim.limit, others, waited_ms };
        engine.inner.crowd.saw(seen);
        let hints = &engine.inner.hints;
        if let Some(aimed) = self.told {
            let come = self.door.map_or_else(Come::default, |_| come(told));
            hints.taken(aimed, &self.claim.queues[0].queue, jobs.iter().map(place), &come);
        }
        if let Some(left) = told.get::<_, Option<i64>>(2) {
            hints.news(left);
        }
    }

    /// Nothing is to be taken unless the reports of this receipt were settled.
    pub(super) const fn after(&mut self, receipt: Uuid) {
        self.after = Some(receipt);
    }

    pub(super) async fn prepare(conn: &Conn<'_>) -> Try<()> {
        conn.prepare(&[LOCK, &CLAIM_BUSY, LEASED, LEASED_PARTS]).await
    }

    /// The statement that claims.
    fn statement(&self) -> &'static str {
        let everywhere = self.told.is_none_or(|told| told.is_everywhere());
        match (self.door.is_some(), everywhere) {
            (false, false) => &CLAIM_BUSY,
            (false, true) => CLAIM,
            (true, false) => &CLAIM_BUSY_IN_CROWD,
            (true, true) => &CLAIM_IN_CROWD,
        }
    }

    /// Keeps others from claiming under this name and from reclaiming the session, claims, and reads what is leased.
    async fn claim(&self, conn: &Conn<'_>, now: Option<i64>) -> Try<Answer> {
        let Self { claim, session, claim_no, kinds, tokens, after, ranges, door, .. } = self;
        let Ranges { lanes, from_ranks, from_seqs, upto_ranks, believed } = ranges;
        let queue = &*claim.queues[0].queue;
        let limit = i64::from(claim.limit);
        let payload = claim.parts.has(PartName::Payload);
        let bits = entries::part_bits(claim.parts);
        let to_lock: Params<'_> = &[session, claim_no];
        let to_claim: Params<'_> = &[
            session, claim_no, &queue, kinds, &limit, tokens, &now, after, lanes, from_ranks,
            from_seqs, upto_ranks,
        ];
        let believed: Params<'_> = &[believed];
        let (of_jobs, of_parts): (Params<'_>, Params<'_>) =
            (&[session, claim_no, &payload], &[session, claim_no, &bits]);
        let (lock, commit) = (conn.query(LOCK, to_lock), conn.command("COMMIT"));
        let (jobs, parts) = (conn.query(LEASED, of_jobs), conn.query(LEASED_PARTS, of_parts));
        let (locked, told, jobs, parts) = if door.is_none() {
            let claim = conn.query(self.statement(), to_claim);
            let (locked, told, jobs, parts, ()) =
                try_join5(lock, claim, jobs, parts, commit).await?;
            (locked, told, jobs, parts)
        } else {
            // Others wait at the door: no longer than they must, and not for a slow reader.
            let to_claim = [to_claim, believed].concat();
            let claim = conn.query(self.statement(), &to_claim);
            let (locked, told, (), jobs, parts) =
                try_join5(lock, claim, commit, jobs, parts).await?;
            (locked, told, jobs, parts)
        };
        Ok(Answer { locked, told, jobs, parts })
    }

    /// What the statements' answer means; nothing if the executor must look.
    async fn read(
        &self,
        engine: &PostgresEngine,
        conn: &Conn<'_>,
        answer: Answer,
    ) -> Try<Option<(Timestamp, Result<Claimed>)>> {
        let Answer { locked, told, jobs, parts } = answer;
        let Some(told) = told.first() else { return Ok(None) };
        let now = engine.inner.shared.now(at(told.get(0)));
        if locked.is_empty() {
            let lost = Error::SessionLost { session: self.session.to_owned() };
            return Ok(Some((now, Err(lost))));
        }
        if told.get::<_, bool>(1) && jobs.is_empty() {
            return Ok(None);
        }
        self.learn(engine, told, &jobs);
        let mut found = entries::found(conn, &jobs, &parts).await?;
        let claimed = jobs.iter().filter_map(|row| {
            let found = found.remove(&entries::job_id(row.get(0)))?;
            found.entry.claimed(self.claim.parts)
        });
        let claimed = claimed.collect();
        Ok(Some((now, Ok(Claimed::new(claimed)))))
    }
}

/// How far others had come, as a claim through a door tells.
fn come(told: &Row) -> Come {
    let (lanes, ranks, seqs): (Vec<i32>, Vec<i64>, Vec<i64>) =
        (told.get(5), told.get(6), told.get(7));
    lanes.into_iter().zip(ranks).zip(seqs).collect()
}

/// Where a job was when it was claimed: lane, rank, number.
fn place(row: &Row) -> (i32, i64, i64) {
    let rank = row.get::<_, Option<i64>>(13).unwrap_or_else(|| row.get(6));
    let seq = row.get::<_, Option<i64>>(14).unwrap_or_else(|| row.get(7));
    (row.get(1), rank, seq)
}

impl PostgresEngine {
    /// Carries out a claim; nothing if the executor must look at it.
    pub(crate) async fn claim_hot(&self, claim: &Claim) -> Result<Option<Stamped<Claimed>>> {
        let Some(mut hot) = HotClaim::of(claim, self) else { return Ok(None) };
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::told)?;
        hot.aim(self, &conn);
        match self.claim_on(&conn, &hot).await {
            Ok(answer) => {
                let epoch = conn.epoch.clone();
                conn.give_back();
                let Some((now, claimed)) = answer else { return Ok(None) };
                Ok(Some(Stamped { now, epoch, value: claimed? }))
            }
            Err(trouble) => self.after_trouble(conn, trouble).await,
        }
    }

    pub(super) async fn claim_on(
        &self,
        conn: &Lent,
        hot: &HotClaim<'_>,
    ) -> Try<Option<(Timestamp, Result<Claimed>)>> {
        HotClaim::prepare(conn).await?;
        conn.prepare(&[hot.statement()]).await?;
        let now = self.inner.shared.test_now().map(Timestamp::as_millis);
        let begin = hot.door.map_or_else(|| BEGIN.to_owned(), Door::begin);
        let ((), answer) = try_join(conn.plain(&begin), hot.claim(conn, now)).await?;
        hot.read(self, conn, answer).await
    }

    /// Leaves a connection clean; what somebody was in the way of is left to the executor, which tries
    /// again.
    pub(crate) async fn after_trouble<T>(&self, conn: Lent, trouble: Trouble) -> Result<Option<T>> {
        if conn.command("ROLLBACK").await.is_ok() {
            conn.give_back();
        }
        match trouble {
            Trouble::Again(_) => Ok(None),
            Trouble::Told(error) => Err(error),
        }
    }
}

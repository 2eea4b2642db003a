//! A session's claim from one queue: moves the heads of open lanes from `ready` to `lease` in one statement.

use crate::api::schema::Schema;
use crate::conn::Row;
use crate::conn::error::{Trouble, Try};
use crate::conn::{Conn, Lent, Params};
use crate::engine::PostgresEngine;
use crate::fast::scan_cursor::{Ranges, ScanStart};
use crate::rows::entries::{self, at, job_columns};
use futures_util::future::{try_join, try_join5};
use std::sync::LazyLock;
use uuid::Uuid;
use windlass_core::engine::{Claim, Claimed, PlainClaim, Stamped};
use windlass_core::model::{Name, PartName};
use windlass_core::{Error, Result, Timestamp};

/// Scans all lanes of a queue, idle ones included.
pub(super) const CLAIM: &str = include_str!("../../sql/claim.sql");
/// Scans all lanes that are not idle.
static CLAIM_BUSY: LazyLock<String> = LazyLock::new(|| CLAIM.replace("--busy ", ""));
/// Serializes claims with the same number, and keeps the session from being reclaimed meanwhile.
pub(super) const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended(id || ' claims', $2::bigint))
    FROM {s}.session WHERE id = $1 FOR KEY SHARE";
pub(super) const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off";
/// The jobs leased under a claim: its own, or those of the claim that it repeats.
pub(super) const LEASED: &str = concat!(
    "SELECT ",
    job_columns!(
        "$3",
        "''::text",
        "NULL::smallint, NULL::bigint, NULL::uuid, NULL::text, NULL::bigint, NULL::bigint, NULL::bytea,
            NULL::bigint, NULL::bigint"
    ),
    " FROM {s}.lease e JOIN {s}.job j ON j.id = ANY(ARRAY[e.id])
        LEFT JOIN {s}.life l ON l.id = ANY(ARRAY[e.id])
    WHERE e.session = $1 AND e.claim_no = $2 ORDER BY e.seq"
);
pub(super) const LEASED_PARTS: &str = "SELECT p.id, p.name, p.bytes IS NOT NULL,
        CASE WHEN (1 << p.name) & $3 <> 0 THEN p.bytes END, p.envelope
    FROM {s}.lease e JOIN {s}.part p ON p.id = ANY(ARRAY[e.id])
    WHERE e.session = $1 AND e.claim_no = $2";

/// For tests: the statement of a claim that scans all lanes, in this schema.
pub fn claim_statement(schema: &str) -> Result<String> {
    Ok(Schema::new(schema)?.render(CLAIM))
}

/// A plain claim, as the statements take it.
pub(crate) struct FastClaim<'a> {
    claim: &'a Claim,
    queue: &'a str,
    session: &'a str,
    claim_no: i64,
    kinds: Option<Vec<&'a str>>,
    tokens: Vec<Uuid>,
    /// The receipt of the reports before it: the claim takes nothing unless all of them were settled.
    after: Option<Uuid>,
    /// The ranges to scan.
    ranges: Ranges,
    scan: Option<ScanStart>,
    /// What the limits of the queue let start; `None`: they were not counted.
    pass: Option<Pass>,
}

/// The number of jobs that limits let start.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub(super) most: u32,
    /// Whether the starts take tokens, which the caller has to store.
    pub(super) takes_tokens: bool,
}

/// The rows that a claim's statements returned.
pub(super) struct Answer {
    locked: Vec<Row>,
    summary: Vec<Row>,
    pub(super) jobs: Vec<Row>,
    parts: Vec<Row>,
}

impl<'a> FastClaim<'a> {
    /// This claim, if it is plain, and claims from its queue did not take the slow path.
    pub(crate) fn of(claim: &'a Claim, engine: &PostgresEngine) -> Option<Self> {
        let PlainClaim { session, claim_no, queue, kinds, limit } = claim.plain()?;
        if engine.inner.gates.is_slow(queue) {
            return None;
        }
        let random = &engine.inner.shared.random;
        Some(Self {
            claim,
            queue,
            session: session.as_str(),
            claim_no: claim_no.cast_signed(),
            kinds: kinds.map(|kinds| kinds.iter().map(|want| &*want.kind).collect()),
            tokens: (0..limit).map(|_| Uuid::from_u128(random.next_u128())).collect(),
            after: None,
            ranges: Ranges::default(),
            scan: None,
            pass: None,
        })
    }

    /// The queue to claim from.
    pub(super) fn queue_name(&self) -> &Name {
        &self.claim.queues[0].queue
    }

    /// The maximum number of jobs.
    pub(super) const fn limit(&self) -> u32 {
        self.claim.limit
    }

    /// The limits of the queue let jobs start.
    pub(super) const fn pass(&mut self, pass: Pass) {
        self.pass = Some(pass);
    }

    /// Chooses the ranges to scan. Called with a connection at hand: the scan cursor is valid in one epoch of the store.
    pub(super) fn aim(&mut self, engine: &PostgresEngine) {
        let (ranges, scan) = engine.inner.scan_cursor.for_claim(self.queue);
        (self.ranges, self.scan) = (ranges, Some(scan));
    }

    /// Advances the scan cursor.
    fn advance(&self, engine: &PostgresEngine, summary: &Row, jobs: &[Row]) {
        let scan_cursor = &engine.inner.scan_cursor;
        if let Some(scan) = self.scan {
            scan_cursor.taken(scan, self.queue, jobs.iter().map(place));
        }
        if let Some(left) = summary.get::<_, Option<i64>>(2) {
            scan_cursor.report(left);
        }
    }

    /// Makes the claim take nothing unless the reports of this receipt were settled.
    pub(super) const fn after(&mut self, receipt: Uuid) {
        self.after = Some(receipt);
    }

    pub(super) async fn prepare(conn: &Conn<'_>) -> Try<()> {
        conn.prepare(&[LOCK, &CLAIM_BUSY, LEASED, LEASED_PARTS]).await
    }

    /// The statement that claims.
    fn statement(&self) -> &'static str {
        match self.scan.is_none_or(|scan| scan.is_full_scan()) {
            true => CLAIM,
            false => &CLAIM_BUSY,
        }
    }

    /// Locks the session. Returns no row if it has expired or was never opened.
    pub(super) async fn lock(&self, conn: &Conn<'_>) -> Try<Vec<Row>> {
        conn.query(LOCK, &[&self.session, &self.claim_no]).await
    }

    /// Locks the session, claims, reads the leased jobs, and commits, in one round trip.
    async fn claim(&self, conn: &Conn<'_>, now: Option<i64>) -> Try<Answer> {
        let (locked, answer) =
            try_join(self.lock(conn), self.claim_locked(conn, Vec::new(), now)).await?;
        Ok(Answer { locked, ..answer })
    }

    /// Claims under the lock of the session, and reads the leased jobs, in one round trip. Commits, unless the caller
    /// has to store the tokens that the jobs took.
    pub(super) async fn claim_locked(
        &self,
        conn: &Conn<'_>,
        locked: Vec<Row>,
        now: Option<i64>,
    ) -> Try<Answer> {
        let Self { claim, queue, session, claim_no, kinds, tokens, after, ranges, .. } = self;
        let Ranges { lanes, from_ranks, from_seqs, upto_ranks } = ranges;
        let limit = i64::from(self.pass.map_or(claim.limit, |pass| pass.most));
        let is_counted = self.pass.is_some();
        let commits = !self.pass.is_some_and(|pass| pass.takes_tokens);
        let payload = claim.parts.has(PartName::Payload);
        let bits = entries::part_bits(claim.parts);
        let to_claim: Params<'_> = &[
            session,
            claim_no,
            queue,
            kinds,
            &limit,
            tokens,
            &now,
            after,
            lanes,
            from_ranks,
            from_seqs,
            upto_ranks,
            &is_counted,
        ];
        let (of_jobs, of_parts): (Params<'_>, Params<'_>) =
            (&[session, claim_no, &payload], &[session, claim_no, &bits]);
        let commit = |now: bool| async move {
            if commits && now { conn.command("COMMIT").await } else { Ok(()) }
        };
        // Under limits, before it reads the jobs: claims under the same limits wait for it.
        let (summary, (), jobs, parts, ()) = try_join5(
            conn.query(self.statement(), to_claim),
            commit(is_counted),
            conn.query(LEASED, of_jobs),
            conn.query(LEASED_PARTS, of_parts),
            commit(!is_counted),
        )
        .await?;
        Ok(Answer { locked, summary, jobs, parts })
    }

    /// The reply; `None` if the slow path must execute the claim.
    pub(super) async fn read(
        &self,
        engine: &PostgresEngine,
        conn: &Conn<'_>,
        answer: Answer,
    ) -> Try<Option<(Timestamp, Result<Claimed>)>> {
        let Answer { locked, summary, jobs, parts } = answer;
        let Some(summary) = summary.first() else { return Ok(None) };
        let now = engine.inner.shared.now(at(summary.get(0)));
        if locked.is_empty() {
            let lost = Error::SessionLost { session: self.session.to_owned() };
            return Ok(Some((now, Err(lost))));
        }
        if summary.get::<_, bool>(1) && jobs.is_empty() {
            if summary.get(3) {
                engine.inner.gates.note(self.queue_name());
            }
            return Ok(None);
        }
        self.advance(engine, summary, &jobs);
        let mut found = entries::found(conn, &jobs, &parts).await?;
        let claimed = jobs.iter().filter_map(|row| {
            let found = found.remove(&entries::job_id(row.get(0)))?;
            found.entry.claimed(self.claim.parts)
        });
        let claimed = claimed.collect();
        Ok(Some((now, Ok(Claimed::new(claimed)))))
    }
}

/// The place of a job when it was claimed: lane, rank and number.
fn place(row: &Row) -> (i32, i64, i64) {
    let rank = row.get::<_, Option<i64>>(13).unwrap_or_else(|| row.get(6));
    let seq = row.get::<_, Option<i64>>(14).unwrap_or_else(|| row.get(7));
    (row.get(1), rank, seq)
}

impl PostgresEngine {
    /// Executes a claim; returns `None` if the slow path must do it.
    pub(crate) async fn claim_fast(&self, claim: &Claim) -> Result<Option<Stamped<Claimed>>> {
        let Some(mut fast) = FastClaim::of(claim, self) else { return Ok(None) };
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        fast.aim(self);
        match self.claim_or_pass(&conn, &mut fast).await {
            Ok(answer) => {
                let epoch = conn.epoch.clone();
                conn.give_back();
                let Some((now, claimed)) = answer else { return Ok(None) };
                Ok(Some(Stamped { now, epoch, value: claimed? }))
            }
            Err(trouble) => self.after_trouble(conn, trouble).await,
        }
    }

    /// Executes a claim, through the gate if the queue has limits over all jobs.
    pub(super) async fn claim_or_pass(
        &self,
        conn: &Lent,
        fast: &mut FastClaim<'_>,
    ) -> Try<Option<(Timestamp, Result<Claimed>)>> {
        FastClaim::prepare(conn).await?;
        conn.prepare(&[fast.statement()]).await?;
        match self.inner.gates.of(fast.queue_name()) {
            Some(_) => self.claim_gated(conn, fast).await,
            None => self.claim_on(conn, fast).await,
        }
    }

    pub(super) async fn claim_on(
        &self,
        conn: &Lent,
        fast: &FastClaim<'_>,
    ) -> Try<Option<(Timestamp, Result<Claimed>)>> {
        FastClaim::prepare(conn).await?;
        conn.prepare(&[fast.statement()]).await?;
        let now = self.inner.shared.test_now().map(Timestamp::as_millis);
        let ((), answer) = try_join(conn.plain(BEGIN), fast.claim(conn, now)).await?;
        fast.read(self, conn, answer).await
    }

    /// Ends the transaction after an error. Returns `None` if the slow path, which retries, should execute the verb.
    pub(crate) async fn after_trouble<T>(&self, conn: Lent, trouble: Trouble) -> Result<Option<T>> {
        if conn.command("ROLLBACK").await.is_ok() {
            conn.give_back();
        }
        match trouble {
            Trouble::Retryable(_) => Ok(None),
            Trouble::Fatal(error) => Err(error),
        }
    }
}

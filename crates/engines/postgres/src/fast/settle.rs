//! Completion of plain jobs by deleting their leases, with the next claim in the same round trip.

use super::claim::FastClaim;
use crate::conn::error::{Trouble, Try};
use crate::conn::{Conn, Lent, Row};
use crate::engine::PostgresEngine;
use crate::rows::codec;
use crate::rows::entries::{at, job_id};
use futures_util::future::{join, try_join, try_join4};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;
use windlass_core::engine::{
    Claimed, Item, PlainReport, Settle, SettleItem, SettleReply, Settled, Stamped,
};
use windlass_core::model::{AttemptEnd, State};
use windlass_core::{JobId, Result, Timestamp};

const SETTLE: &str = include_str!("../../sql/settle.sql");
/// Locks the groups of running jobs that limits by group count, against verbs that let jobs wait or start, and names them
/// to the statement above. Completions of other jobs of these groups go on.
const LOCK_GROUPS: &str = "WITH locked AS MATERIALIZED (
        SELECT m.grp FROM (
            SELECT DISTINCT e.grp FROM unnest($1::uuid[]) w (id) JOIN {s}.lease e ON e.id = ANY(ARRAY[w.id])) w
        JOIN {s}.meter m ON m.grp = ANY(ARRAY[w.grp]) AND m.name = '' ORDER BY w.grp FOR SHARE OF m)
    SELECT set_config('windlass.groups', array_agg(grp)::text, true), count(*) FROM locked";

/// Reports that may complete plain jobs; the statement decides.
pub(crate) struct Completions<'a> {
    ids: Vec<Uuid>,
    tokens: Vec<Uuid>,
    results: Vec<Option<&'a [u8]>>,
}

impl<'a> Completions<'a> {
    /// These reports, if all of them are plain.
    pub(crate) fn of(items: &'a [SettleItem]) -> Option<Self> {
        let mut all = Self { ids: vec![], tokens: vec![], results: vec![] };
        let mut seen = HashSet::new();
        for item in items {
            let PlainReport { id, lease, result } = item.plain()?;
            // Limits of sizes; a plain report holds nothing that depends on the time.
            let fits = item.check(Timestamp::EPOCH, 0).is_ok();
            if !fits || !seen.insert(id) {
                return None;
            }
            all.ids.push(id.as_uuid());
            all.tokens.push(codec::token(lease)?);
            all.results.push(result.map(|bytes| &**bytes));
        }
        Some(all)
    }

    /// Completes plain jobs. If all are plain, the connection keeps the receipt.
    async fn complete(
        &self,
        conn: &Conn<'_>,
        receipt: Option<Uuid>,
        now: Option<i64>,
    ) -> Try<Completed> {
        let Self { ids, tokens, results } = self;
        let rows = conn.query(SETTLE, &[ids, tokens, results, &receipt, &now]).await?;
        let completed = |row: &Row| {
            let ids: Option<Vec<Uuid>> = row.get(1);
            let settled = ids.into_iter().flatten().map(job_id).collect();
            Completed { now: at(row.get(0)), settled, makes_room: row.get(3) }
        };
        Ok(rows.first().map(completed).unwrap_or_default())
    }

    /// Completes plain jobs, also those in groups without waiting jobs, in a transaction of its own. Notes if there were no
    /// groups.
    async fn complete_in_groups(
        &self,
        conn: &Lent,
        receipt: Uuid,
        now: Option<i64>,
        in_groups: &AtomicBool,
    ) -> Try<Completed> {
        // Sent in this order, in one round trip.
        let ((), locked, completed, ()) = try_join4(
            conn.command("BEGIN"),
            conn.query(LOCK_GROUPS, &[&self.ids]),
            self.complete(conn, Some(receipt), now),
            conn.command("COMMIT"),
        )
        .await?;
        let groups = locked.first().map_or(0, |row| row.get::<_, i64>(1));
        in_groups.store(groups > 0, Ordering::Relaxed);
        Ok(completed)
    }

    /// Completes plain jobs in an application's transaction; returns the jobs.
    pub(crate) async fn complete_in(
        &self,
        conn: &Conn<'_>,
        now: Option<i64>,
    ) -> Try<HashSet<JobId>> {
        self.complete(conn, None, now).await.map(|completed| completed.settled)
    }
}

/// The settled reports.
#[derive(Default)]
struct Completed {
    now: Timestamp,
    settled: HashSet<JobId>,
    /// Whether a claim may wait for the end of a job: there are limits over all jobs.
    makes_room: bool,
}

/// The result of the next claim; `None` if the slow path must execute it.
type Next = Option<Result<Claimed>>;

impl PostgresEngine {
    /// Settles plain reports; the slow path settles the rest and executes the claim after it. Returns `None` if no
    /// report is plain.
    pub(crate) async fn settle_fast(
        &self,
        request: &Settle,
    ) -> Result<Option<Stamped<SettleReply>>> {
        let Some(completions) = Completions::of(&request.items) else { return Ok(None) };
        if completions.ids.is_empty() {
            return Ok(None);
        }
        let claim = request.claim.as_ref();
        let fast = claim.and_then(|claim| FastClaim::of(claim, self));
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        let (Completed { now, settled, makes_room }, claimed) =
            match self.settle_on(&conn, &completions, fast).await {
                Ok(completed) => completed,
                Err(trouble) => return self.after_trouble(conn, trouble).await,
            };
        let epoch = conn.epoch.clone();
        if makes_room && !settled.is_empty() {
            self.inner.wakeups.wake(None, None);
        }
        let claimed = match claimed {
            Ok(claimed) => {
                conn.give_back();
                claimed
            }
            // The reports are settled.
            Err(trouble) => self.after_trouble(conn, trouble).await.transpose(),
        };
        let done = |item: &SettleItem| settled.contains(&item.id);
        let plain = |item: &SettleItem| -> Item<Settled> {
            let (end, state) = (AttemptEnd::Complete, State::Completed);
            Ok(Settled::new(item.id, end, state))
        };
        let claim_left = claim.filter(|_| claimed.is_none());
        if settled.len() == request.items.len() {
            let items = request.items.iter().map(plain).collect();
            let Some(claim) = claim_left else {
                return Ok(Some(Stamped { now, epoch, value: SettleReply::new(items, claimed) }));
            };
            return Ok(Some(match self.claim_slow(claim).await {
                Ok(claimed) => claimed.map(|claimed| SettleReply::new(items, Some(Ok(claimed)))),
                Err(error) => {
                    Stamped { now, epoch, value: SettleReply::new(items, Some(Err(error))) }
                }
            }));
        }
        let mut rest = Settle::new(request.items.iter().filter(|item| !done(item)).cloned());
        rest.claim = claim_left.cloned();
        let reply = self.settle_slow(rest).await?;
        Ok(Some(reply.map(|rest| {
            let mut others = rest.items.into_iter();
            let items = request.items.iter();
            let items =
                items.filter_map(|item| if done(item) { Some(plain(item)) } else { others.next() });
            SettleReply::new(items.collect(), claimed.or(rest.claimed))
        })))
    }

    /// Sends reports and the next claim together, each as its own transaction: claimed rows must not stay locked while
    /// the reports wait for the disk, because other claims would skip them.
    async fn settle_on(
        &self,
        conn: &Lent,
        completions: &Completions<'_>,
        claim: Option<FastClaim<'_>>,
    ) -> Try<(Completed, Try<Next>)> {
        // Ahead of time: only prepared statements are sent in order.
        try_join(conn.prepare(&[LOCK_GROUPS, SETTLE]), FastClaim::prepare(conn)).await?;
        let receipt = Uuid::from_u128(self.inner.shared.random.next_u128());
        let settle = self.complete_on(conn, completions, receipt);
        let Some(mut claim) = claim else { return Ok((settle.await?, Ok(None))) };
        claim.aim(self);
        let all = |completed: &Completed| completed.settled.len() == completions.ids.len();
        let (completed, claimed) = if conn.has_session() {
            claim.after(receipt);
            // Under limits, the claim counts running jobs after these have ended.
            let (completed, claimed) = join(settle, self.claim_or_pass(conn, &mut claim)).await;
            (completed?, claimed)
        } else {
            // Through a pooler, the claim would not see the receipt.
            let completed = settle.await?;
            let claimed = match all(&completed) {
                true => self.claim_or_pass(conn, &mut claim).await,
                false => Ok(None),
            };
            (completed, claimed)
        };
        let all = all(&completed);
        Ok((completed, claimed.map(|read| read.filter(|_| all).map(|(_, claimed)| claimed))))
    }

    /// Completes plain jobs. If all are plain, the connection keeps the receipt.
    async fn complete_on(
        &self,
        conn: &Lent,
        completions: &Completions<'_>,
        receipt: Uuid,
    ) -> Try<Completed> {
        let now = self.inner.shared.test_now().map(Timestamp::as_millis);
        let in_groups = &self.inner.settles_in_groups;
        let completed = match conn.has_session() && in_groups.load(Ordering::Relaxed) {
            true => completions.complete_in_groups(conn, receipt, now, in_groups).await?,
            false => completions.complete(conn, Some(receipt), now).await?,
        };
        Ok(Completed { now: self.inner.shared.now(completed.now), ..completed })
    }
}

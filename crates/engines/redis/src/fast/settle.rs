//! Completion of plain jobs, with the next claim in the same call.

use super::claim::FastClaim;
use super::leases::Place;
use super::{at, bytes, decimal, revision, stamp};
use crate::conn::array_or_refusal;
use crate::conn::error::{Trouble, Try};
use crate::conn::library::Function;
use crate::conn::script::Commands;
use crate::engine::RedisEngine;
use crate::rows::record;
use crate::slow::transaction::Transaction;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use windlass_core::engine::{
    Claimed, Item, PlainReport, SessionId, Settle, SettleItem, SettleReply, Settled, Stamped,
};
use windlass_core::model::{AttemptEnd, State};
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::LaneKey;
use windlass_workset::codec;

/// Reports that one call carries out.
const CALL_MAX: usize = 1_000;

/// A report that may complete a plain job; the function decides.
struct Completion<'a> {
    report: PlainReport<'a>,
    token: u128,
    place: Arc<Place>,
}

/// The reply to a call: its time, the completed jobs, and the result of the claim.
type Completed = (Timestamp, Vec<JobId>, Option<Claimed>);

impl RedisEngine {
    /// Settles plain reports; the slow path settles the rest and executes the claim after it. Returns `None` if no
    /// report is plain.
    pub(crate) async fn settle_fast(
        &self,
        request: &Settle,
    ) -> Result<Option<Stamped<SettleReply>>> {
        let Some(transaction) = self.begin_fast().await? else { return Ok(None) };
        let completions = self.completions(&request.items, &transaction);
        if completions.is_empty() {
            return Ok(None);
        }
        let (mut done, mut claimed) = (HashSet::new(), None);
        let (mut now, all) = (None, completions.len() == request.items.len());
        let claim = request.claim.as_ref();
        let fast = claim.and_then(|claim| FastClaim::of(claim, self, &transaction));
        let mut chunks = completions.chunks(CALL_MAX).peekable();
        let mut sent = 0;
        while let Some(some) = chunks.next() {
            // The claim follows the last report, if all before it were settled.
            let is_last = chunks.peek().is_none();
            let claim = fast.as_ref().filter(|_| is_last && all && done.len() == sent);
            match self.complete(&transaction, some, claim).await.map_err(Trouble::into_error) {
                Ok(Some((at, ids, jobs))) => {
                    (now, claimed) = (Some(at), jobs);
                    done.extend(ids);
                }
                Ok(None) => break,
                Err(error) if done.is_empty() => return Err(error),
                // The slow path reports what is wrong, for the reports that are left.
                Err(_) => break,
            }
            sent += some.len();
        }
        let is_done = |item: &&SettleItem| done.contains(&item.id);
        let plain = |item: &SettleItem| -> Item<Settled> {
            Ok(Settled::new(item.id, AttemptEnd::Complete, State::Completed))
        };
        let claim_left = claim.filter(|_| claimed.is_none());
        let claimed = claimed.map(Ok);
        if let Some(now) = now.filter(|_| done.len() == request.items.len() && claim_left.is_none())
        {
            let items = request.items.iter().map(plain).collect();
            return Ok(Some(stamp(&transaction, now, SettleReply::new(items, claimed))));
        }
        let mut rest = Settle::new(request.items.iter().filter(|it| !is_done(it)).cloned());
        rest.claim = claim_left.cloned();
        let reply = self.settle_slow(rest).await?;
        Ok(Some(reply.map(|rest| {
            let mut others = rest.items.into_iter();
            let items = request.items.iter();
            let items =
                items.filter_map(|it| if is_done(&it) { Some(plain(it)) } else { others.next() });
            SettleReply::new(items.collect(), claimed.or(rest.claimed))
        })))
    }

    /// The reports that may complete plain jobs of lanes that are plain. A job that is reported twice is none.
    fn completions<'a>(
        &self,
        items: &'a [SettleItem],
        transaction: &Transaction<'_>,
    ) -> Vec<Completion<'a>> {
        let mut seen = HashSet::new();
        if !items.iter().all(|item| seen.insert(item.id)) {
            return Vec::new();
        }
        let plain = |item: &'a SettleItem| {
            let report = item.plain()?;
            // Limits of sizes; a plain report holds nothing that depends on the time.
            item.check(Timestamp::EPOCH, 0).ok()?;
            Some((report, codec::token_bits(report.lease.as_str())?))
        };
        let reports: Vec<(PlainReport<'a>, u128)> = items.iter().filter_map(plain).collect();
        let leases = reports.iter().map(|(report, token)| (report.id, *token));
        let places = self.inner.leases.take(leases);
        let reports = reports.into_iter().zip(places);
        let known = reports.filter_map(|((report, token), place)| {
            let place = place.filter(|place| transaction.settings.starts_plainly(&place.lane))?;
            Some(Completion { report, token, place })
        });
        known.collect()
    }

    /// Completes jobs in one call; returns `None` if the function refused.
    async fn complete(
        &self,
        transaction: &Transaction<'_>,
        completions: &[Completion<'_>],
        claim: Option<&FastClaim<'_>>,
    ) -> Try<Option<Completed>> {
        let keys = transaction.keys;
        let (mut lanes, mut sessions) = (Numbers::<LaneKey>::default(), Numbers::default());
        let mut reports = Vec::with_capacity(5 * completions.len());
        for Completion { report, token, place } in completions {
            reports.extend([
                report.id.as_bytes().to_vec(),
                token.to_be_bytes().to_vec(),
                decimal(lanes.of(&place.lane)),
                decimal(sessions.of(&place.session)),
                record::end_of(report.result.map(|bytes| &**bytes)),
            ]);
        }
        let mut call = Commands::default();
        call.keys.extend([keys.one("revision"), keys.one("job")]);
        for lane in &lanes.all {
            call.keys.extend([keys.running(lane), keys.state(State::Completed, false, lane)]);
        }
        let sessions: Vec<&SessionId> = sessions.all;
        call.keys.extend(sessions.iter().map(|session| keys.held(session.as_str())));
        call.args.extend([
            revision(&transaction.settings),
            self.test_now(),
            decimal(lanes.all.len()),
            decimal(sessions.len()),
        ]);
        call.args.extend(sessions.iter().map(|session| session.as_str().as_bytes().to_vec()));
        call.args.push(decimal(completions.len()));
        call.args.extend(reports);
        if let Some(claim) = claim {
            claim.add_to(&mut call, transaction);
        }
        let reply = transaction.link.call(&transaction.live, Function::Settle, &call, &[]).await?;
        let Some(reply) = array_or_refusal(reply)? else {
            self.refused();
            return Ok(None);
        };
        let mut reply = reply.into_iter();
        let now = at(reply.next())?;
        let done = bytes(reply.next())?;
        let settled = completions.iter().zip(done).filter(|(_, done)| *done == b'1');
        let settled = settled.map(|(completion, _)| completion.report.id).collect();
        let claimed = match (claim, reply.next()) {
            (Some(claim), Some(reply)) => claim.read(self, reply)?,
            _ => None,
        };
        Ok(Some((now, settled, claimed.map(|(_, claimed)| claimed))))
    }
}

/// Numbers values from one on, in the order in which they are first seen.
struct Numbers<'a, T> {
    all: Vec<&'a T>,
    known: HashMap<&'a T, usize>,
}

impl<T> Default for Numbers<'_, T> {
    fn default() -> Self {
        Self { all: Vec::new(), known: HashMap::new() }
    }
}

impl<'a, T: std::hash::Hash + Eq> Numbers<'a, T> {
    fn of(&mut self, value: &'a T) -> usize {
        let Self { all, known } = self;
        *known.entry(value).or_insert_with(|| {
            all.push(value);
            all.len()
        })
    }
}

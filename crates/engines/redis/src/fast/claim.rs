//! A session's claim from one queue, in one call.

use super::leases::Place;
use super::{at, bytes, decimal, revision, stamp};
use crate::conn::error::{Trouble, Try};
use crate::conn::library::Function;
use crate::conn::script::Commands;
use crate::conn::{array_or_refusal, malformed};
use crate::engine::RedisEngine;
use crate::rows::record::{self, read_part_name};
use crate::rows::small;
use crate::slow::transaction::Transaction;
use redis::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_core::engine::{Claim, Claimed, PlainClaim, Stamped};
use windlass_core::policy::allowance;
use windlass_core::{Result, Timestamp};
use windlass_executor::LaneKey;
use windlass_workset::codec;

/// Lanes that one call reads: with more, the slow path asks first which of them have jobs.
const LANES_MAX: usize = 64;

/// A plain claim, and the lanes that it may take from.
pub(super) struct FastClaim<'a> {
    claim: &'a Claim,
    plain: PlainClaim<'a>,
    lanes: Vec<LaneKey>,
    tokens: Vec<u8>,
}

impl<'a> FastClaim<'a> {
    /// This claim, if it is plain.
    pub(super) fn of(claim: &'a Claim, engine: &RedisEngine, at: &Transaction<'_>) -> Option<Self> {
        let plain = claim.plain().filter(|plain| plain.limit > 0)?;
        let settings = &at.settings;
        let queue = settings.queues.get(plain.queue);
        if !queue.is_none_or(|queue| queue.starts_plainly()) {
            return None;
        }
        let mut lanes = Vec::new();
        for lane in settings.lanes_of(plain.queue) {
            if plain.kinds.is_some_and(|kinds| kinds.iter().all(|want| want.kind != lane.1)) {
                continue;
            }
            if !settings.starts_plainly(lane) {
                return None;
            }
            // No gate of such a lane opens by time.
            if allowance(queue, settings.kinds.get(&lane.1), Timestamp::EPOCH).is_open() {
                lanes.push(lane.clone());
            }
        }
        let random = &engine.inner.shared.random;
        let tokens = (0..plain.limit).flat_map(|_| random.next_u128().to_be_bytes()).collect();
        (lanes.len() <= LANES_MAX).then_some(Self { claim, plain, lanes, tokens })
    }

    /// Adds the keys and arguments of the claim.
    pub(super) fn add_to(&self, call: &mut Commands, at: &Transaction<'_>) {
        let keys = at.keys;
        let session = self.plain.session.as_str();
        call.keys.extend(["session", "seq", "job", "part"].map(|name| keys.one(name)));
        call.keys.extend([keys.held(session), keys.openings(self.plain.queue)]);
        for lane in &self.lanes {
            call.keys.extend([keys.ready(lane), keys.running(lane)]);
        }
        let parts = small::part_bits(|name| self.claim.parts.has(name));
        call.args.extend([
            session.as_bytes().to_vec(),
            self.plain.claim_no.to_be_bytes().to_vec(),
            decimal(self.plain.limit),
            self.tokens.clone(),
            decimal(parts),
        ]);
    }

    /// Reads the reply; `None` if the slow path must execute the claim.
    pub(super) fn read(
        &self,
        engine: &RedisEngine,
        reply: Value,
    ) -> Try<Option<(Timestamp, Claimed)>> {
        let Some(reply) = array_or_refusal(reply)? else { return Ok(None) };
        let mut reply = reply.into_iter();
        let now = at(reply.next())?;
        let (mut jobs, mut leases) = (Vec::new(), Vec::new());
        let mut places: BTreeMap<LaneKey, Arc<Place>> = BTreeMap::new();
        while let Some(id) = reply.next() {
            let id = small::id(&bytes(Some(id))?)?;
            let mut found = record::decode(id, &bytes(reply.next())?)?;
            let Some(Value::Array(parts)) = reply.next() else { return Err(malformed()) };
            let mut parts = parts.into_iter();
            while let Some(letter) = parts.next() {
                let name = read_part_name(&bytes(Some(letter))?)?;
                if let Some(Value::BulkString(part)) = parts.next() {
                    record::add_part(&mut found.entry, name, &part)?;
                }
            }
            let lane = crate::rows::places::lane(&found.entry);
            let session = self.plain.session;
            let place = places.entry(lane).or_insert_with_key(|lane| {
                Arc::new(Place { lane: lane.clone(), session: session.clone() })
            });
            let leased = found.entry.leased.as_ref();
            let token = leased.and_then(|leased| codec::token_bits(leased.lease.as_str()));
            leases.extend(token.map(|token| (id, token, Arc::clone(place))));
            jobs.extend(found.entry.claimed(self.claim.parts));
        }
        engine.inner.leases.remember(leases);
        Ok(Some((now, Claimed::new(jobs))))
    }
}

impl RedisEngine {
    /// Executes a claim; returns `None` if the slow path must do it.
    pub(crate) async fn claim_fast(&self, claim: &Claim) -> Result<Option<Stamped<Claimed>>> {
        let Some(transaction) = self.begin_fast().await? else { return Ok(None) };
        let Some(fast) = FastClaim::of(claim, self, &transaction) else { return Ok(None) };
        let mut call = Commands::default();
        call.keys.push(transaction.keys.one("revision"));
        call.args.extend([revision(&transaction.settings), self.test_now()]);
        fast.add_to(&mut call, &transaction);
        let reply = transaction.link.call(&transaction.live, Function::Claim, &call, &[]).await;
        let read = reply.and_then(|reply| fast.read(self, reply)).map_err(Trouble::into_error)?;
        if read.is_none() {
            self.refused();
        }
        Ok(read.map(|(now, claimed)| stamp(&transaction, now, claimed)))
    }
}

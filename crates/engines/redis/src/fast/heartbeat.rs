//! The heartbeat of a session whose jobs the fast path claimed, in one call.

use super::{at, bytes, stamp};
use crate::conn::error::{Trouble, Try};
use crate::conn::library::Function;
use crate::conn::script::Commands;
use crate::conn::{array_or_refusal, malformed};
use crate::engine::RedisEngine;
use crate::rows::small;
use redis::Value;
use windlass_core::engine::{Heartbeat, HeartbeatReply, Stamped};
use windlass_core::{Result, Timestamp};
use windlass_workset::codec;

/// Leases that one call reads.
const LEASES_MAX: usize = 1_000;

impl RedisEngine {
    /// Keeps a session alive; returns `None` if the slow path must do it.
    pub(crate) async fn heartbeat_fast(
        &self,
        beat: &Heartbeat,
    ) -> Result<Option<Stamped<HeartbeatReply>>> {
        if beat.held.len() > LEASES_MAX {
            return Ok(None);
        }
        let Some(transaction) = self.begin_fast().await? else { return Ok(None) };
        let (keys, session) = (transaction.keys, beat.session.as_str());
        let mut call = Commands::default();
        call.keys.extend([keys.one("session"), keys.one("expiry"), keys.held(session)]);
        call.keys.push(keys.one("job"));
        let unanswered = beat.unanswered.iter().flat_map(|number| number.to_be_bytes());
        call.args.extend([
            self.test_now(),
            session.as_bytes().to_vec(),
            beat.upto.to_be_bytes().to_vec(),
            unanswered.collect(),
        ]);
        for held in &beat.held {
            let Some(token) = codec::token_bits(held.lease.as_str()) else { return Ok(None) };
            call.args.push([held.id.as_bytes().as_slice(), &token.to_be_bytes()].concat());
        }
        let reply = transaction.link.call(&transaction.live, Function::Beat, &call, &[]).await;
        let read = reply.and_then(read).map_err(Trouble::into_error)?;
        Ok(read.map(|(now, reply)| stamp(&transaction, now, reply)))
    }
}

/// Reads the reply; `None` if the function refused.
fn read(reply: Value) -> Try<Option<(Timestamp, HeartbeatReply)>> {
    let Some(reply) = array_or_refusal(reply)? else { return Ok(None) };
    let mut reply = reply.into_iter();
    let (expires_at, now) = (at(reply.next())?, at(reply.next())?);
    let Some(Value::Array(lost)) = reply.next() else { return Err(malformed()) };
    let mut answer = HeartbeatReply::new(expires_at);
    for id in lost {
        answer.lost.push(small::id(&bytes(Some(id))?)?);
    }
    Ok(Some((now, answer)))
}

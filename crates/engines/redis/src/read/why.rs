//! Explains why a job is not running: loads the rows that decide it, and asks the executor.

use crate::conn::error::{Trouble, Try};
use crate::conn::script::Reads;
use crate::engine::RedisEngine;
use crate::rows::places::lane;
use crate::rows::small;
use crate::slow::perform::{Run, TRIES_MAX};
use crate::slow::transaction::{Loaded, Transaction};
use windlass_core::engine::{Explanation, SessionId, Stamped};
use windlass_core::limits::AHEAD_COUNTED_MAX;
use windlass_core::model::State;
use windlass_core::{JobId, Result};
use windlass_executor::Entry;

impl RedisEngine {
    pub(crate) async fn explain(&self, id: JobId) -> Result<Stamped<Explanation>> {
        for _ in 0..TRIES_MAX {
            let (transaction, mut loaded) = self.inner.shared.look().await?;
            peek_causes(&transaction, id, &mut loaded).await.map_err(Trouble::into_error)?;
            let mut why = |run: &mut Run<'_>, now| run.why(id, now);
            if let Some(why) = self.inner.shared.ask(&transaction, &mut loaded, &mut why).await? {
                return Ok(why);
            }
        }
        Err(Trouble::Conflict.into_error())
    }
}

/// Loads a job, the sessions, and the ready jobs before it; the executor asks for the rest.
async fn peek_causes(transaction: &Transaction<'_>, id: JobId, loaded: &mut Loaded) -> Try<()> {
    transaction.peek_jobs(&[id], loaded).await?;
    let Some(entry) = loaded.found(id).map(|found| found.entry.clone()) else { return Ok(()) };
    peek_sessions(transaction, &entry, loaded).await?;
    if entry.job.state == State::Available {
        peek_ahead(transaction, &entry, loaded).await?;
    }
    loaded.has_heads = true;
    Ok(())
}

/// Loads the open sessions of workers, and that of a running job.
async fn peek_sessions(
    transaction: &Transaction<'_>,
    entry: &Entry,
    loaded: &mut Loaded,
) -> Try<()> {
    let mut reads = Reads::default();
    reads.peek("HGETALL", &transaction.keys.one("session"), &[]);
    let replies = transaction.read(reads, loaded).await?;
    let of_job = entry.leased.as_ref().map(|leased| leased.session.clone());
    for (id, stored) in replies.pairs(0)? {
        let (id, session) = (SessionId::new(small::text(id)?), small::read_session(stored)?);
        let is_open = !session.alone && session.expires_at > loaded.now;
        if is_open || of_job.as_ref() == Some(&id) {
            loaded.sessions.insert(id, session);
        }
    }
    Ok(())
}

/// Loads the nearest ready jobs before a job, as many as are counted.
async fn peek_ahead(transaction: &Transaction<'_>, entry: &Entry, loaded: &mut Loaded) -> Try<()> {
    let (lane, most) = (lane(entry), AHEAD_COUNTED_MAX.to_string());
    let (rank, member) = (entry.rank.to_string(), small::ready(entry));
    let mut reads = Reads::default();
    let args: [&[u8]; 4] = [rank.as_bytes(), &member, most.as_bytes(), b"REV"];
    reads.peek("PAGE", &transaction.keys.ready(&lane), &args);
    let replies = transaction.read(reads, loaded).await?;
    let mut heads = Vec::new();
    for (member, rank) in replies.scores(0)? {
        heads.push(small::read_ready(member, rank)?);
    }
    heads.sort_unstable();
    loaded.heads.insert(lane, heads);
    Ok(())
}

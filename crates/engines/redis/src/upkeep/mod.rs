//! Compaction: removes what has become useless, in bounded steps; and the index of ages of queues that have just begun to
//! limit the waiting of their jobs.

mod check;
mod derived;
mod facts;

use crate::conn::error::{Trouble, Try};
use crate::conn::library::Function;
use crate::conn::script::{Commands, Reads};
use crate::engine::RedisEngine;
use crate::keys::{lane_of, lane_text};
use crate::rows::places::places;
use crate::rows::{record, small};
use crate::slow::transaction::{Loaded, Transaction};
use windlass_core::Result;
use windlass_core::engine::{MaintainReply, MaintainRequest, Stamped};
use windlass_core::model::Name;
use windlass_core::time::HOUR_MS;
use windlass_executor::LaneKey;

/// Lines of groups that one transaction reopens.
const LINES_MAX: usize = 500;
/// Jobs whose age is indexed in one transaction.
const AGES_MAX: usize = 500;

impl RedisEngine {
    pub(crate) async fn compact(&self, request: MaintainRequest) -> Result<Stamped<MaintainReply>> {
        let most = request.budget as usize;
        for step in [
            Step::UniqueKeys(most),
            Step::Meters(most),
            Step::Tenants(most),
            Step::OpenLanes(most),
            Step::Lanes(most),
            Step::Removed { kept_ms: request.removed_kept_ms },
        ] {
            self.step(step).await?;
        }
        let more = self.drop_events(most).await?;
        let done = self.answers().await?;
        Ok(done.map(|()| {
            let mut reply = MaintainReply::default();
            reply.more = more;
            reply
        }))
    }

    /// Runs one transaction; returns whether there may be more to do. A conflict leaves its work to the next one.
    async fn step(&self, step: Step) -> Result<bool> {
        let attempt = async {
            let (transaction, mut loaded) = self.inner.shared.look().await?;
            let writes = step.writes(&transaction, &mut loaded).await?;
            let did = !writes.is_empty();
            transaction.commit(Function::Drain, writes).await?;
            Ok(did)
        };
        match Box::pin(attempt).await {
            Ok(did) => Ok(did),
            Err(Trouble::Conflict) => {
                self.inner.shared.forget_settings();
                Ok(true)
            }
            Err(Trouble::Fatal(error)) => Err(error),
        }
    }

    /// Reopens the next lines of groups whose limits have changed; returns whether there may be more.
    pub(crate) async fn reopen_lines(&self) -> Result<bool> {
        self.step(Step::Reopen).await
    }

    /// Completes the indexes of ages, so that an expiry finds every job.
    pub(crate) async fn index_ages(&self) -> Result<()> {
        while self.step(Step::Ages).await? {}
        Ok(())
    }
}

/// A bounded step; the number is that of entries at most.
#[derive(Clone, Copy)]
enum Step {
    UniqueKeys(usize),
    Meters(usize),
    Tenants(usize),
    OpenLanes(usize),
    Lanes(usize),
    Removed { kept_ms: u64 },
    Ages,
    Reopen,
}

impl Step {
    async fn writes(self, transaction: &Transaction<'_>, loaded: &mut Loaded) -> Try<Commands> {
        match self {
            Self::UniqueKeys(most) => forget_unique_keys(transaction, most, loaded).await,
            Self::Meters(most) => forget_meters(transaction, most, loaded).await,
            Self::Tenants(most) => forget_tenants(transaction, most, loaded).await,
            Self::OpenLanes(most) => close_lanes(transaction, most, loaded).await,
            Self::Lanes(most) => forget_lanes(transaction, most, loaded).await,
            Self::Removed { kept_ms } => forget_removed(transaction, kept_ms, loaded).await,
            Self::Ages => index_some_ages(transaction, loaded).await,
            Self::Reopen => reopen_some_lines(transaction, loaded).await,
        }
    }
}

/// Removes unique keys whose window is over.
async fn forget_unique_keys(
    transaction: &Transaction<'_>,
    most: usize,
    loaded: &mut Loaded,
) -> Try<Commands> {
    let (keys, mut writes) = (transaction.keys, Commands::default());
    for field in due(transaction, &keys.one("unique_end"), most, loaded).await? {
        writes.push("HDEL", &keys.one("unique"), &[&field]);
        writes.push("ZREM", &keys.one("unique_end"), &[&field]);
    }
    Ok(writes)
}

/// Removes meters that equal new ones.
async fn forget_meters(
    transaction: &Transaction<'_>,
    most: usize,
    loaded: &mut Loaded,
) -> Try<Commands> {
    let (keys, mut writes) = (transaction.keys, Commands::default());
    for member in due(transaction, &keys.one("meter_idle"), most, loaded).await? {
        let Some((limit, group)) = small::text(&member)?.split_once(' ') else { continue };
        writes.push("HDEL", &keys.meters(group), &[limit.as_bytes()]);
        writes.push("ZREM", &keys.one("meter_idle"), &[&member]);
    }
    Ok(writes)
}

/// The first members of a sorted set whose time has come.
async fn due(
    transaction: &Transaction<'_>,
    key: &[u8],
    most: usize,
    loaded: &mut Loaded,
) -> Try<Vec<Vec<u8>>> {
    let (now, most) = (loaded.now.as_millis().to_string(), most.to_string());
    let args: [&[u8]; 5] = [b"-inf", now.as_bytes(), b"LIMIT", b"0", most.as_bytes()];
    let mut reads = Reads::default();
    reads.expect("ZRANGEBYSCORE", key, &args);
    let replies = transaction.read(reads, loaded).await?;
    Ok(replies.members(0)?.into_iter().map(<[u8]>::to_vec).collect())
}

/// Removes tenants whose latest turn is behind the turn being served: they are new tenants again.
async fn forget_tenants(
    transaction: &Transaction<'_>,
    most: usize,
    loaded: &mut Loaded,
) -> Try<Commands> {
    let keys = transaction.keys;
    let mut reads = Reads::default();
    reads.expect("ZRANGE", &keys.one("served"), &[b"0", b"-1", b"WITHSCORES"]);
    let replies = transaction.read(reads, loaded).await?;
    let (mut reads, mut queues) = (Reads::default(), Vec::new());
    let most = most.to_string();
    for (queue, turn) in replies.scores(0)? {
        let (queue, before) = (Name::from(small::text(queue)?), format!("({}", turn as i64));
        let args: [&[u8]; 5] = [b"-inf", before.as_bytes(), b"LIMIT", b"0", most.as_bytes()];
        reads.expect("ZRANGEBYSCORE", &keys.turns(&queue), &args);
        queues.push(queue);
    }
    let replies = transaction.read(reads, loaded).await?;
    let mut writes = Commands::default();
    for (at, queue) in queues.iter().enumerate() {
        for tenant in replies.members(at)? {
            writes.push("ZREM", &keys.turns(queue), &[tenant]);
        }
    }
    Ok(writes)
}

/// Takes lanes without ready jobs from those that claims examine.
async fn close_lanes(
    transaction: &Transaction<'_>,
    most: usize,
    loaded: &mut Loaded,
) -> Try<Commands> {
    let keys = transaction.keys;
    let queues: Vec<Name> = transaction.settings.queues_with_lanes().into_iter().cloned().collect();
    let lanes = transaction.lanes_with_jobs(&queues, None, loaded).await?;
    let empty = empty(transaction, &lanes, |lane| keys.ready(lane), most, loaded).await?;
    let mut writes = Commands::default();
    for (queue, kind) in &empty {
        writes.push("SREM", &keys.open(queue), &[kind.as_bytes()]);
    }
    Ok(writes)
}

/// Removes lanes without jobs.
async fn forget_lanes(
    transaction: &Transaction<'_>,
    most: usize,
    loaded: &mut Loaded,
) -> Try<Commands> {
    let keys = transaction.keys;
    let lanes: Vec<LaneKey> = transaction.settings.lanes.iter().cloned().collect();
    let empty = empty(transaction, &lanes, |lane| keys.all(lane), most, loaded).await?;
    let mut writes = Commands::default();
    for lane in &empty {
        writes.push("SREM", &keys.one("lanes"), &[lane_text(lane).as_bytes()]);
    }
    if !writes.is_empty() {
        writes.push("INCR", &keys.one("revision"), &[]);
    }
    Ok(writes)
}

/// Those of these lanes whose index is empty. Only they are verified, so that busy lanes do not disturb.
async fn empty(
    transaction: &Transaction<'_>,
    lanes: &[LaneKey],
    index: impl Fn(&LaneKey) -> Vec<u8>,
    most: usize,
    loaded: &mut Loaded,
) -> Try<Vec<LaneKey>> {
    let mut reads = Reads::default();
    for lane in lanes {
        reads.peek("ZCARD", &index(lane), &[]);
    }
    let replies = transaction.read(reads, loaded).await?;
    let mut empty = Vec::new();
    let mut reads = Reads::default();
    for (at, lane) in lanes.iter().enumerate() {
        if replies.int(at)? == 0 && empty.len() < most {
            reads.expect("ZCARD", &index(lane), &[]);
            empty.push(lane.clone());
        }
    }
    let replies = transaction.read(reads, loaded).await?;
    for at in 0..empty.len() {
        if replies.int(at)? != 0 {
            return Err(Trouble::Conflict);
        }
    }
    Ok(empty)
}

/// Removes the oldest hour of the history of removed jobs, if it is old enough.
async fn forget_removed(
    transaction: &Transaction<'_>,
    kept_ms: u64,
    loaded: &mut Loaded,
) -> Try<Commands> {
    let keys = transaction.keys;
    let before = loaded.now.minus(kept_ms).minus(HOUR_MS).as_millis().to_string();
    let mut reads = Reads::default();
    let args: [&[u8]; 5] = [b"-inf", before.as_bytes(), b"LIMIT", b"0", b"100"];
    reads.expect("ZRANGEBYSCORE", &keys.one("removed"), &args);
    let replies = transaction.read(reads, loaded).await?;
    let mut writes = Commands::default();
    for hour in replies.members(0)? {
        let number = crate::conn::script::number(hour)? as i64;
        writes.push("UNLINK", &keys.removed(number), &[]);
        writes.push("ZREM", &keys.one("removed"), &[hour]);
    }
    Ok(writes)
}

/// Reopens the next lines of a queue. The field of `reopening` is the queue and the beginning of the names of its lines.
async fn reopen_some_lines(transaction: &Transaction<'_>, loaded: &mut Loaded) -> Try<Commands> {
    let (keys, mut writes) = (transaction.keys, Commands::default());
    let mut reads = Reads::default();
    reads.peek("HLEN", &keys.one("reopening"), &[]);
    if transaction.read(reads, loaded).await?.int(0)? == 0 {
        return Ok(writes);
    }
    let mut reads = Reads::default();
    reads.expect("HGETALL", &keys.one("reopening"), &[]);
    let replies = transaction.read(reads, loaded).await?;
    let Some((field, todo)) = replies.pairs(0)?.into_iter().next() else { return Ok(writes) };
    let (queue, prefix) = small::text(field)?.split_once(' ').unwrap_or_default();
    let (at, score, member) = small::read_reopening(todo)?;
    let (index, most) = (keys.openings(queue), LINES_MAX.to_string());
    let mut reads = Reads::default();
    reads.expect("PAGE", &index, &[score, member, most.as_bytes(), b""]);
    let page = transaction.read(reads, loaded).await?;
    let lines = page.pairs(0)?;
    for (line, _) in lines.iter().filter(|(line, _)| line.starts_with(prefix.as_bytes())) {
        writes.push("ZADD", &index, &[at, line]);
    }
    match lines.last().filter(|_| lines.len() == LINES_MAX) {
        Some((line, score)) => {
            let todo = small::reopening(at, Some((score, line)));
            writes.push("HSET", &keys.one("reopening"), &[field, &todo]);
        }
        None => drop(writes.push("HDEL", &keys.one("reopening"), &[field])),
    }
    Ok(writes)
}

/// Adds the next jobs of a queue that has begun to limit their waiting to its index of ages. The value of `aging_todo` is
/// the lane and the id of the last job that was indexed.
async fn index_some_ages(transaction: &Transaction<'_>, loaded: &mut Loaded) -> Try<Commands> {
    let keys = transaction.keys;
    let mut reads = Reads::default();
    reads.expect("HGETALL", &keys.one("aging_todo"), &[]);
    let replies = transaction.read(reads, loaded).await?;
    let mut writes = Commands::default();
    let Some((queue, cursor)) = replies.pairs(0)?.into_iter().next() else { return Ok(writes) };
    let queue = Name::from(small::text(queue)?);
    let (after, last) = match cursor.split_at_checked(16) {
        Some((id, lane)) => (lane_of(small::text(lane)?), id.to_vec()),
        None => (None, Vec::new()),
    };
    let lanes = transaction.settings.lanes_of(&queue);
    let mut lanes = lanes.filter(|lane| after.as_ref().is_none_or(|after| *lane >= after));
    let Some(lane) = lanes.next() else {
        writes.push("HDEL", &keys.one("aging_todo"), &[queue.as_bytes()]);
        return Ok(writes);
    };
    let is_after = after.as_ref() == Some(lane);
    let (mut reads, most) = (Reads::default(), AGES_MAX.to_string());
    let (score, member): (&[u8], &[u8]) = if is_after { (b"0", &last) } else { (b"", b"") };
    reads.peek("PAGE", &keys.all(lane), &[score, member, most.as_bytes(), b""]);
    let replies = transaction.read(reads, loaded).await?;
    let ids: Vec<&[u8]> = replies.scores(0)?.into_iter().map(|(id, _)| id).collect();
    let mut reads = Reads::default();
    for id in &ids {
        reads.expect("HGET", &keys.one("job"), &[id]);
    }
    let jobs = transaction.read(reads, loaded).await?;
    let index = keys.aging(&queue);
    for (at, id) in ids.iter().enumerate() {
        let Some(stored) = jobs.bytes(at)? else { continue };
        let entry = record::decode(small::id(id)?, stored)?.entry;
        for ((key, member), score) in places(keys, &entry, true) {
            if key == index {
                writes.push("ZADD", &key, &[score.to_string().as_bytes(), &member]);
            }
        }
    }
    // The next lane begins at its first job.
    let cursor = match (ids.last().filter(|_| ids.len() == AGES_MAX), lanes.next()) {
        (Some(id), _) => Some([id, lane_text(lane).as_bytes()].concat()),
        (None, Some(next)) => Some([[0; 16].as_slice(), lane_text(next).as_bytes()].concat()),
        (None, None) => None,
    };
    match cursor {
        Some(cursor) => {
            writes.push("HSET", &keys.one("aging_todo"), &[queue.as_bytes(), &cursor]);
        }
        None => {
            writes.push("HDEL", &keys.one("aging_todo"), &[queue.as_bytes()]);
        }
    }
    Ok(writes)
}

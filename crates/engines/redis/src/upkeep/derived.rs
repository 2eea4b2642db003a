//! Lists that follow from counts and sessions rather than from single jobs: lanes that may have ready jobs, known lanes,
//! the expiry of sessions, and the lines of groups by the time at which they open.

use crate::conn::error::Try;
use crate::conn::script::{Commands, Reads, Replies};
use crate::keys::{Keys, lane_of, lane_text};
use crate::rows::small;
use crate::slow::transaction::{Loaded, Transaction};
use std::collections::BTreeSet;
use std::fmt;
use windlass_core::Timestamp;
use windlass_core::engine::SessionId;
use windlass_executor::LaneKey;

/// Entries that are read in one step.
const PAGE: usize = 2_000;

/// An entry of such a list, with what it follows from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Derived {
    /// A lane with ready jobs is among those that claims examine.
    Open(LaneKey),
    /// A lane with jobs is known.
    Lane(LaneKey),
    /// A session expires.
    Expiry(SessionId),
    /// The line of a group in a lane opens.
    Opening(LaneKey, String),
}

/// The score of a line that maintenance is to examine at once.
const AT_ONCE: &[u8] = b"0";

impl Derived {
    /// Reads at one instant what the entry follows from, and the entry.
    pub(super) fn ask(&self, keys: &Keys, reads: &mut Reads) {
        match self {
            Self::Open(lane) => {
                reads.expect("ZCARD", &keys.ready(lane), &[]);
                reads.expect("SISMEMBER", &keys.open(&lane.0), &[lane.1.as_bytes()]);
            }
            Self::Lane(lane) => {
                reads.expect("ZCARD", &keys.all(lane), &[]);
                reads.expect("SISMEMBER", &keys.one("lanes"), &[lane_text(lane).as_bytes()]);
            }
            Self::Expiry(id) => {
                let id = id.as_str().as_bytes();
                reads.expect("HGET", &keys.one("session"), &[id]);
                reads.expect("ZSCORE", &keys.one("expiry"), &[id]);
            }
            Self::Opening(lane, group) => {
                reads.expect("HGET", &keys.group(group), &[lane_text(lane).as_bytes()]);
                reads.expect("ZSCORE", &keys.openings(&lane.0), &[&opening(lane, group)]);
            }
        }
    }

    /// Whether the entry is wrong by the replies from `at` on; adds the write that corrects it.
    pub(super) fn judge(
        &self,
        keys: &Keys,
        replies: &Replies,
        at: usize,
        writes: &mut Commands,
    ) -> Try<bool> {
        match self {
            // Empty lanes are taken out by maintenance, and may be listed meanwhile.
            Self::Open(lane) => {
                if replies.int(at)? == 0 || replies.int(at + 1)? == 1 {
                    return Ok(false);
                }
                writes.push("SADD", &keys.open(&lane.0), &[lane.1.as_bytes()]);
            }
            Self::Lane(lane) => {
                if replies.int(at)? == 0 || replies.int(at + 1)? == 1 {
                    return Ok(false);
                }
                writes.push("SADD", &keys.one("lanes"), &[lane_text(lane).as_bytes()]);
                writes.push("INCR", &keys.one("revision"), &[]);
            }
            Self::Expiry(id) => {
                let session = replies.bytes(at)?.map(small::read_session).transpose()?;
                let wanted = session.map(|session| session.expires_at);
                if replies.score(at + 1)?.map(small::at) == wanted {
                    return Ok(false);
                }
                list(writes, &keys.one("expiry"), id.as_str().as_bytes(), wanted);
            }
            Self::Opening(lane, group) => {
                let counts = replies.bytes(at)?.map(small::read_group).transpose()?;
                let waits = counts.is_some_and(|(waiting, ..)| waiting > 0);
                if replies.score(at + 1)?.is_some() == waits {
                    return Ok(false);
                }
                let (key, member) = (keys.openings(&lane.0), opening(lane, group));
                match waits {
                    true => writes.push("ZADD", &key, &[AT_ONCE, &member]),
                    false => writes.push("ZREM", &key, &[&member]),
                };
            }
        }
        Ok(true)
    }
}

impl fmt::Display for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open((queue, kind)) => {
                write!(f, "claims do not look at the ready jobs of kind {kind} in queue {queue}")
            }
            Self::Lane((queue, kind)) => {
                write!(f, "kind {kind} in queue {queue} has jobs and is not listed")
            }
            Self::Expiry(id) => write!(f, "session {id} is not listed by when it expires"),
            Self::Opening((queue, kind), group) => {
                write!(
                    f,
                    "the line of group {group:?} for kind {kind} in queue {queue} is listed wrongly"
                )
            }
        }
    }
}

fn list(writes: &mut Commands, key: &[u8], member: &[u8], at: Option<Timestamp>) {
    match at {
        Some(at) => writes.push("ZADD", key, &[&small::score(at), member]),
        None => writes.push("ZREM", key, &[member]),
    };
}

fn opening(lane: &LaneKey, group: &str) -> Vec<u8> {
    format!("{} {group}", lane.1).into_bytes()
}

/// The entries that are missing or too many, as far as reading step by step shows. `lanes`: lanes with jobs; `ready`: with
/// ready jobs; `lines`: with lines of groups; `sessions`: open sessions.
pub(super) async fn suspects(
    transaction: &Transaction<'_>,
    lanes: &BTreeSet<LaneKey>,
    ready: &BTreeSet<LaneKey>,
    lines: &BTreeSet<(LaneKey, String)>,
    sessions: &[(SessionId, Timestamp)],
    loaded: &mut Loaded,
) -> Try<BTreeSet<Derived>> {
    let keys = transaction.keys;
    let mut reads = Reads::default();
    // Not the cached ones: what is damaged may have no new revision.
    reads.peek("SMEMBERS", &keys.one("lanes"), &[]);
    let replies = transaction.read(reads, loaded).await?;
    let mut known = BTreeSet::new();
    for lane in replies.members(0)? {
        known.extend(lane_of(small::text(lane)?));
    }
    let unknown = lanes.difference(&known);
    let mut found: BTreeSet<Derived> = unknown.cloned().map(Derived::Lane).collect();
    let queues: BTreeSet<_> = lanes.iter().map(|(queue, _)| queue.clone()).collect();
    let queues: Vec<_> = queues.into_iter().collect();
    let open: BTreeSet<LaneKey> =
        transaction.lanes_with_jobs(&queues, None, loaded).await?.into_iter().collect();
    found.extend(ready.difference(&open).cloned().map(Derived::Open));
    let stored = entries(transaction, &keys.one("expiry"), loaded).await?;
    let wanted: BTreeSet<(Vec<u8>, i64)> =
        sessions.iter().map(|(id, at)| (id.as_str().as_bytes().to_vec(), at.as_millis())).collect();
    let stored = stored.into_iter().map(|(id, score)| (id, score as i64)).collect();
    for (id, _) in wanted.symmetric_difference(&stored) {
        found.insert(Derived::Expiry(SessionId::new(small::text(id)?)));
    }
    let mut listed = BTreeSet::new();
    for queue in &queues {
        for (member, _) in entries(transaction, &keys.openings(queue), loaded).await? {
            let Some((kind, group)) = small::text(&member)?.split_once(' ') else { continue };
            listed.insert(((queue.clone(), kind.into()), group.to_owned()));
        }
    }
    let lines = lines.symmetric_difference(&listed).cloned();
    found.extend(lines.map(|(lane, group)| Derived::Opening(lane, group)));
    Ok(found)
}

/// All members of a sorted set with their scores, as far as others do not change it meanwhile.
async fn entries(
    transaction: &Transaction<'_>,
    key: &[u8],
    loaded: &mut Loaded,
) -> Try<Vec<(Vec<u8>, f64)>> {
    let mut all = Vec::new();
    loop {
        let (from, to) = (all.len().to_string(), (all.len() + PAGE - 1).to_string());
        let mut reads = Reads::default();
        reads.peek("ZRANGE", key, &[from.as_bytes(), to.as_bytes(), b"WITHSCORES"]);
        let replies = transaction.read(reads, loaded).await?;
        let page = replies.scores(0)?;
        all.extend(page.iter().map(|(member, score)| (member.to_vec(), *score)));
        if page.len() < PAGE {
            return Ok(all);
        }
    }
}

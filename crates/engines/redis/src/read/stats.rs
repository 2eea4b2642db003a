//! Statistics of lanes: the sizes of their indexes.

use crate::conn::error::{Trouble, Try};
use crate::conn::script::Reads;
use crate::engine::RedisEngine;
use crate::rows::places::indexes;
use crate::rows::{record, small};
use crate::slow::perform::{Run, TRIES_MAX};
use crate::slow::transaction::{Loaded, Transaction};
use windlass_core::Result;
use windlass_core::engine::{LaneStats, Stamped, StatsRequest};
use windlass_core::limits::RANK_MAX;
use windlass_core::model::State;
use windlass_executor::LaneKey;
use windlass_executor::priorities::{RANKS_MAX, Rank, report};

/// Lanes that are counted in one call.
const LANES_MAX: usize = 200;

impl RedisEngine {
    pub(crate) async fn count_lanes(
        &self,
        request: StatsRequest,
    ) -> Result<Stamped<Vec<LaneStats>>> {
        for _ in 0..TRIES_MAX {
            let (transaction, mut loaded) = self.inner.shared.look().await?;
            let counted = count_gated(&transaction, &request, &mut loaded).await;
            let counted = counted.map_err(Trouble::into_error)?;
            let mut lanes = |run: &mut Run<'_>, now| {
                let lanes = run.lanes(&request, counted.clone(), now)?;
                let by_priority =
                    |lane: &LaneStats| request.by_priority && run.is_by_priority(lane);
                Ok(lanes.into_iter().map(|lane| (by_priority(&lane), lane)).collect::<Vec<_>>())
            };
            let Some(stats) = self.inner.shared.ask(&transaction, &mut loaded, &mut lanes).await?
            else {
                continue;
            };
            let mut lanes = Vec::with_capacity(stats.value.len());
            for (by_priority, mut lane) in stats.value {
                if by_priority {
                    let added = add_priorities(&transaction, &mut lane, &mut loaded).await;
                    added.map_err(Trouble::into_error)?;
                }
                lanes.push(lane);
            }
            return Ok(transaction.stamp(&loaded, lanes));
        }
        Err(Trouble::Conflict.into_error())
    }
}

/// Counts the jobs of all wanted lanes, and loads what decides whether the lanes are open.
async fn count_gated(
    transaction: &Transaction<'_>,
    request: &StatsRequest,
    loaded: &mut Loaded,
) -> Try<Vec<LaneStats>> {
    let lanes = count(transaction, request, loaded).await?;
    prepare_gates(transaction, &lanes, loaded).await?;
    Ok(lanes)
}

/// Counts the jobs of all wanted lanes.
pub(super) async fn count(
    transaction: &Transaction<'_>,
    request: &StatsRequest,
    loaded: &mut Loaded,
) -> Try<Vec<LaneStats>> {
    let wanted = |lane: &&LaneKey| request.queue.as_ref().is_none_or(|queue| *queue == lane.0);
    let lanes: Vec<&LaneKey> = transaction.settings.lanes.iter().filter(wanted).collect();
    let mut counted = Vec::new();
    for lanes in lanes.chunks(LANES_MAX) {
        let mut reads = Reads::default();
        let mut numbers = Vec::new();
        for lane in lanes {
            let counts: Vec<Vec<usize>> = State::ALL
                .into_iter()
                .map(|state| {
                    let indexes = indexes(transaction.keys, state, lane);
                    indexes.iter().map(|index| reads.peek("ZCARD", index, &[])).collect()
                })
                .collect();
            let head = reads.peek("ZRANGE", &transaction.keys.ready(lane), &[b"0", b"0"]);
            let scheduled = transaction.keys.state(State::Scheduled, false, lane);
            let next = reads.peek("ZRANGE", &scheduled, &[b"0", b"0", b"WITHSCORES"]);
            numbers.push((*lane, counts, head, next));
        }
        let replies = transaction.read(reads, loaded).await?;
        let (mut reads, mut heads) = (Reads::default(), Vec::new());
        for ((queue, kind), counts, head, next) in numbers {
            let mut stats = LaneStats::empty(queue.clone(), kind.clone());
            for (state, counts) in State::ALL.into_iter().zip(counts) {
                let count = counts.into_iter().map(|at| replies.int(at)).sum::<Try<i64>>()?;
                *stats.counter(state) = count.cast_unsigned();
            }
            stats.next_due_at = replies.scores(next)?.first().map(|(_, at)| small::at(*at));
            if stats.total() == 0 {
                continue;
            }
            if let Some(member) = replies.members(head)?.first() {
                let (_, id) = small::read_entered(member)?;
                reads.peek("HGET", &transaction.keys.one("job"), &[id.as_bytes()]);
                heads.push((counted.len(), id));
            }
            counted.push(stats);
        }
        let replies = transaction.read(reads, loaded).await?;
        for (at, (lane, id)) in heads.into_iter().enumerate() {
            if let Some(stored) = replies.bytes(at)? {
                let head = record::decode(id, stored)?;
                counted[lane].head_ready_at = Some(head.entry.ready_at);
            }
        }
    }
    Ok(counted)
}

/// Loads the first job of each lane with limits, from which the executor decides whether the lane is open.
pub(super) async fn prepare_gates(
    transaction: &Transaction<'_>,
    lanes: &[LaneStats],
    loaded: &mut Loaded,
) -> Try<()> {
    loaded.has_heads = true;
    let lanes = lanes.iter().map(|lane| (lane.queue.clone(), lane.kind.clone()));
    let limited: Vec<(LaneKey, u32)> = lanes
        .filter(|lane| loaded.limits_of(lane).next().is_some())
        .map(|lane| (lane, 1))
        .collect();
    for (lane, head) in transaction.read_heads(&limited, -RANK_MAX, loaded).await? {
        loaded.heads.insert(lane, vec![head]);
    }
    Ok(())
}

/// Adds the ready jobs by priority. Skips from rank to rank, and counts each by the index.
async fn add_priorities(
    transaction: &Transaction<'_>,
    lane: &mut LaneStats,
    loaded: &mut Loaded,
) -> Try<()> {
    let key = transaction.keys.ready(&(lane.queue.clone(), lane.kind.clone()));
    let (mut ranks, mut from) = (Vec::new(), "-inf".to_owned());
    while ranks.len() < RANKS_MAX {
        let mut reads = Reads::default();
        let args: [&[u8]; 6] = [from.as_bytes(), b"+inf", b"WITHSCORES", b"LIMIT", b"0", b"1"];
        reads.peek("ZRANGEBYSCORE", &key, &args);
        let replies = transaction.read(reads, loaded).await?;
        let Some((member, score)) = replies.scores(0)?.into_iter().next() else { break };
        let head = small::read_ready(member, score)?;
        let (mut reads, rank) = (Reads::default(), head.rank.to_string());
        reads.peek("HGET", &transaction.keys.one("job"), &[head.id.as_bytes()]);
        reads.peek("ZCOUNT", &key, &[rank.as_bytes(), rank.as_bytes()]);
        let replies = transaction.read(reads, loaded).await?;
        from = format!("({rank}");
        let Some(stored) = replies.bytes(0)? else { continue };
        let first = record::decode(head.id, stored)?.entry;
        let mut counted = Rank::new(head.rank, first.job.header.priority, first.ready_at);
        counted.count(replies.int(1)?.cast_unsigned(), u64::MAX);
        ranks.push(counted);
    }
    report(lane, &ranks);
    Ok(())
}

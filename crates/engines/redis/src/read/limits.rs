//! Statistics of limits.

use super::stats::{count, prepare_gates};
use crate::conn::error::{Trouble, Try};
use crate::conn::script::{Reads, number};
use crate::engine::RedisEngine;
use crate::keys::lane_of;
use crate::rows::small;
use crate::slow::perform::{Run, TRIES_MAX};
use crate::slow::transaction::{Loaded, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::Result;
use windlass_core::engine::{LaneStats, LimitStats, Stamped, StatsRequest};
use windlass_core::limits::LIMIT_LINES_EXAMINED_MAX;
use windlass_core::model::{Name, State};
use windlass_executor::{LaneKey, LimitCounts};
use windlass_workset::codec;

impl RedisEngine {
    pub(crate) async fn limit_stats(&self) -> Result<Stamped<Vec<LimitStats>>> {
        for _ in 0..TRIES_MAX {
            let (transaction, mut loaded) = self.inner.shared.look().await?;
            let counted =
                count_all(&transaction, &mut loaded).await.map_err(Trouble::into_error)?;
            let mut stats = |run: &mut Run<'_>, now| run.limit_stats(&counted.0, &counted.1, now);
            if let Some(stats) =
                self.inner.shared.ask(&transaction, &mut loaded, &mut stats).await?
            {
                return Ok(stats);
            }
        }
        Err(Trouble::Conflict.into_error())
    }
}

/// Counts lanes, lines and running jobs, and loads the meters of all limits.
async fn count_all(
    transaction: &Transaction<'_>,
    loaded: &mut Loaded,
) -> Try<(Vec<LaneStats>, LimitCounts)> {
    if loaded.limits.is_empty() {
        return Ok(Default::default());
    }
    let lanes = count(transaction, &StatsRequest::default(), loaded).await?;
    prepare_gates(transaction, &lanes, loaded).await?;
    let counts = limit_counts(transaction, loaded).await?;
    let over_all = loaded.limits.iter().filter(|(_, limit)| !limit.by_group);
    let over_all: Vec<Name> = over_all.map(|(name, _)| name.clone()).collect();
    let running = lanes.iter().filter(|lane| lane.running > 0);
    let running: BTreeMap<LaneKey, u64> =
        running.map(|lane| ((lane.queue.clone(), lane.kind.clone()), lane.running)).collect();
    transaction.load_meters(&over_all, loaded).await?;
    loaded.running = Some(running);
    peek_meters(transaction, &counts, loaded).await?;
    Ok((lanes, counts))
}

/// Loads the meters of the counted groups, without their lines.
async fn peek_meters(
    transaction: &Transaction<'_>,
    counts: &LimitCounts,
    loaded: &mut Loaded,
) -> Try<()> {
    let groups = counts.lines.iter().map(|(_, group, _)| group);
    let groups = groups.chain(counts.running.iter().map(|(_, group, _)| group));
    let groups: Vec<&String> = groups.collect::<BTreeSet<_>>().into_iter().collect();
    let mut reads = Reads::default();
    for group in &groups {
        reads.peek("HGETALL", &transaction.keys.meters(group), &[]);
    }
    let replies = transaction.read(reads, loaded).await?;
    for (at, group) in groups.into_iter().enumerate() {
        loaded.groups.entry(group.clone()).or_default();
        for (limit, meter) in replies.pairs(at)? {
            let key = (small::text(limit)?.into(), group.clone());
            loaded.meters.insert(key, codec::from_text(Some(small::text(meter)?))?);
        }
    }
    Ok(())
}

/// Counts of lines and of running jobs by group. The groups are those of lines, and of running jobs in lanes that count
/// groups.
async fn limit_counts(transaction: &Transaction<'_>, loaded: &mut Loaded) -> Try<LimitCounts> {
    let most = LIMIT_LINES_EXAMINED_MAX;
    let queues: Vec<&Name> = transaction.settings.queues_with_lanes().into_iter().collect();
    let grouped = transaction.settings.lanes.iter();
    let grouped: Vec<&LaneKey> = grouped.filter(|lane| loaded.is_grouped(lane)).collect();
    let (mut reads, last) = (Reads::default(), (most - 1).to_string());
    for queue in &queues {
        reads.peek("ZRANGE", &transaction.keys.openings(queue), &[b"0", last.as_bytes()]);
    }
    for lane in &grouped {
        for key in
            [transaction.keys.state(State::Running, false, lane), transaction.keys.ready(lane)]
        {
            reads.peek("ZRANGE", &key, &[b"0", last.as_bytes()]);
        }
    }
    let replies = transaction.read(reads, loaded).await?;
    let mut groups = BTreeSet::new();
    for at in 0..queues.len() {
        for member in replies.members(at)? {
            groups.extend(small::text(member)?.split_once(' ').map(|(_, group)| group.to_owned()));
        }
    }
    // The groups of running and ready jobs are in their records.
    let mut ids = Vec::new();
    for at in 0..grouped.len() {
        let at = queues.len() + 2 * at;
        for member in replies.members(at)? {
            ids.push(small::id(member)?);
        }
        for member in replies.members(at + 1)? {
            ids.push(small::read_entered(member)?.1);
        }
    }
    ids.truncate(most);
    let jobs =
        super::read_jobs(transaction, &ids, windlass_core::model::PartSet::NONE, loaded).await?;
    let jobs = jobs.into_iter().flatten();
    groups.extend(jobs.map(|job| job.entry.job.header.limit_group().to_owned()));
    let mut reads = Reads::default();
    for group in &groups {
        reads.peek("HGETALL", &transaction.keys.group(group), &[]);
        reads.peek("HGETALL", &transaction.keys.group_running(group), &[]);
    }
    let replies = transaction.read(reads, loaded).await?;
    let mut counts = LimitCounts::default();
    let mut running: BTreeMap<(Name, String), u64> = BTreeMap::new();
    for (at, group) in groups.into_iter().enumerate() {
        for (lane, stored) in replies.pairs(2 * at)? {
            let Some(lane) = lane_of(small::text(lane)?) else { continue };
            let (waiting, jobs, _) = small::read_group(stored)?;
            *counts.in_lines.entry(lane.clone()).or_default() += waiting;
            counts.lines.push((lane, group.clone(), waiting + u64::from(jobs)));
        }
        for (lane, count) in replies.pairs(2 * at + 1)? {
            let Some(lane) = lane_of(small::text(lane)?) else { continue };
            for name in loaded.names_of_limits(&lane) {
                *running.entry((name, group.clone())).or_default() += number(count)? as u64;
            }
        }
    }
    counts.in_lines.retain(|_, waiting| *waiting > 0);
    counts.lines.truncate(most);
    let running = running.into_iter().map(|((name, group), jobs)| (name, group, jobs));
    counts.running = running.take(most).collect();
    Ok(counts)
}

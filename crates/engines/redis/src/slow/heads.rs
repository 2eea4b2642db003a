//! The first ready jobs of the lanes that a claim may take from.

use crate::conn::error::Try;
use crate::conn::script::Reads;
use crate::rows::small;
use crate::slow::transaction::{Loaded, Transaction};
use windlass_core::engine::Claim;
use windlass_core::limits::RANK_MAX;
use windlass_core::model::Name;
use windlass_core::policy::allowance;
use windlass_executor::{Head, LaneKey, Opening};
use windlass_workset::Wants;

/// Ready jobs that a claim reads of a lane with limits at least: it may return some of them to their lines.
const METERED_MIN: u32 = 32;
/// Lines whose time has come that one claim examines, per queue.
const OPENINGS_MAX: usize = 64;

impl Transaction<'_> {
    /// Reads the heads of the open lanes of a claim, and wants the jobs that it is going to take.
    ///
    /// The heads are not verified: a job that becomes ready meanwhile does not disturb a claim, and the jobs that it takes
    /// are verified themselves.
    pub(super) async fn find_heads(
        &self,
        claim: &Claim,
        wants: &mut Wants,
        loaded: &mut Loaded,
    ) -> Try<()> {
        let queues: Vec<Name> = claim.queues.iter().map(|want| want.queue.clone()).collect();
        let kinds = claim.kinds.as_ref();
        let kinds: Option<Vec<Name>> =
            kinds.map(|kinds| kinds.iter().map(|want| want.kind.clone()).collect());
        let lanes = self.lanes_with_jobs(&queues, kinds.as_deref(), loaded).await?;
        let is_open = |(queue, kind): &LaneKey| {
            let (queue, kind) = (self.settings.queues.get(queue), self.settings.kinds.get(kind));
            allowance(queue, kind, loaded.now).is_open()
        };
        let lanes: Vec<LaneKey> = lanes.into_iter().filter(is_open).collect();
        let from = claim.from_priority.map_or(-RANK_MAX, i64::from);
        let most = |lane: &LaneKey| match loaded.limits_of(lane).next() {
            Some(_) => claim.limit.max(METERED_MIN),
            None => claim.limit,
        };
        let asked: Vec<(LaneKey, u32)> =
            lanes.into_iter().map(|lane| (lane.clone(), most(&lane))).collect();
        let heads = self.read_heads(&asked, from, loaded).await?;
        // All of those with limits, because the claim may return some to their lines.
        let metered = heads.iter().filter(|(lane, _)| loaded.limits_of(lane).next().is_some());
        wants.own.extend(metered.map(|(_, head)| head.id));
        wants.own.extend(loaded.add_heads(claim, heads.into_iter()));
        if self.has_lines() {
            let due = self.openings(&queues, OPENINGS_MAX, loaded).await?;
            let due = due.into_iter().filter(|(_, opening)| opening.at <= loaded.now);
            wants.groups.extend(due.map(|(_, opening)| opening.group));
        }
        Ok(())
    }

    /// Whether there may be lines of groups.
    pub(super) fn has_lines(&self) -> bool {
        !self.settings.limits.is_empty()
    }

    /// The lanes of these queues and kinds that may have ready jobs.
    pub(crate) async fn lanes_with_jobs(
        &self,
        queues: &[Name],
        kinds: Option<&[Name]>,
        loaded: &mut Loaded,
    ) -> Try<Vec<LaneKey>> {
        let mut reads = Reads::default();
        for queue in queues {
            reads.peek("SMEMBERS", &self.keys.open(queue), &[]);
        }
        let replies = self.read(reads, loaded).await?;
        let mut lanes = Vec::new();
        for (at, queue) in queues.iter().enumerate() {
            for kind in replies.members(at)? {
                let kind: Name = small::text(kind)?.into();
                if kinds.is_none_or(|kinds| kinds.contains(&kind)) {
                    lanes.push((queue.clone(), kind));
                }
            }
        }
        lanes.sort_unstable();
        lanes.dedup();
        Ok(lanes)
    }

    /// The first ready jobs of lanes, each with the number of them.
    pub(crate) async fn read_heads(
        &self,
        lanes: &[(LaneKey, u32)],
        from_rank: i64,
        loaded: &mut Loaded,
    ) -> Try<Vec<(LaneKey, Head)>> {
        let (mut reads, from) = (Reads::default(), from_rank.to_string());
        for (lane, most) in lanes {
            let most = most.to_string();
            let args: [&[u8]; 6] =
                [from.as_bytes(), b"+inf", b"WITHSCORES", b"LIMIT", b"0", most.as_bytes()];
            reads.peek("ZRANGEBYSCORE", &self.keys.ready(lane), &args);
        }
        let replies = self.read(reads, loaded).await?;
        let mut heads = Vec::new();
        for (at, (lane, _)) in lanes.iter().enumerate() {
            for (member, rank) in replies.scores(at)? {
                heads.push((lane.clone(), small::read_ready(member, rank)?));
            }
        }
        Ok(heads)
    }

    /// The first lines of groups in each of these queues by the time at which they open, as far as time decides.
    pub(crate) async fn openings(
        &self,
        queues: &[Name],
        most: usize,
        loaded: &mut Loaded,
    ) -> Try<Vec<(Name, Opening)>> {
        let (mut reads, most) = (Reads::default(), most.to_string());
        for queue in queues {
            let args: [&[u8]; 6] =
                [b"-inf", b"(+inf", b"WITHSCORES", b"LIMIT", b"0", most.as_bytes()];
            reads.peek("ZRANGEBYSCORE", &self.keys.openings(queue), &args);
        }
        let replies = self.read(reads, loaded).await?;
        let mut openings = Vec::new();
        for (at, queue) in queues.iter().enumerate() {
            for (member, score) in replies.scores(at)? {
                let Some((kind, group)) = small::text(member)?.split_once(' ') else { continue };
                let (kind, group) = (kind.into(), group.to_owned());
                openings.push((queue.clone(), Opening { at: small::at(score), kind, group }));
            }
        }
        openings.sort_by(|(_, one), (_, two)| one.cmp(two));
        Ok(openings)
    }
}

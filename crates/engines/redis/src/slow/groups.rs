//! Loads the rows that limits need: groups with their lines and meters, and the meters of limits over all jobs.

use crate::conn::error::Try;
use crate::conn::script::Reads;
use crate::keys::{lane_of, lane_text};
use crate::rows::{record, small};
use crate::slow::transaction::{Loaded, RunningGroups, Transaction};
use std::collections::BTreeMap;
use windlass_core::model::{Name, State};
use windlass_core::policy::Ahead;
use windlass_core::sync::lock;
use windlass_executor::LaneKey;
use windlass_workset::{GroupRows, Wants, codec};

impl Transaction<'_> {
    /// Loads the wanted groups and limits over all jobs.
    pub(super) async fn load_groups(&self, wants: &Wants, loaded: &mut Loaded) -> Try<()> {
        let over_all: Vec<Name> = loaded.to_meter(wants).cloned().collect();
        if wants.groups.is_empty() && over_all.is_empty() {
            return Ok(());
        }
        self.load_meters(&over_all, loaded).await?;
        let mut reads = Reads::default();
        for group in &wants.groups {
            reads.expect("HGETALL", &self.keys.group(group), &[]);
            reads.expect("HGETALL", &self.keys.group_running(group), &[]);
            reads.expect("HGETALL", &self.keys.meters(group), &[]);
        }
        let replies = self.read(reads, loaded).await?;
        let mut lines: Vec<(String, LaneKey, GroupRows)> = Vec::new();
        for (at, group) in wants.groups.iter().enumerate().map(|(at, group)| (3 * at, group)) {
            let mut lanes: BTreeMap<LaneKey, GroupRows> = BTreeMap::new();
            for (lane, stored) in replies.pairs(at)? {
                let Some(lane) = lane_of(small::text(lane)?) else { continue };
                let (waiting, jobs, cost) = small::read_group(stored)?;
                let rows = lanes.entry(lane).or_default();
                (rows.waiting, rows.ahead) = (waiting, Ahead { jobs, cost });
            }
            for (lane, count) in replies.pairs(at + 1)? {
                let Some(lane) = lane_of(small::text(lane)?) else { continue };
                lanes.entry(lane).or_default().running = crate::conn::script::number(count)? as u64;
            }
            for (limit, meter) in replies.pairs(at + 2)? {
                let limit: Name = small::text(limit)?.into();
                if loaded.limits.get(&limit).is_some_and(|limit| limit.by_group) {
                    let meter = codec::from_text(Some(small::text(meter)?))?;
                    loaded.meters.insert((limit, group.clone()), meter);
                }
            }
            lines.extend(lanes.into_iter().map(|(lane, rows)| (group.clone(), lane, rows)));
        }
        self.load_lines(&wants.groups.iter().cloned().collect::<Vec<_>>(), lines, loaded).await
    }

    /// Loads the first places and the opening times of these lines.
    async fn load_lines(
        &self,
        groups: &[String],
        lines: Vec<(String, LaneKey, GroupRows)>,
        loaded: &mut Loaded,
    ) -> Try<()> {
        let mut reads = Reads::default();
        for (group, lane, _) in &lines {
            let last = (loaded.group_chunk(group) - 1).to_string();
            let line = self.keys.group_line(lane, group);
            reads.expect("ZRANGE", &line, &[b"0", last.as_bytes()]);
            let member = format!("{} {group}", lane.1);
            reads.expect("ZSCORE", &self.keys.openings(&lane.0), &[member.as_bytes()]);
        }
        let replies = self.read(reads, loaded).await?;
        let chunks: Vec<usize> =
            lines.iter().map(|(group, ..)| loaded.group_chunk(group)).collect();
        for group in groups {
            loaded.groups.insert(group.clone(), BTreeMap::new());
        }
        for (at, ((group, lane, mut rows), chunk)) in lines.into_iter().zip(chunks).enumerate() {
            let mut heads = Vec::new();
            for member in replies.members(2 * at)? {
                heads.push(small::read_group_line(member)?);
            }
            rows.complete(chunk, heads);
            let opens = replies.score(2 * at + 1)?.filter(|score| score.is_finite());
            rows.opens_at = opens.map(small::at);
            loaded.groups.entry(group).or_default().insert(lane, rows);
        }
        Ok(())
    }

    /// Loads the meters of limits over all jobs, and running jobs of the lanes that list any limit.
    pub(crate) async fn load_meters(&self, limits: &[Name], loaded: &mut Loaded) -> Try<()> {
        if limits.is_empty() {
            return Ok(());
        }
        let limited = self.settings.lanes.iter();
        let limited: Vec<LaneKey> =
            limited.filter(|lane| loaded.limits_of(lane).next().is_some()).cloned().collect();
        let mut reads = Reads::default();
        for limit in limits {
            reads.expect("HGET", &self.keys.meters(""), &[limit.as_bytes()]);
        }
        for lane in &limited {
            reads.expect("ZCARD", &self.keys.state(State::Running, false, lane), &[]);
        }
        let replies = self.read(reads, loaded).await?;
        for (at, limit) in limits.iter().enumerate() {
            let stored = replies.bytes(at)?.map(small::text).transpose()?;
            loaded.meters.insert((limit.clone(), String::new()), codec::from_text(stored)?);
        }
        let mut running = BTreeMap::new();
        for (at, lane) in limited.into_iter().enumerate() {
            let count = replies.int(limits.len() + at)?.cast_unsigned();
            if count > 0 {
                running.insert(lane, count);
            }
        }
        loaded.running = Some(running);
        Ok(())
    }

    /// Counts the running jobs of all lanes by group, for a change of limits.
    pub(super) async fn count_running_groups(&self, loaded: &mut Loaded) -> Try<()> {
        let mut reads = Reads::default();
        let lanes: Vec<&LaneKey> = self.settings.lanes.iter().collect();
        for lane in &lanes {
            reads.expect("ZRANGE", &self.keys.state(State::Running, false, lane), &[b"0", b"-1"]);
        }
        let replies = self.read(reads, loaded).await?;
        let (mut jobs, mut reads) = (Vec::new(), Reads::default());
        for (at, lane) in lanes.iter().enumerate() {
            for id in replies.members(at)? {
                // The group of a job never changes.
                reads.peek("HGET", &self.keys.one("job"), &[id]);
                jobs.push((*lane, small::id(id)?));
            }
        }
        let replies = self.read(reads, loaded).await?;
        let mut counts = RunningGroups::new();
        for (at, (lane, id)) in jobs.into_iter().enumerate() {
            let Some(stored) = replies.bytes(at)? else { continue };
            let found = record::decode(id, stored)?;
            let group = found.entry.job.header.limit_group().to_owned();
            *counts.entry(lane.clone()).or_default().entry(group).or_default() += 1;
        }
        *lock(&self.running_groups) = counts;
        Ok(())
    }
}

/// The lane of a group's line as a field.
pub(super) fn lane_field(lane: &LaneKey) -> Vec<u8> {
    lane_text(lane).into_bytes()
}

//! Statistics of limits, from the counts of a store, and a check of their lines.

use crate::executor::Executor;
use crate::rows::{LimitCounts, Maintenance, Rows};
use std::collections::{BTreeMap, HashMap};
use windlass_core::engine::{
    Finding, GroupStats, GroupStatsFields, LaneStats, LimitStats, LimitStatsFields,
};
use windlass_core::limits::{LIMIT_GROUPS_LISTED_MAX, LIMIT_LINES_EXAMINED_MAX};
use windlass_core::model::{Limit, Name};
use windlass_core::{Result, Timestamp};

/// Jobs of a group, or of all groups.
#[derive(Clone, Copy, Default)]
struct Jobs {
    running: u64,
    waiting: u64,
}

/// Jobs under a limit.
#[derive(Default)]
struct UnderLimit<'a> {
    waiting: u64,
    groups: BTreeMap<&'a str, Jobs>,
}

impl<R: Rows> Executor<R> {
    /// The statistics of all limits; `lanes` are those of [`stats`](windlass_core::engine::Admin::stats), `counts` those of
    /// the store.
    pub fn limit_stats(
        &self,
        lanes: &[LaneStats],
        counts: &LimitCounts,
        now: Timestamp,
    ) -> Result<Vec<LimitStats>> {
        let mut under: HashMap<&Name, UnderLimit<'_>> = HashMap::new();
        for lane in lanes {
            let key = (lane.queue.clone(), lane.kind.clone());
            let waiting = lane.available + counts.in_lines.get(&key).copied().unwrap_or(0);
            for (name, _) in self.limits_of(&key) {
                under.entry(name).or_default().waiting += waiting;
            }
        }
        for (lane, group, jobs) in &counts.lines {
            for (name, _) in self.limits_of(lane).into_iter().filter(|(_, limit)| limit.by_group) {
                let groups = &mut under.entry(name).or_default().groups;
                groups.entry(group).or_default().waiting += jobs;
            }
        }
        for (limit, group, jobs) in &counts.running {
            let limit = self.limits.get_key_value(limit).filter(|(_, limit)| limit.by_group);
            if let Some((name, _)) = limit {
                under.entry(name).or_default().groups.entry(group).or_default().running += jobs;
            }
        }
        let stats = |(name, limit)| {
            let found = under.remove(name).unwrap_or_default();
            self.stats_of(name, limit, found, now)
        };
        self.limits.iter().map(stats).collect()
    }

    fn stats_of(
        &self,
        name: &Name,
        limit: &Limit,
        found: UnderLimit<'_>,
        now: Timestamp,
    ) -> Result<LimitStats> {
        let UnderLimit { waiting, groups } = found;
        let mut groups: Vec<(&str, Jobs)> = groups.into_iter().collect();
        // A stable sort: groups with as many jobs stay in the order of their names.
        groups.sort_by_key(|(_, jobs)| std::cmp::Reverse(jobs.running + jobs.waiting));
        groups.truncate(LIMIT_GROUPS_LISTED_MAX);
        let groups = groups.into_iter().map(|(group, Jobs { running, waiting })| {
            let (tokens, held_until) = self.allowed(name, limit, group, now)?;
            let group = group.to_owned();
            let fields = GroupStatsFields { group, running, waiting, tokens, held_until };
            Ok(GroupStats::from(fields))
        });
        let groups = groups.collect::<Result<Vec<GroupStats>>>()?;
        let (tokens, held_until) = match limit.by_group {
            true => (None, None),
            false => self.allowed(name, limit, "", now)?,
        };
        let running = self.rows.running_under(name, None)?;
        let name = name.clone();
        let fields = LimitStatsFields { name, running, waiting, tokens, held_until, groups };
        Ok(fields.into())
    }

    /// The tokens that a limit has left, and until when it is held: for a group, or for all jobs.
    pub(crate) fn allowed(
        &self,
        name: &Name,
        limit: &Limit,
        group: &str,
        now: Timestamp,
    ) -> Result<(Option<u64>, Option<Timestamp>)> {
        let rule = limit.rule_for(group);
        self.rows
            .with_meter(name, group, |meter| (rule.tokens_left(meter, now), meter.held_until(now)))
    }
}

impl<R: Maintenance> Executor<R> {
    /// The statistics of all limits; see [`windlass_core::engine::Admin::limits`].
    pub fn limits(&self, now: Timestamp) -> Result<Vec<LimitStats>> {
        if self.limits.is_empty() {
            return Ok(Vec::new());
        }
        let counts = self.rows.limit_counts(LIMIT_LINES_EXAMINED_MAX)?;
        self.limit_stats(&self.rows.stats()?, &counts, now)
    }

    /// Finds lines whose first job could be released although nothing will examine them; releases it with `repair`.
    pub(crate) fn check_lines(&mut self, repair: bool, now: Timestamp) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        if self.limits.is_empty() {
            return Ok(findings);
        }
        for (lane, group, _) in self.rows.limit_counts(usize::MAX)?.lines {
            let line = self.rows.group_line(&lane, &group)?;
            let is_due = line.opens_at.is_some_and(|at| at <= now);
            let Some(first) = line.first.filter(|_| !is_due) else { continue };
            if self.refusal(&lane, &group, line.ahead, first.cost, now)?.is_some() {
                continue;
            }
            let ((queue, kind), id) = (&lane, first.id);
            let what = format!(
                "job {id} of group {group:?} in {queue}/{kind} waits for limit {}, which has room",
                first.limit
            );
            findings.push(Finding::new(what, repair));
            if repair {
                self.in_step(&lane.0, now, |executor| executor.examine_line(&lane, &group, now))?;
            }
        }
        Ok(findings)
    }
}

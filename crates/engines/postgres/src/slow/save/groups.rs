//! Writes limits: rules, meters, and the counts and times of groups.

use super::Saver;
use crate::conn::error::corrupt;
use crate::rows::codec;
use std::collections::BTreeSet;
use windlass_core::Result;
use windlass_core::model::Name;
use windlass_workset::{ChangedGroup, GroupRows, Reopened};

/// When a line is examined again that waits for the end of a job. Every end examines it; the exception is a job that
/// ended while the limit was being listed for the first time.
const EXAMINE_AGAIN_MS: u64 = 30_000;

impl Saver<'_> {
    pub(super) fn groups(&mut self) -> Result<()> {
        for ChangedGroup { lane, group, before, after } in self.set.changed_groups() {
            let number = self.lanes.number(&lane.0, &lane.1);
            let number = number.ok_or_else(|| corrupt(&"a lane without a number"))?;
            match (before, after.is_empty()) {
                (None, true) => {}
                (Some(_), true) => self.rows.no_group.push(group.to_owned(), number),
                (_, false) => self.group(group, number, &lane.0, after),
            }
        }
        for ((limit, group), meter) in self.set.changed_meters() {
            let (group, limit, idle_at) =
                (group.clone(), limit.to_string(), meter.idle_at().as_millis());
            self.rows.meter.push(group, limit, codec::to_text(meter)?, idle_at);
        }
        for Reopened { queue, kind, at } in self.set.reopened() {
            let text = |name: &Option<Name>| name.as_ref().map(ToString::to_string);
            self.rows.reopened.push(text(queue), text(kind), at.as_millis());
        }
        Ok(())
    }

    fn group(&mut self, group: &str, lane: i32, queue: &Name, rows: &GroupRows) {
        let GroupRows { waiting, ahead, opens_at, .. } = rows;
        let again = self.set.base().now.plus(EXAMINE_AGAIN_MS);
        let opens = opens_at.unwrap_or(again).as_millis();
        self.rows.group.push(
            group.to_owned(),
            lane,
            queue.to_string(),
            waiting.cast_signed(),
            ahead.jobs.into(),
            ahead.cost.cast_signed(),
            (*waiting > 0).then_some(opens),
            opens_at.is_some(),
        );
    }

    /// Writes changed limits, and with them the columns of the queues and kinds that list them.
    pub(super) fn limits(&mut self) -> Result<()> {
        let (set, base) = (self.set, self.set.base());
        let mut changed = BTreeSet::new();
        for (name, limit) in set.changed_limits() {
            changed.insert(name);
            match limit {
                None => self.rows.no_limit.push(name.to_string()),
                Some(limit) => {
                    self.rows.limit.push(name.to_string(), codec::json(limit)?, limit.by_group);
                }
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let lists = |limits: &[Name]| limits.iter().any(|name| changed.contains(name));
        let again: BTreeSet<&Name> = set.changed_queues().map(|(queue, _)| queue).collect();
        let queues = base.queues.iter().flatten().filter(|(name, _)| !again.contains(name));
        for (queue, settings) in queues.filter(|(_, settings)| lists(&settings.limits)) {
            self.queue(queue, Some(settings))?;
        }
        let again: BTreeSet<&Name> = set.changed_kinds().map(|(kind, _)| kind).collect();
        let kinds = base.kinds.iter().filter(|(name, _)| !again.contains(name));
        for (kind, settings) in kinds.filter(|(_, settings)| lists(&settings.limits)) {
            self.kind(kind, Some(settings))?;
        }
        Ok(())
    }
}

//! Changes of limits, and of the queues and kinds that list them.

use crate::executor::Executor;
use crate::limits::unknown;
use crate::rows::Rows;
use windlass_core::engine::Atomicity;
use windlass_core::limits::LIMITS_MAX;
use windlass_core::model::{Limit, Name};
use windlass_core::{Error, JobId, Result, Timestamp};

impl<R: Rows> Executor<R> {
    /// Refuses a list with an unknown limit, or one that an engine cannot share between queues. `queue` is the queue
    /// that lists them; `None`: a kind.
    pub(crate) fn check_listed(&self, limits: &[Name], queue: Option<&Name>) -> Result<()> {
        for name in limits {
            if !self.limits.contains_key(name) {
                return Err(unknown("limits", name));
            }
            let others = self.queues.iter().filter(|(other, _)| Some(*other) != queue);
            let shared = others.into_iter().any(|(_, settings)| settings.limits.contains(name));
            let by_kind = self.kinds.values().any(|settings| settings.limits.contains(name));
            let spans_queues = queue.is_none() || shared || by_kind;
            if spans_queues && self.capabilities.atomicity == Atomicity::Queue {
                let engine = self.capabilities.engine;
                let expected = format!(
                    "the {engine} engine cannot share a limit between queues: give each queue its own"
                );
                return Err(Error::invalid("limits", name, expected));
            }
        }
        Ok(())
    }

    /// Applies a changed list of a queue or a kind: its running jobs count under the new limits, and its lines are
    /// examined again.
    pub(crate) fn relist(
        &mut self,
        limits: &[Name],
        queue: Option<&Name>,
        kind: Option<&Name>,
        now: Timestamp,
    ) -> Result<()> {
        let held: Vec<JobId> = match limits.is_empty() {
            true => Vec::new(),
            false => self.sessions.keys().flat_map(|session| self.rows.held(session)).collect(),
        };
        for id in held {
            let missing = self.read(id, |entry| {
                let header = &entry.job.header;
                let lists = queue.is_none_or(|queue| *queue == header.queue)
                    && kind.is_none_or(|kind| *kind == header.kind);
                let missing = |name: &&Name| lists && !entry.job.limits.contains(name);
                limits.iter().filter(missing).cloned().collect::<Vec<Name>>()
            })?;
            if !missing.is_empty() {
                self.edit(id, |entry| entry.job.limits.extend(missing))?;
            }
        }
        self.reopen(queue, kind, now)
    }

    /// Creates, replaces or removes a limit.
    pub(crate) fn set_limit(
        &mut self,
        name: Name,
        limit: Option<Limit>,
        now: Timestamp,
    ) -> Result<()> {
        self.need_limits("use a store with limits")?;
        let lists = |limits: &[Name]| limits.contains(&name);
        let queues = self.queues.iter().filter(|(_, settings)| lists(&settings.limits));
        let queues: Vec<Name> = queues.map(|(queue, _)| queue.clone()).collect();
        let kinds = self.kinds.iter().filter(|(_, settings)| lists(&settings.limits));
        let kinds: Vec<Name> = kinds.map(|(kind, _)| kind.clone()).collect();
        match limit {
            None => {
                let users = queues.iter().map(|queue| format!("queue {queue}"));
                let users = users.chain(kinds.iter().map(|kind| format!("kind {kind}")));
                if let Some(user) = users.into_iter().next() {
                    let expected = format!("{user} lists it: remove it there first");
                    return Err(Error::invalid("limit", name, expected));
                }
                self.limits.remove(&name);
            }
            Some(limit) => {
                if !self.limits.contains_key(&name) && self.limits.len() >= LIMITS_MAX {
                    let expected = format!("there are {LIMITS_MAX} limits: remove one first");
                    return Err(Error::invalid("limit", name, expected));
                }
                self.limits.insert(name.clone(), limit);
            }
        }
        self.rows.save_limit(&name, self.limits.get(&name))?;
        for queue in queues {
            self.reopen(Some(&queue), None, now)?;
        }
        kinds.into_iter().try_for_each(|kind| self.reopen(None, Some(&kind), now))
    }

    /// Examines the lines of a queue or a kind again. What one step does not release, maintenance and claims do.
    fn reopen(&mut self, queue: Option<&Name>, kind: Option<&Name>, now: Timestamp) -> Result<()> {
        self.rows.reopen(queue, kind, now)?;
        self.readied += 1;
        queue.map_or(Ok(()), |queue| self.open_due_lines(queue, now))
    }
}

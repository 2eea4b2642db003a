//! Changes of limits, and of the queues and kinds that list them.

use crate::executor::Executor;
use crate::limits::unknown;
use crate::rows::Rows;
use windlass_core::engine::Atomicity;
use windlass_core::limits::LIMITS_MAX;
use windlass_core::model::{Limit, Name};
use windlass_core::{Error, JobId, Result, Timestamp};

/// Maximum number of queues and kinds that an error names.
const USERS_NAMED_MAX: usize = 10;

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

    /// Applies a changed list of a queue or a kind: its running jobs count under the limits that it lists now, and its
    /// lines are examined again. A store that counts running jobs by lane loads no sessions here, and edits no job.
    pub(crate) fn relist(
        &mut self,
        queue: Option<&Name>,
        kind: Option<&Name>,
        now: Timestamp,
    ) -> Result<()> {
        let held = self.sessions.keys().flat_map(|session| self.rows.held(session));
        for id in held.collect::<Vec<JobId>>() {
            let (lane, counted) = self.read(id, |entry| {
                let header = &entry.job.header;
                ((header.queue.clone(), header.kind.clone()), entry.job.limits.clone())
            })?;
            let lists = queue.is_none_or(|queue| *queue == lane.0)
                && kind.is_none_or(|kind| *kind == lane.1);
            let limits = self.names_of_limits(&lane);
            if lists && counted != limits {
                self.in_step_of(id, now, |executor| {
                    executor.edit(id, |entry| entry.job.limits = limits)
                })?;
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
                let users: Vec<String> = users.take(USERS_NAMED_MAX).collect();
                if !users.is_empty() {
                    let users = users.join(", ");
                    let expected = format!("it is in use; first take it off the limits of {users}");
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
        let Some(queue) = queue else { return Ok(()) };
        self.in_step(queue, now, |executor| executor.open_due_lines(queue, now))
    }
}

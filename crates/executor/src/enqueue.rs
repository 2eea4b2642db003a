//! Storing new jobs: each for itself, all or nothing, or as follow-ups of a settled one.

use crate::entry::{Entry, UniqueSlot};
use crate::executor::{Executor, Happening};
use crate::rows::Rows;
use crate::unique::unique_verdict;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::engine::{Capability, Disposition, Enqueue, Enqueued, Item, Mode};
use windlass_core::limits::{LANE_IDLE_MS, LANES_PER_QUEUE_MAX};
use windlass_core::machine::EventKind;
use windlass_core::model::{Finish, Header, Job, Name, NewJob, State};
use windlass_core::policy::{Holder, UniqueScope, UniqueVerdict};
use windlass_core::time::DAY_MS;
use windlass_core::{Error, JobId, Result, Timestamp};

/// What a batch will have done by the time the next of its jobs is looked at.
#[derive(Default)]
pub(crate) struct Ahead {
    ids: BTreeSet<JobId>,
    /// Unique keys that jobs of the batch will hold, all of them still waiting.
    slots: BTreeMap<UniqueSlot, JobId>,
    created: BTreeMap<Name, u64>,
    /// Lanes that do not exist yet, as kinds by queue.
    lanes: BTreeMap<Name, BTreeSet<Name>>,
    /// The job whose unique key becomes free in the same step.
    freed: Option<JobId>,
    /// Follow-ups are not held up by a full queue.
    pub(crate) any_depth: bool,
}

impl Ahead {
    /// Before the follow-ups of `settled`; `ends` says whether it ends in this step.
    pub(crate) fn of_follow_ups(settled: JobId, ends: bool) -> Self {
        Self { freed: ends.then_some(settled), any_depth: true, ..Self::default() }
    }
}

impl<R: Rows> Executor<R> {
    /// Stores jobs; see [`windlass_core::engine::Hot::enqueue`].
    pub fn enqueue(&mut self, mut request: Enqueue, now: Timestamp) -> Result<Vec<Item<Enqueued>>> {
        request.check()?;
        if request.mode == Mode::Each {
            return Ok(request.jobs.into_iter().map(|job| self.enqueue_one(job, now)).collect());
        }
        for job in &mut request.jobs {
            job.id.get_or_insert_with(|| self.ids.next(now, &*self.random));
        }
        if let Err((culprit, error)) = self.foresee_all(&request.jobs, Ahead::default(), now) {
            let aborted = |index| match index == culprit {
                true => Err(error.clone()),
                false => Err(Error::Aborted { culprit }),
            };
            return Ok((0..request.jobs.len()).map(aborted).collect());
        }
        Ok(request.jobs.into_iter().map(|job| self.admit(job, now)).collect())
    }

    fn enqueue_one(&mut self, job: NewJob, now: Timestamp) -> Item<Enqueued> {
        match self.foresee(&job, &mut Ahead::default(), now)? {
            Some(known) => Ok(known),
            None => self.admit_new(job, now),
        }
    }

    /// Whether all of these would be taken, one after the other; if not, the first that would not.
    pub(crate) fn foresee_all(
        &self,
        jobs: &[NewJob],
        mut ahead: Ahead,
        now: Timestamp,
    ) -> Result<(), (usize, Error)> {
        jobs.iter().enumerate().try_for_each(|(index, job)| {
            self.foresee(job, &mut ahead, now).map(|_| ()).map_err(|error| (index, error))
        })
    }

    /// Whether a job would be taken after those before it in its batch; the answer, if its id is
    /// known already.
    fn foresee(&self, job: &NewJob, ahead: &mut Ahead, now: Timestamp) -> Result<Option<Enqueued>> {
        job.check(now, self.capabilities.payload_bytes_max)?;
        let global = job.unique.as_ref().is_some_and(|u| u.scope == UniqueScope::Global);
        if global && !self.capabilities.has(Capability::GlobalUnique) {
            return Err(Error::Unsupported {
                engine: self.capabilities.engine,
                capability: Capability::GlobalUnique,
                hint: "make it unique in its queue",
            });
        }
        if let Some(id) = job.id {
            let state = self.state(id)?;
            if state.is_some() || !ahead.ids.insert(id) {
                self.check_same(job, id)?;
                return Ok(Some(Enqueued { id, disposition: Disposition::Existing, state }));
            }
        }
        self.foresee_lane(job, ahead)?;
        let adds = match slot(job) {
            None => true,
            Some(slot) => self.foresee_unique(job, slot, ahead, now)?,
        };
        if adds && !ahead.any_depth {
            self.foresee_depth(&job.queue, ahead)?;
        }
        Ok(None)
    }

    /// Refuses a job that would add a lane to a queue that has too many.
    fn foresee_lane(&self, job: &NewJob, ahead: &mut Ahead) -> Result<()> {
        let lane = (job.queue.clone(), job.kind.clone());
        let Some(count) = self.rows.lanes_before(&lane) else { return Ok(()) };
        let (queue, kind) = lane;
        let added = ahead.lanes.entry(queue).or_default();
        if !added.contains(&kind) && count + added.len() >= LANES_PER_QUEUE_MAX {
            return Err(too_many_lanes(job));
        }
        added.insert(kind);
        Ok(())
    }

    /// Refuses a job whose derived id another job has: what the id stands for would never happen.
    fn check_same(&self, job: &NewJob, id: JobId) -> Result<()> {
        if !job.derived {
            return Ok(());
        }
        let foreign = self.rows.with_job(id, |entry| {
            let Header { queue, kind, parent, .. } = &entry.job.header;
            let same = (queue, kind, parent) == (&job.queue, &job.kind, &job.parent);
            (!same).then(|| format!("a job of kind {kind} in queue {queue}"))
        })?;
        let Some(other) = foreign.flatten() else { return Ok(()) };
        let expected =
            format!("{other} has this derived id, and is not the same job: discard that one");
        Err(Error::invalid("id", id, expected))
    }

    /// Whether a unique job would add to its queue's depth; an error if it would be rejected.
    fn foresee_unique(
        &self,
        job: &NewJob,
        slot: UniqueSlot,
        ahead: &mut Ahead,
        now: Timestamp,
    ) -> Result<bool> {
        let in_batch = ahead.slots.get(&slot).map(|id| Holder { id: *id, waiting: true });
        let holder = match in_batch {
            Some(holder) => Some(holder),
            None => self.holder(&slot, ahead.freed, now)?,
        };
        let verdict = unique_verdict(job, holder)?;
        let creates = matches!(verdict, UniqueVerdict::Create | UniqueVerdict::Replace { .. });
        if let Some(id) = job.id.filter(|_| creates) {
            ahead.slots.insert(slot, id);
        }
        Ok(verdict == UniqueVerdict::Create)
    }

    fn foresee_depth(&self, queue: &Name, ahead: &mut Ahead) -> Result<()> {
        let Some(limit) = self.queues.get(queue).and_then(|settings| settings.max_depth) else {
            return Ok(());
        };
        let created = ahead.created.entry(queue.clone()).or_default();
        let depth = self.rows.depth(queue) + *created;
        if depth >= limit {
            let queue = queue.to_string();
            return Err(Error::QueueFull { queue, depth, limit, retry_after_ms: None });
        }
        *created += 1;
        Ok(())
    }

    /// Stores a job that was foreseen to be acceptable.
    pub(crate) fn admit(&mut self, job: NewJob, now: Timestamp) -> Item<Enqueued> {
        if let Some(id) = job.id
            && let Some(state) = self.state(id)?
        {
            return Ok(Enqueued { id, disposition: Disposition::Existing, state: Some(state) });
        }
        self.admit_new(job, now)
    }

    /// The same for a job whose id is new.
    fn admit_new(&mut self, job: NewJob, now: Timestamp) -> Item<Enqueued> {
        let Some(slot) = slot(&job) else { return self.create(job, now) };
        let Some(holder) = self.holder(&slot, None, now)? else { return self.create(job, now) };
        match unique_verdict(&job, Some(holder))? {
            UniqueVerdict::Existing => self.there_already(holder.id, Disposition::Existing),
            UniqueVerdict::Throttled => self.there_already(holder.id, Disposition::Throttled),
            UniqueVerdict::Replace { keeps_time } => self.replace(job, holder.id, keeps_time, now),
            _ => self.create(job, now),
        }
    }

    fn there_already(&self, id: JobId, disposition: Disposition) -> Item<Enqueued> {
        Ok(Enqueued { id, disposition, state: self.state(id)? })
    }

    fn create(&mut self, job: NewJob, now: Timestamp) -> Item<Enqueued> {
        let run_at = job.due.at(now);
        self.create_at(job, run_at, now)
    }

    /// Puts a job in the place of one that waits.
    fn replace(
        &mut self,
        mut job: NewJob,
        holder: JobId,
        keeps_time: bool,
        now: Timestamp,
    ) -> Item<Enqueued> {
        let id = *job.id.get_or_insert_with(|| self.ids.next(now, &*self.random));
        let held_run_at = self.look(holder, |entry| entry.job.header.run_at)?;
        let own_run_at = job.due.at(now);
        let run_at = if keeps_time { own_run_at.min(held_run_at) } else { own_run_at };
        let what = Happening { finish: Some(Finish::ReplacedBy(id)), ..Happening::default() };
        self.apply(holder, EventKind::Cancel, what, now)?;
        let created = self.create_at(job, run_at, now)?;
        Ok(Enqueued { disposition: Disposition::Replaced(holder), ..created })
    }

    fn create_at(&mut self, job: NewJob, run_at: Timestamp, now: Timestamp) -> Item<Enqueued> {
        let id = job.id.unwrap_or_else(|| self.ids.next(now, &*self.random));
        let header = Header {
            id,
            queue: job.queue,
            kind: job.kind,
            priority: job.priority,
            run_at,
            created_at: now,
            tenant: job.tenant,
            key: job.key,
            unique: job.unique,
            parent: job.parent,
            tags: job.tags,
            trace: job.trace,
            policy: job.policy,
            counters: Default::default(),
        };
        let entry = Box::new(Entry::new(Job::new(header, State::Scheduled, job.parts)));
        self.take_unique(&entry, now)?;
        let state = self.insert(entry, now)?;
        Ok(Enqueued { id, disposition: Disposition::Created, state: Some(state) })
    }
}

/// That a queue has no room for another kind.
fn too_many_lanes(job: &NewJob) -> Error {
    let days = LANE_IDLE_MS / DAY_MS;
    let expected = format!(
        "queue {} has jobs of {LANES_PER_QUEUE_MAX} kinds, the limit: use fewer kinds (put what differs into the \
         payload) or another queue; a kind without jobs is forgotten after {days} days",
        job.queue
    );
    Error::invalid("kind", &job.kind, expected)
}

fn slot(job: &NewJob) -> Option<UniqueSlot> {
    let unique = job.unique.as_ref()?;
    Some(UniqueSlot::new(unique.scope, &job.queue, &job.kind, &unique.key))
}

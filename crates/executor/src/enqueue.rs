//! Enqueue: jobs one by one, all or nothing, or as follow-ups of a settled job.

use crate::commit::Transition;
use crate::entry::{Entry, UniqueSlot};
use crate::executor::Executor;
use crate::order::storing_order;
use crate::rows::Rows;
use crate::topics::Expanded;
use crate::unique::unique_verdict;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::engine::{Atomicity, Capability, Disposition, Enqueue, Enqueued, Item, Mode};
use windlass_core::limits::{CALL_RESOLUTIONS_MAX, LANE_IDLE_MS, LANES_PER_QUEUE_MAX};
use windlass_core::machine::EventKind;
use windlass_core::model::{Finish, Header, HeaderFields, Job, Name, NewJob, State};
use windlass_core::policy::{Holder, Unique, UniqueVerdict};
use windlass_core::time::DAY_MS;
use windlass_core::{Error, JobId, Result, Timestamp};

/// The changes that the jobs of a batch will make, as far as later jobs of the batch depend on them.
#[derive(Default)]
pub(crate) struct BatchPreview {
    ids: BTreeSet<JobId>,
    /// Unique keys that jobs of the batch will hold; all of these jobs wait.
    slots: BTreeMap<UniqueSlot, JobId>,
    created: BTreeMap<Name, u64>,
    /// Lanes that do not exist yet, as kinds by queue.
    lanes: BTreeMap<Name, BTreeSet<Name>>,
    /// The job that releases its unique key in the same step.
    freed: Option<JobId>,
    /// The unique key that a job leaves behind in the same step, because it moves to another queue.
    left: Option<UniqueSlot>,
    /// Ids of jobs that are stored in the same step, all or nothing; others of the batch may depend on them.
    promised: BTreeSet<JobId>,
    /// Jobs of the batch that others of it depend on.
    needed: BTreeSet<JobId>,
    /// Whether depth limits do not apply: follow-ups may enter a full queue.
    pub(crate) any_depth: bool,
}

impl BatchPreview {
    /// The preview for follow-ups of `settled`; `ends`: whether it ends in this step.
    pub(crate) fn of_follow_ups(settled: JobId, ends: bool) -> Self {
        Self { freed: ends.then_some(settled), any_depth: true, ..Self::default() }
    }

    /// The preview for a follow-up that another queue has sent; `needed`: others depend on it.
    pub(crate) fn of_deferred(job: &NewJob, needed: bool) -> Self {
        let needed = job.id.filter(|_| needed).into_iter().collect();
        Self { needed, any_depth: true, ..Self::default() }
    }
}

impl<R: Rows> Executor<R> {
    /// Stores jobs; see [`windlass_core::engine::Jobs::enqueue`].
    pub fn enqueue(&mut self, mut request: Enqueue, now: Timestamp) -> Result<Vec<Item<Enqueued>>> {
        request.check()?;
        self.begin_resolving(CALL_RESOLUTIONS_MAX);
        if request.mode == Mode::Each {
            let mut copied = 0;
            let mut one = |job| self.enqueue_one(job, &mut copied, now);
            return Ok(request.jobs.into_iter().map(&mut one).collect());
        }
        for job in &mut request.jobs {
            job.id.get_or_insert_with(|| self.ids.next(now, &*self.random));
        }
        let Some(queue) = request.jobs.first().map(|job| job.queue.clone()) else {
            return Ok(Vec::new());
        };
        self.check_one_queue(&queue, &request.jobs)?;
        self.in_step(&queue, now, |executor| executor.enqueue_whole(request, now))
    }

    fn enqueue_whole(&mut self, request: Enqueue, now: Timestamp) -> Result<Vec<Item<Enqueued>>> {
        let count = request.jobs.len();
        let expanded = self.expand(request.jobs, 0, now).and_then(|expanded| {
            match self.preview_all(&expanded.jobs, BatchPreview::default(), now) {
                Ok(()) => Ok(expanded),
                Err((index, error)) => Err((expanded.index_of(index), error)),
            }
        });
        match expanded {
            Ok(expanded) => self.admit_expanded(expanded, now),
            Err((culprit, error)) => {
                let aborted = |index| match index == culprit {
                    true => Err(error.clone()),
                    false => Err(Error::Aborted { culprit }),
                };
                Ok((0..count).map(aborted).collect())
            }
        }
    }

    /// Stores jobs whose preview succeeded, as [`Executor::admit_all`] does.
    pub(crate) fn admit_expanded(
        &mut self,
        mut expanded: Expanded,
        now: Timestamp,
    ) -> Result<Vec<Item<Enqueued>>> {
        let stored = self.admit_all(std::mem::take(&mut expanded.jobs), now)?;
        Ok(expanded.results(stored))
    }

    /// Refuses jobs of several queues if they cannot be stored in one atomic step.
    fn check_one_queue(&self, queue: &Name, jobs: &[NewJob]) -> Result<()> {
        let other = jobs.iter().map(|job| &job.queue).find(|other| *other != queue);
        let Some(other) = other.filter(|_| self.capabilities.atomicity == Atomicity::Queue) else {
            return Ok(());
        };
        let engine = self.capabilities.engine;
        let expected = format!(
            "the {engine} engine cannot store jobs of several queues all or nothing: enqueue one request per queue, or each \
             job by itself, those that others run after first"
        );
        Err(Error::invalid("jobs", format_args!("queues {queue} and {other}"), expected))
    }

    /// Stores jobs whose preview succeeded, each after those that it depends on. Returns the results in their order.
    pub(crate) fn admit_all(
        &mut self,
        jobs: Vec<NewJob>,
        now: Timestamp,
    ) -> Result<Vec<Item<Enqueued>>> {
        let order = storing_order(&jobs).map_err(|(_, error)| error)?;
        let mut sending = self.sending(&jobs);
        let mut jobs: Vec<Option<NewJob>> = jobs.into_iter().map(Some).collect();
        let mut admitted: Vec<(usize, Item<Enqueued>)> = Vec::with_capacity(jobs.len());
        for index in order {
            if let Some(job) = jobs[index].take() {
                let item = match &mut sending {
                    Some(sending) if self.is_elsewhere(&job.queue) => self.send(job, sending, now),
                    Some(_) | None => self.admit(job, now),
                };
                admitted.push((index, item));
            }
        }
        admitted.sort_unstable_by_key(|(index, _)| *index);
        Ok(admitted.into_iter().map(|(_, item)| item).collect())
    }

    /// `copied`: the number of copies that earlier jobs of the call left in the queues of subscriptions.
    fn enqueue_one(&mut self, job: NewJob, copied: &mut usize, now: Timestamp) -> Item<Enqueued> {
        if self.is_topic(&job.queue) {
            return self.publish(job, copied, now);
        }
        self.in_step(&job.queue.clone(), now, |executor| {
            match executor.preview(&job, &mut BatchPreview::default(), now)? {
                Some(known) => Ok(known),
                None => executor.admit_new(job, now),
            }
        })
    }

    /// Stores the copies of a job for a topic, all or none.
    fn publish(&mut self, mut job: NewJob, copied: &mut usize, now: Timestamp) -> Item<Enqueued> {
        job.id.get_or_insert_with(|| self.ids.next(now, &*self.random));
        let expanded = self.expand(vec![job], *copied, now).map_err(|(_, error)| error)?;
        let queue_of = |index: usize| expanded.jobs[index].queue.clone();
        self.preview_all(&expanded.jobs, BatchPreview::default(), now)
            .map_err(|(index, error)| error.within(format_args!("queue {}", queue_of(index))))?;
        *copied += expanded.jobs.len();
        let mut results = self.admit_expanded(expanded, now)?;
        results.pop().unwrap_or(Err(Error::Aborted { culprit: 0 }))
    }

    /// Checks that all of these jobs can be stored, in the order in which they will be; the error names the first that
    /// cannot.
    pub(crate) fn preview_all(
        &self,
        jobs: &[NewJob],
        mut batch: BatchPreview,
        now: Timestamp,
    ) -> Result<(), (usize, Error)> {
        let order = storing_order(jobs)?;
        let edges = || jobs.iter().flat_map(|job| &job.after);
        let joining = || jobs.iter().filter(|job| job.joins.is_some()).filter_map(|job| job.id);
        if edges().next().is_some() || joining().next().is_some() {
            batch.promised = jobs.iter().filter_map(|job| job.id).collect();
            batch.needed = edges().map(|dependency| dependency.job).chain(joining()).collect();
        }
        order.into_iter().try_for_each(|index| {
            self.preview(&jobs[index], &mut batch, now).map(|_| ()).map_err(|error| (index, error))
        })
    }

    /// Checks that a job can be stored after the jobs before it in its batch. Returns the reply if a job with
    /// its id exists already.
    fn preview(
        &self,
        job: &NewJob,
        batch: &mut BatchPreview,
        now: Timestamp,
    ) -> Result<Option<Enqueued>> {
        job.check(now, self.capabilities.payload_bytes_max)?;
        self.check_scope(job.unique.as_ref())?;
        self.check_limits(job)?;
        self.check_flows(job)?;
        if job.joins.is_some() && !batch.any_depth {
            let expected =
                "only a running job can add jobs to one that waits: report this job as a follow-up";
            return Err(Error::invalid("joins", &job.kind, expected));
        }
        if let Some(id) = job.id {
            let state = self.state(id)?;
            if state.is_some() || !batch.ids.insert(id) {
                self.check_same(job, id)?;
                return Ok(Some(Enqueued::new(id, Disposition::Existing, state)));
            }
        }
        self.check_after(job, |id| batch.promised.contains(&id))?;
        if !self.is_elsewhere(&job.queue) {
            self.preview_here(job, batch, now)?;
        }
        Ok(None)
    }

    /// Checks that the queue of a job has room for it.
    pub(crate) fn preview_here(
        &self,
        job: &NewJob,
        batch: &mut BatchPreview,
        now: Timestamp,
    ) -> Result<()> {
        self.preview_lane(&job.queue, &job.kind, batch)?;
        let adds = match slot(job) {
            None => true,
            Some(slot) => self.preview_unique(job, slot, batch, now)?,
        };
        if adds && !batch.any_depth {
            self.preview_depth(&job.queue, batch)?;
        }
        if !job.after.is_empty() && !batch.any_depth && self.rows.outbox().is_some() {
            self.check_outbox(1)?;
        }
        Ok(())
    }

    /// Refuses a scope of unique keys that the engine does not support.
    pub(crate) fn check_scope(&self, unique: Option<&Unique>) -> Result<()> {
        let spans_queues = unique.is_some_and(|unique| unique.scope.spans_queues());
        if spans_queues && !self.capabilities.has(Capability::GlobalUnique) {
            return Err(Error::Unsupported {
                engine: self.capabilities.engine,
                capability: Capability::GlobalUnique,
                hint: "make it unique in its queue",
            });
        }
        Ok(())
    }

    /// Checks that a stored job can move to another queue, whatever the depth there.
    pub(crate) fn preview_move(
        &self,
        entry: &Entry,
        queue: &Name,
        batch: &mut BatchPreview,
        now: Timestamp,
    ) -> Result<()> {
        self.preview_lane_of(entry, queue, batch)?;
        let slots = entry.unique_slot().zip(entry.unique_slot_in(queue));
        let Some((from, to)) = slots.filter(|(from, to)| from != to) else { return Ok(()) };
        let holder = self.holder(&from, None, now)?;
        if holder.is_some_and(|holder| holder.id == entry.id()) {
            self.check_free(&to, entry, now)?;
            batch.slots.insert(to, entry.id());
            batch.left = Some(from);
        }
        Ok(())
    }

    /// Checks that the engine can move a job to another queue, and that the queue has room for its lane.
    pub(crate) fn preview_lane_of(
        &self,
        entry: &Entry,
        queue: &Name,
        batch: &mut BatchPreview,
    ) -> Result<()> {
        if !self.capabilities.has(Capability::Move) {
            return Err(Error::Unsupported {
                engine: self.capabilities.engine,
                capability: Capability::Move,
                hint: "enqueue a new job there, and cancel this one",
            });
        }
        self.check_moves_to(queue)?;
        self.preview_lane(queue, &entry.job.header.kind, batch)
    }

    /// Refuses a job that would exceed the number of lanes per queue.
    pub(crate) fn preview_lane(
        &self,
        queue: &Name,
        kind: &Name,
        batch: &mut BatchPreview,
    ) -> Result<()> {
        let lane = (queue.clone(), kind.clone());
        let Some(count) = self.rows.lanes_before(&lane) else { return Ok(()) };
        let added = batch.lanes.entry(lane.0).or_default();
        if !added.contains(kind) && count + added.len() >= LANES_PER_QUEUE_MAX {
            return Err(too_many_lanes(queue, kind));
        }
        added.insert(lane.1);
        Ok(())
    }

    /// Refuses a job whose derived id belongs to a different job, because it would silently not be stored.
    fn check_same(&self, job: &NewJob, id: JobId) -> Result<()> {
        if !job.derived {
            return Ok(());
        }
        if let Some(queue) = self.elsewhere(id)? {
            return match queue == job.queue {
                true => Ok(()),
                false => Err(foreign_id(id, format_args!("a job in queue {queue}"))),
            };
        }
        let foreign = self.rows.with_job(id, |entry| {
            let Header { queue, kind, parent, .. } = &entry.job.header;
            let same = (queue, kind, parent) == (&job.queue, &job.kind, &job.parent);
            (!same).then(|| format!("a job of kind {kind} in queue {queue}"))
        })?;
        foreign.flatten().map_or(Ok(()), |other| Err(foreign_id(id, other)))
    }

    /// Whether a unique job would add to its queue's depth; an error if its key is taken.
    fn preview_unique(
        &self,
        job: &NewJob,
        slot: UniqueSlot,
        batch: &mut BatchPreview,
        now: Timestamp,
    ) -> Result<bool> {
        let in_batch = batch.slots.get(&slot).map(|id| Holder { id: *id, waiting: true });
        let holder = match in_batch {
            Some(holder) => Some(holder),
            None if batch.left.as_ref() == Some(&slot) => None,
            None => self.holder(&slot, batch.freed, now)?,
        };
        let verdict = unique_verdict(job, holder)?;
        let creates = matches!(verdict, UniqueVerdict::Create | UniqueVerdict::Replace { .. });
        let is_needed = job.id.is_some_and(|id| batch.needed.contains(&id));
        if let Some(holder) = holder.filter(|_| !creates && is_needed) {
            let expected = format!(
                "job {} holds this key, so this job would not be stored, and others of the request depend on it: let \
                 them depend on that one",
                holder.id
            );
            return Err(Error::invalid("unique.key", &slot.key, expected));
        }
        if let Some(id) = job.id.filter(|_| creates) {
            batch.slots.insert(slot, id);
        }
        Ok(verdict == UniqueVerdict::Create)
    }

    pub(crate) fn preview_depth(&self, queue: &Name, batch: &mut BatchPreview) -> Result<()> {
        let Some(limit) = self.queues.get(queue).and_then(|settings| settings.max_depth) else {
            return Ok(());
        };
        let created = batch.created.entry(queue.clone()).or_default();
        let depth = self.rows.depth(queue) + *created;
        if depth >= limit {
            let queue = queue.to_string();
            return Err(Error::QueueFull { queue, depth, limit, retry_after_ms: None });
        }
        *created += 1;
        Ok(())
    }

    /// Stores a job whose preview succeeded.
    pub(crate) fn admit(&mut self, job: NewJob, now: Timestamp) -> Item<Enqueued> {
        if let Some(id) = job.id
            && let Some(state) = self.state(id)?
        {
            return Ok(Enqueued::new(id, Disposition::Existing, Some(state)));
        }
        self.admit_new(job, now)
    }

    /// Stores a job whose id is new and whose preview succeeded.
    pub(crate) fn admit_new(&mut self, job: NewJob, now: Timestamp) -> Item<Enqueued> {
        let Some(slot) = slot(&job) else { return self.create(job, now) };
        let Some(holder) = self.holder(&slot, None, now)? else { return self.create(job, now) };
        match unique_verdict(&job, Some(holder))? {
            UniqueVerdict::Existing => self.existing(holder.id, Disposition::Existing),
            UniqueVerdict::Throttled => self.existing(holder.id, Disposition::Throttled),
            UniqueVerdict::Replace { keeps_time } => self.replace(job, holder.id, keeps_time, now),
            // A verdict of `Reject` is an error above.
            UniqueVerdict::Create | UniqueVerdict::Reject => self.create(job, now),
        }
    }

    fn existing(&self, id: JobId, disposition: Disposition) -> Item<Enqueued> {
        Ok(Enqueued::new(id, disposition, self.state(id)?))
    }

    pub(crate) fn create(&mut self, job: NewJob, now: Timestamp) -> Item<Enqueued> {
        let run_at = job.due.at(now);
        self.create_at(job, run_at, now)
    }

    /// Cancels the waiting holder of the unique key and stores the job instead.
    fn replace(
        &mut self,
        mut job: NewJob,
        holder: JobId,
        keeps_time: bool,
        now: Timestamp,
    ) -> Item<Enqueued> {
        let id = *job.id.get_or_insert_with(|| self.ids.next(now, &*self.random));
        let held_run_at = self.read(holder, |entry| entry.job.header.run_at)?;
        let own_run_at = job.due.at(now);
        let run_at = if keeps_time { own_run_at.min(held_run_at) } else { own_run_at };
        self.cancel_replaced(holder, id, now)?;
        let mut created = self.create_at(job, run_at, now)?;
        created.disposition = Disposition::Replaced(holder);
        Ok(created)
    }

    /// Cancels a job because `by` replaces it, if it still waits; returns whether it did.
    pub fn cancel_replaced(&mut self, id: JobId, by: JobId, now: Timestamp) -> Result<bool> {
        if !self.state(id)?.is_some_and(State::is_waiting) {
            return Ok(false);
        }
        let data = Transition { finish: Some(Finish::ReplacedBy(by)), ..Transition::default() };
        self.apply(id, EventKind::Cancel, data, now).map(|_| true)
    }

    fn create_at(&mut self, job: NewJob, run_at: Timestamp, now: Timestamp) -> Item<Enqueued> {
        let id = job.id.unwrap_or_else(|| self.ids.next(now, &*self.random));
        let header = Header::from(HeaderFields {
            id,
            queue: job.queue,
            kind: job.kind,
            priority: job.priority,
            run_at,
            created_at: now,
            tenant: job.tenant,
            key: job.key,
            group: job.group,
            cost: job.cost,
            unique: job.unique,
            parent: job.parent,
            flow: job.flow,
            tags: job.tags,
            trace: job.trace,
            policy: job.policy,
            counters: Default::default(),
        });
        let mut entry = Box::new(Entry::new(Job::new(header, State::Scheduled, job.parts)));
        if job.after.is_empty() {
            let state = self.insert(entry, now)?;
            return Ok(Enqueued::new(id, Disposition::Created, Some(state)));
        }
        let attached = self.attach(&mut entry.job.dependencies, &job.after)?;
        self.insert(entry, now)?;
        self.store_inputs(id, attached, now)?;
        self.existing(id, Disposition::Created)
    }
}

/// The error for a derived id that a different job has.
fn foreign_id(id: JobId, other: impl std::fmt::Display) -> Error {
    let expected =
        format!("{other} has this derived id, and is not the same job: discard that one");
    Error::invalid("id", id, expected)
}

/// The error for a queue that has the maximum number of kinds.
fn too_many_lanes(queue: &Name, kind: &Name) -> Error {
    let days = LANE_IDLE_MS / DAY_MS;
    let expected = format!(
        "queue {queue} has jobs of {LANES_PER_QUEUE_MAX} kinds, the limit: use fewer kinds (put what differs into the \
         payload) or another queue; a kind without jobs is forgotten after {days} days"
    );
    Error::invalid("kind", kind, expected)
}

fn slot(job: &NewJob) -> Option<UniqueSlot> {
    let unique = job.unique.as_ref()?;
    Some(UniqueSlot::new(unique.scope, &job.queue, &job.kind, &unique.key))
}

//! Dependencies: jobs that run after others.
//!
//! The end of a job resolves its edges at the commit point: every dependent receives the outcome and the result, and is
//! freed, killed or cancelled if that was what it waited for. Nothing recurses: ends that follow from an end are queued,
//! and one call resolves a bounded number of edges and copies a bounded number of bytes. A job that has ended and is still
//! `followed` has open edges left, and maintenance continues with them.
//!
//! A result that does not fit into the inputs of a dependent stays with its job. The dependent *keeps* that job: it counts
//! as a reader, and retention passes over it. The end of the dependent releases the jobs that it keeps, in bounded steps,
//! too.

use crate::commit::Transition;
use crate::entry::Entry;
use crate::executor::Executor;
use crate::outbox::Message;
use crate::rows::{OpenEdges, Rows};
use std::collections::{BTreeMap, VecDeque};
use windlass_core::engine::Capability;
use windlass_core::limits::{
    CALL_RESOLUTION_BYTES_MAX, CALL_RESOLUTIONS_MAX, CASCADE_MAX, INPUT_BYTES_MAX, RESOLUTIONS_MAX,
};
use windlass_core::machine::EventKind;
use windlass_core::model::{
    Dependency, DependencyCounts, Finish, Input, Name, NewJob, OnFailure, Part, State,
};
use windlass_core::{Error, JobId, Result, Timestamp};

/// The end of a job, as its dependents learn it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The job.
    pub job: JobId,
    /// The state in which it ended.
    pub outcome: State,
    /// Its result, if it was completed and has one.
    pub result: Option<Part>,
}

impl End {
    /// The end of a job; `None` if it has not ended.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let outcome = entry.job.state;
        let result = entry.job.result.clone().filter(|_| outcome == State::Completed);
        outcome.is_terminal().then(|| Self { job: entry.id(), outcome, result })
    }

    /// The end of a job that was removed before its dependents learned how it ended: it will not be completed.
    pub(crate) const fn gone(job: JobId) -> Self {
        Self { job, outcome: State::Cancelled, result: None }
    }

    /// Writes the end into an input, with the result if the job has room for it, and counts it there. A result that is
    /// omitted is kept if the job `reads`: it has not ended.
    pub(crate) fn write(
        self,
        input: &mut Input,
        position: u32,
        counts: &mut DependencyCounts,
        reads: bool,
    ) {
        let (bytes, room) = (self.bytes(), room(counts.result_bytes));
        input.omitted = bytes > room;
        input.outcome = Some(self.outcome);
        input.result = self.result.filter(|_| bytes <= room);
        input.kept = input.omitted && reads;
        if input.kept {
            counts.keep(position);
        }
        if !input.omitted {
            counts.result_bytes += bytes as u32;
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.result.as_ref().map_or(0, |result| result.bytes.len())
    }
}

/// Jobs that ended in this call and have dependents, and the budget for resolving them.
pub(crate) struct Resolving {
    pub(crate) ended: VecDeque<(JobId, u32)>,
    /// Jobs that a replayed job depends on again.
    pub(crate) reopened: Vec<JobId>,
    /// Jobs that a replayed job keeps.
    pub(crate) kept: Vec<JobId>,
    /// Ends that led to the one being resolved.
    depth: u32,
    /// Whether the queue is being worked off.
    pub(crate) active: bool,
    /// Edges that this call may still resolve, and messages that it may deliver.
    pub(crate) left: u32,
    /// Bytes of results that this call may still copy.
    pub(crate) bytes_left: usize,
    /// Whether this call leaves edges of ended jobs to maintenance.
    pub(crate) unfinished: bool,
}

impl Default for Resolving {
    fn default() -> Self {
        let (ended, reopened, kept) = (VecDeque::new(), Vec::new(), Vec::new());
        Self {
            ended,
            reopened,
            kept,
            depth: 0,
            active: false,
            left: CALL_RESOLUTIONS_MAX,
            bytes_left: CALL_RESOLUTION_BYTES_MAX,
            unfinished: false,
        }
    }
}

/// The dependencies of a new job.
pub(crate) struct Attached {
    /// The position of the first.
    from: u32,
    pub(crate) inputs: Vec<Input>,
    /// The first dependency whose end prevents the start. It is left open, and resolved once the job is stored.
    prevented_by: Option<u32>,
}

impl<R: Rows> Executor<R> {
    /// Begins a call, which may resolve this many edges. Forgets what a call left that the store has rolled back.
    pub(crate) fn begin_resolving(&mut self, most: u32) {
        self.resolving.ended.clear();
        self.resolving.reopened.clear();
        self.resolving.kept.clear();
        self.steps.outgoing.clear();
        self.resolving.left = most;
        self.resolving.bytes_left = CALL_RESOLUTION_BYTES_MAX;
    }

    /// Refuses dependencies and flows if the engine does not support them.
    pub(crate) fn check_flows(&self, job: &NewJob) -> Result<()> {
        if job.names_flows() { self.check_flow_support() } else { Ok(()) }
    }

    pub(crate) fn check_flow_support(&self) -> Result<()> {
        if !self.capabilities.has(Capability::Flows) {
            return Err(Error::Unsupported {
                engine: self.capabilities.engine,
                capability: Capability::Flows,
                hint: "leave `after` and `flow` out, and enqueue the next job as a follow-up",
            });
        }
        Ok(())
    }

    /// Refuses a dependency on a job that neither exists nor is `promised` by the same request.
    pub(crate) fn check_after(&self, job: &NewJob, promised: impl Fn(JobId) -> bool) -> Result<()> {
        for upstream in job.after.iter().map(|dependency| dependency.job) {
            if !promised(upstream) && self.state(upstream)?.is_none() {
                let expected =
                    "no job has this id: enqueue it first, or in the same request, all or nothing";
                return Err(Error::invalid("after", upstream, expected));
            }
        }
        Ok(())
    }

    /// Looks up further dependencies of a job, and counts them. Those that have ended are resolved.
    pub(crate) fn attach(
        &mut self,
        counts: &mut DependencyCounts,
        after: &[Dependency],
    ) -> Result<Attached> {
        let (from, inputs) = (counts.total, Vec::with_capacity(after.len()));
        let mut attached = Attached { from, inputs, prevented_by: None };
        for (position, dependency) in (from..).zip(after) {
            let mut input = Input::open(dependency);
            let end = self.end_here(dependency.job)?;
            let left = &mut self.resolving.bytes_left;
            match end {
                // Left open: maintenance resolves it.
                Some(Some(end)) if end.bytes() > *left => {}
                Some(Some(end)) => {
                    let (mut resolved, mut counted) = (input.clone(), *counts);
                    end.write(&mut resolved, position, &mut counted, true);
                    if resolved.prevents_start() && attached.prevented_by.is_none() {
                        attached.prevented_by = Some(position);
                    } else {
                        *left -= copied(&resolved);
                        (input, *counts) = (resolved, counted);
                    }
                }
                Some(None) => {}
                None => return Err(Error::NotFound { id: dependency.job }),
            }
            counts.open += u32::from(input.is_open());
            attached.inputs.push(input);
        }
        counts.total += attached.inputs.len() as u32;
        Ok(attached)
    }

    /// The end of a job that a new one depends on. That of a job elsewhere is not known in this step: its queue sends it.
    fn end_here(&self, job: JobId) -> Result<Option<Option<End>>> {
        if self.is_sent(job) || self.elsewhere(job)?.is_some() {
            return Ok(Some(None));
        }
        let end = self.rows.with_job(job, End::of)?;
        let was_named = end.is_none() && self.steps.known.contains_key(&job);
        Ok(if was_named { Some(Some(End::gone(job))) } else { end })
    }

    /// Stores the dependencies that were looked up for a job that is stored.
    pub(crate) fn store_inputs(
        &mut self,
        id: JobId,
        attached: Attached,
        now: Timestamp,
    ) -> Result<()> {
        let Attached { from, inputs, prevented_by } = attached;
        let jobs = |of: fn(&&Input) -> bool| -> Vec<JobId> {
            inputs.iter().filter(of).map(|input| input.job).collect()
        };
        let (open, kept) = (jobs(|input| input.is_open()), jobs(|input| input.kept));
        let prevented_by =
            prevented_by.and_then(|at| Some((at, inputs.get((at - from) as usize)?.job)));
        let elsewhere = self.not_followed_elsewhere(&open)?;
        self.rows.add_inputs(id, from, inputs)?;
        for upstream in open {
            if prevented_by.is_none_or(|(_, job)| job != upstream) && self.is_here(upstream)? {
                self.follow(upstream)?;
            }
        }
        self.post_follows(id, elsewhere)?;
        for upstream in kept {
            self.add_readers(upstream, 1)?;
        }
        if let Some((position, upstream)) = prevented_by
            && let Some(end) = self.read(upstream, End::of)?
        {
            self.resolve_edge(id, position, end, now)?;
            self.resolve_ended(now)?;
        }
        Ok(())
    }

    /// Marks those of these jobs that have not ended as ones that others will depend on. The end of a job clears a mark
    /// without an edge, so a store may do this in steps of its own, before it stores a job with many dependencies.
    pub fn follow_all(&mut self, jobs: &[JobId]) -> Result<()> {
        for job in jobs {
            if self.state(*job)?.is_some_and(|state| !state.is_terminal()) {
                self.follow(*job)?;
            }
        }
        Ok(())
    }

    /// Whether this step can change a job.
    pub(crate) fn is_here(&self, job: JobId) -> Result<bool> {
        Ok(!self.is_sent(job) && self.elsewhere(job)?.is_none())
    }

    /// Those of these jobs that are elsewhere, and that this queue does not follow yet. While a job of this queue depends
    /// on a job elsewhere, the end of that one is on its way or will be sent.
    fn not_followed_elsewhere(&self, jobs: &[JobId]) -> Result<BTreeMap<Name, Vec<JobId>>> {
        let mut found: BTreeMap<Name, Vec<JobId>> = BTreeMap::new();
        if self.rows.outbox().is_none() {
            return Ok(found);
        }
        for job in jobs {
            if let Some(queue) = self.elsewhere(*job)?
                && !self.is_sent(*job)
                && self.rows.open_edges(*job, 1)?.edges.is_empty()
            {
                found.entry(queue).or_default().push(*job);
            }
        }
        Ok(found)
    }

    /// Marks a job that has not ended as one that others depend on.
    pub(crate) fn follow(&mut self, upstream: JobId) -> Result<()> {
        if self.read(upstream, |entry| entry.job.followed)? {
            return Ok(());
        }
        self.edit(upstream, |entry| entry.job.followed = true)
    }

    /// Counts dependents that read the result of an ended job.
    pub(crate) fn add_readers(&mut self, upstream: JobId, readers: u32) -> Result<()> {
        self.edit(upstream, |entry| entry.job.dependencies.readers += readers)
    }

    /// Queues the end of a job whose dependents must learn it. A chain of ends that is too long is left to maintenance.
    pub(crate) fn queue_end(&mut self, entry: &Entry) {
        let Resolving { ended, depth, unfinished, .. } = &mut self.resolving;
        if !entry.job.followed && entry.job.dependencies.kept == 0 {
            return;
        }
        match *depth < CASCADE_MAX {
            true => ended.push_back((entry.id(), *depth + 1)),
            false => *unfinished = true,
        }
    }

    /// Resolves the dependents of all jobs that ended in this call, within its budget.
    pub(crate) fn resolve_ended(&mut self, now: Timestamp) -> Result<()> {
        if self.resolving.active || self.resolving.ended.is_empty() {
            return Ok(());
        }
        self.resolving.active = true;
        let mut resolved = Ok(());
        // Goes on after an error: a store with many writers learns in one run which rows are missing for all of them, and
        // loads these together.
        while let Some((job, depth)) = self.resolving.ended.pop_front() {
            self.resolving.depth = depth;
            resolved = resolved.and(self.resolve(job, now));
        }
        self.resolving.ended.clear();
        (self.resolving.depth, self.resolving.active) = (0, false);
        resolved
    }

    /// Resolves the edges of a job that has ended, and releases the jobs that it keeps, within the budget of the call.
    pub(crate) fn resolve(&mut self, job: JobId, now: Timestamp) -> Result<()> {
        let view = |entry: &Entry| {
            let (end, counts) = (End::of(entry)?, entry.job.dependencies);
            Some((end, entry.job.followed, counts))
        };
        let Some((end, followed, counts)) = self.rows.with_job(job, view)?.flatten() else {
            return Ok(());
        };
        let mut done = true;
        if followed {
            done &= self.resolve_edges(job, end, now)?;
        }
        if counts.kept > 0 {
            done &= self.release_kept(job, counts)?;
        }
        self.resolving.unfinished |= !done;
        Ok(())
    }

    /// Resolves the edges of a job that has ended; returns whether none is left.
    fn resolve_edges(&mut self, job: JobId, end: End, now: Timestamp) -> Result<bool> {
        let most = self.resolving.left.min(RESOLUTIONS_MAX) as usize;
        let (mut readers, mut more) = self.resolve_open(&end, most, now)?;
        if !more && self.rows.outbox().is_some() {
            let (sent, unsent) = self.send_end(&end)?;
            (readers, more) = (readers + sent, unsent);
        }
        if readers > 0 || !more {
            self.edit(job, |entry| {
                entry.job.dependencies.readers += readers;
                entry.job.followed = more;
            })?;
        }
        Ok(!more)
    }

    /// Resolves up to `most` open dependencies on a job in this queue. Returns how many of the dependents keep the job, and
    /// whether more are open.
    pub(crate) fn resolve_open(
        &mut self,
        end: &End,
        most: usize,
        now: Timestamp,
    ) -> Result<(u32, bool)> {
        let OpenEdges { edges, mut more } = self.rows.open_edges(end.job, most)?;
        let (mut readers, mut resolved) = (0, Ok(()));
        for (dependent, position) in edges {
            let Resolving { left, bytes_left, .. } = &mut self.resolving;
            // Each call has room for at least one result.
            if end.bytes() > *bytes_left {
                more = true;
                break;
            }
            *left = left.saturating_sub(1);
            match self.resolve_edge(dependent, position, end.clone(), now) {
                Ok(reads) => readers += u32::from(reads),
                // The others are resolved all the same, as in `resolve_ended`.
                Err(error) => resolved = resolved.and(Err(error)),
            }
        }
        resolved.map(|()| (readers, more))
    }

    /// Releases jobs that an ended job keeps; returns whether none is left.
    fn release_kept(&mut self, job: JobId, mut counts: DependencyCounts) -> Result<bool> {
        // Each may be released by a message.
        let room = self.outbox_room()?;
        let most = u64::from(self.resolving.left.min(RESOLUTIONS_MAX)).min(room) as usize;
        let inputs = self.rows.inputs_from(job, counts.kept_from, most)?;
        if most > 0 && inputs.is_empty() {
            // Nothing is behind its last dependency.
            counts.kept = 0;
        }
        for mut input in inputs {
            let position = counts.kept_from;
            counts.kept_from += 1;
            self.resolving.left = self.resolving.left.saturating_sub(1);
            if !input.kept {
                continue;
            }
            let upstream = input.job;
            input.kept = false;
            counts.kept = counts.kept.saturating_sub(1);
            self.rows.set_input(job, position, input)?;
            if let Some(queue) = self.elsewhere(upstream)? {
                self.post(&queue, job, Vec::new(), Message::Readers { upstream, change: -1 })?;
            // An operator may have discarded it.
            } else if self.state(upstream)?.is_some() {
                self.edit(upstream, |entry| {
                    let readers = &mut entry.job.dependencies.readers;
                    *readers = readers.saturating_sub(1);
                })?;
            }
        }
        self.edit(job, |entry| {
            let DependencyCounts { kept, kept_from, .. } = counts;
            (entry.job.dependencies.kept, entry.job.dependencies.kept_from) = (kept, kept_from);
        })?;
        Ok(counts.kept == 0)
    }

    /// Writes the end of a dependency into its dependent, which goes on or ends if that was what it waited for. Returns
    /// whether the dependent keeps the job that has ended.
    fn resolve_edge(
        &mut self,
        dependent: JobId,
        position: u32,
        end: End,
        now: Timestamp,
    ) -> Result<bool> {
        let upstream = end.job;
        // It may have been removed since.
        let counts = |entry: &Entry| (entry.job.dependencies, entry.job.state.is_waiting());
        let Some((mut counts, waits)) = self.rows.with_job(dependent, counts)? else {
            return Ok(false);
        };
        let Some(mut input) = self.rows.input(dependent, position)? else { return Ok(false) };
        end.write(&mut input, position, &mut counts, waits);
        let (prevents, policy, kept) = (input.prevents_start(), input.on_failure, input.kept);
        self.resolving.bytes_left = self.resolving.bytes_left.saturating_sub(copied(&input));
        self.rows.set_input(dependent, position, input)?;
        counts.open = counts.open.saturating_sub(1);
        let state = self.edit(dependent, |entry| {
            entry.job.dependencies = counts;
            entry.job.state
        })?;
        let open = counts.open;
        let event = match policy {
            // It was ended by someone else, and keeps what it learned for a replay.
            _ if !state.is_waiting() => return Ok(kept),
            OnFailure::Cancel if prevents => EventKind::Cancel,
            OnFailure::Fail if prevents => EventKind::Kill,
            _ if open == 0 && state == State::Blocked => EventKind::Free,
            OnFailure::Fail | OnFailure::Cancel | OnFailure::Run => return Ok(kept),
        };
        let finish = prevents.then_some(Finish::Dependency(upstream));
        self.apply(dependent, event, Transition { finish, ..Transition::default() }, now)?;
        Ok(kept)
    }
}

/// Bytes of the result that was copied into an input.
fn copied(input: &Input) -> usize {
    input.result.as_ref().map_or(0, |result| result.bytes.len())
}

/// Bytes of results for which a job has room, if it has these already.
const fn room(used: u32) -> usize {
    INPUT_BYTES_MAX.saturating_sub(used as usize)
}

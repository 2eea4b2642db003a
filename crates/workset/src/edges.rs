//! Dependencies in a working set: loaded edges, and over them the changes of a run.

use crate::loaded::Loaded;
use crate::set::{Touched, WorkingSet};
use crate::wants::Wants;
use std::collections::{BTreeMap, HashMap};
use windlass_core::engine::{Change, ChangeItem};
use windlass_core::limits::{CALL_RESOLUTIONS_MAX, RESOLUTIONS_MAX};
use windlass_core::model::{Input, State};
use windlass_core::{JobId, Result};
use windlass_executor::OpenEdges;

/// Open edges that a store loads of each of `jobs` jobs that may end: as many as one call resolves.
pub const fn edges_loaded_max(jobs: usize) -> usize {
    let each = CALL_RESOLUTIONS_MAX as usize / if jobs == 0 { 1 } else { jobs };
    if each > RESOLUTIONS_MAX as usize {
        RESOLUTIONS_MAX as usize
    } else if each == 0 {
        1
    } else {
        each
    }
}

/// A dependent, and the position of a dependency among its own.
pub type EdgeKey = (JobId, u32);

/// The dependencies that were loaded.
#[derive(Debug, Default)]
pub struct LoadedEdges {
    /// The first open edges of a job, in order.
    pub open: HashMap<JobId, OpenEdges>,
    /// Single dependencies.
    pub inputs: HashMap<EdgeKey, Input>,
    /// Jobs whose dependencies were all loaded, with their number.
    pub whole: HashMap<JobId, u32>,
    /// Of jobs that keep others: the first position that was loaded, and how many.
    pub spans: HashMap<JobId, (u32, u32)>,
}

impl LoadedEdges {
    /// Adds the next open edge of `upstream`, of which up to `most` are kept.
    pub fn add_open(&mut self, upstream: JobId, key: EdgeKey, input: Input, most: usize) {
        let open = self.open.entry(upstream).or_default();
        if open.edges.len() >= most {
            open.more = true;
            return;
        }
        open.edges.push(key);
        self.inputs.insert(key, input);
    }

    /// Adds the dependencies of a job from a position on, in order.
    pub fn add_span(&mut self, dependent: JobId, from: u32, inputs: Vec<Input>) {
        self.spans.insert(dependent, (from, inputs.len() as u32));
        let keys = (from..).map(|position| (dependent, position));
        self.inputs.extend(keys.zip(inputs));
    }

    /// Adds the next dependency of a job, all of which are added in order.
    pub fn add_next(&mut self, dependent: JobId, input: Input) {
        let count = self.whole.entry(dependent).or_default();
        self.inputs.insert((dependent, *count), input);
        *count += 1;
    }
}

/// A dependency to save.
#[derive(Debug)]
pub struct ChangedInput<'a> {
    /// The dependent.
    pub dependent: JobId,
    /// The position among its dependencies.
    pub position: u32,
    /// The dependency.
    pub input: &'a Input,
}

impl<X> Loaded<X> {
    /// The jobs among these that were loaded for a change and have dependents.
    pub fn followed<'a>(
        &'a self,
        ids: impl IntoIterator<Item = &'a JobId> + 'a,
    ) -> impl Iterator<Item = JobId> + 'a {
        let followed = |id: &&JobId| {
            self.is_locked(id) && self.found(**id).is_some_and(|found| found.entry.job.followed)
        };
        ids.into_iter().filter(followed).copied()
    }

    /// The jobs that maintenance found unresolved, as far as they were loaded for a change and still are.
    pub fn still_unresolved(&self) -> impl Iterator<Item = JobId> + '_ {
        let is = |id: &&JobId| {
            self.is_locked(id)
                && self.found(**id).is_some_and(|found| found.entry.job.is_unresolved())
        };
        self.unresolved.iter().filter(is).copied()
    }

    /// The wanted jobs whose open edges were not loaded yet.
    pub fn edges_to_load<'a>(&'a self, wants: &'a Wants) -> impl Iterator<Item = JobId> + 'a {
        wants.edges.iter().filter(|id| !self.edges.open.contains_key(id)).copied()
    }

    /// The wanted spans that were not loaded yet: the dependent and its first position.
    pub fn spans_to_load<'a>(&'a self, wants: &'a Wants) -> impl Iterator<Item = EdgeKey> + 'a {
        let new = |(id, _): &(&JobId, &u32)| !self.edges.spans.contains_key(id);
        wants.spans.iter().filter(new).map(|(id, from)| (*id, *from))
    }

    /// The wanted jobs whose dependencies were not loaded yet.
    pub fn inputs_to_load<'a>(&'a self, wants: &'a Wants) -> impl Iterator<Item = JobId> + 'a {
        wants.inputs.iter().filter(|id| !self.edges.whole.contains_key(id)).copied()
    }

    /// The dependents of jobs whose edges were wanted, to be changed too.
    pub(crate) fn dependents<'a>(&'a self, wants: &'a Wants) -> impl Iterator<Item = JobId> + 'a {
        let edges = wants.edges.iter().filter_map(|id| self.edges.open.get(id));
        edges.flat_map(|open| &open.edges).map(|(dependent, _)| *dependent)
    }
}

impl<X> WorkingSet<'_, X> {
    /// Notes the dependencies of all jobs that are replayed and the jobs they depend on, so that few loads find them
    /// together.
    pub fn expect_replays(&self, batch: &[ChangeItem]) {
        for item in batch.iter().filter(|item| matches!(item.change, Change::Replay(_))) {
            let found = self.base.found(item.id);
            if found.is_none_or(|found| found.entry.job.dependencies.total == 0) {
                continue;
            }
            let Some(count) = self.base.edges.whole.get(&item.id) else {
                self.miss(|wants| {
                    wants.inputs.insert(item.id);
                });
                continue;
            };
            let inputs = (0..*count).filter_map(|at| self.base.edges.inputs.get(&(item.id, at)));
            let failed = inputs
                .filter(|input| input.outcome.is_some_and(|outcome| outcome != State::Completed));
            for input in failed.filter(|input| !self.base.is_locked(&input.job)) {
                self.miss(|wants| {
                    wants.own.insert(input.job);
                });
            }
        }
    }

    /// One dependency, as the run has changed it or as it was loaded.
    pub(crate) fn edge_input(&self, key: EdgeKey) -> Result<Option<Input>> {
        let found = self.inputs.get(&key).or_else(|| self.base.edges.inputs.get(&key));
        let is_known = self.has_new_inputs(key.0) || self.base.edges.whole.contains_key(&key.0);
        match found {
            Some(input) => Ok(Some(input.clone())),
            None if is_known => Ok(None),
            None => Err(self.miss(|wants| {
                wants.inputs.insert(key.0);
            })),
        }
    }

    /// All dependencies of a job.
    pub(crate) fn all_inputs(&self, dependent: JobId) -> Result<Vec<Input>> {
        let is_whole = self.base.edges.whole.contains_key(&dependent);
        if !is_whole && !self.has_new_inputs(dependent) {
            return Err(self.miss(|wants| {
                wants.inputs.insert(dependent);
            }));
        }
        let mut inputs = Vec::new();
        // The run may have added some behind those that were loaded.
        for position in 0.. {
            let Some(input) = self.edge_input((dependent, position))? else { break };
            inputs.push(input);
        }
        Ok(inputs)
    }

    /// The dependencies of a job from a position on. Those that it keeps will be changed: they are noted together, so that
    /// few loads find them.
    pub(crate) fn span(&self, dependent: JobId, from: u32, limit: usize) -> Result<Vec<Input>> {
        let edges = &self.base.edges;
        let loaded = edges.spans.get(&dependent).map(|(first, count)| (*first, first + count));
        let whole = edges.whole.get(&dependent).map(|count| (0, *count));
        let new = self.has_new_inputs(dependent).then_some((0, u32::MAX));
        let Some((first, end)) = whole.or(new).or(loaded).filter(|(first, _)| *first <= from)
        else {
            return Err(self.miss(|wants| {
                wants.spans.insert(dependent, from);
            }));
        };
        let end = end.min(from.saturating_add(u32::try_from(limit).unwrap_or(u32::MAX)));
        let mut inputs = Vec::new();
        for position in from.max(first)..end {
            let key = (dependent, position);
            let Some(input) = self.inputs.get(&key).or_else(|| edges.inputs.get(&key)) else {
                break;
            };
            inputs.push(input.clone());
        }
        let kept = inputs.iter().filter(|input| input.kept).map(|input| input.job);
        let unlocked: Vec<JobId> = kept.filter(|job| !self.base.is_locked(job)).collect();
        match unlocked.is_empty() {
            true => Ok(inputs),
            false => Err(self.miss(|wants| wants.own.extend(unlocked))),
        }
    }

    /// Whether the run has stored the dependencies of a new job.
    fn has_new_inputs(&self, dependent: JobId) -> bool {
        self.base.found(dependent).is_none() && self.inputs.contains_key(&(dependent, 0))
    }

    /// The open edges of a job: those that were loaded and that the run has not closed, and those that the run has opened.
    pub(crate) fn edges_of(&self, upstream: JobId, limit: usize) -> Result<OpenEdges> {
        let is_new = self.base.found(upstream).is_none();
        let (loaded, more) = match self.base.edges.open.get(&upstream) {
            Some(OpenEdges { edges, more }) => (edges.as_slice(), *more),
            None if is_new => (&[][..], false),
            None => {
                return Err(self.miss(|wants| {
                    wants.edges.insert(upstream);
                }));
            }
        };
        let is_open = |key: &&EdgeKey| self.inputs.get(key).is_none_or(Input::is_open);
        let opened = self.inputs.iter().filter(|(key, input)| {
            input.is_open() && input.job == upstream && !loaded.contains(key)
        });
        let edges = loaded.iter().filter(is_open).chain(opened.map(|(key, _)| key));
        let mut open = OpenEdges::of(edges.copied(), limit);
        open.more |= more;
        Ok(open)
    }

    /// The dependencies to save, except those of jobs that the run has removed.
    pub fn changed_inputs(&self) -> impl Iterator<Item = ChangedInput<'_>> {
        let stays =
            |(dependent, _): &EdgeKey| !matches!(self.jobs.get(dependent), Some(Touched::Removed));
        let changed: &BTreeMap<EdgeKey, Input> = &self.inputs;
        changed.iter().filter(move |(key, _)| stays(key)).map(|((dependent, position), input)| {
            ChangedInput { dependent: *dependent, position: *position, input }
        })
    }
}

//! The dependencies of jobs, and from each job the open dependencies on it.

use std::collections::{BTreeMap, BTreeSet};
use windlass_core::JobId;
use windlass_core::model::Input;

/// All dependencies.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Edges {
    inputs: BTreeMap<JobId, Vec<Input>>,
    /// Open dependencies, by the job that they wait for: the dependent, and the position among its dependencies.
    open: BTreeSet<(JobId, JobId, u32)>,
}

impl Edges {
    /// The dependencies of a job.
    pub(crate) fn inputs(&self, dependent: JobId) -> &[Input] {
        self.inputs.get(&dependent).map_or(&[], Vec::as_slice)
    }

    /// Adds dependencies of a job, from this position on.
    pub(crate) fn add(&mut self, dependent: JobId, from: u32, inputs: Vec<Input>) {
        for (position, input) in (from..).zip(&inputs).filter(|(_, input)| input.is_open()) {
            self.open.insert((input.job, dependent, position));
        }
        self.inputs.entry(dependent).or_default().extend(inputs);
    }

    /// Changes a dependency.
    pub(crate) fn set(&mut self, dependent: JobId, position: u32, input: Input) {
        let inputs = self.inputs.get_mut(&dependent);
        let Some(stored) = inputs.and_then(|inputs| inputs.get_mut(position as usize)) else {
            return;
        };
        match input.is_open() {
            true => self.open.insert((input.job, dependent, position)),
            false => self.open.remove(&(input.job, dependent, position)),
        };
        *stored = input;
    }

    /// Removes the dependencies of a job.
    pub(crate) fn remove(&mut self, dependent: JobId) {
        for (position, input) in (0..).zip(self.inputs.remove(&dependent).unwrap_or_default()) {
            self.open.remove(&(input.job, dependent, position));
        }
    }

    /// The open dependencies on a job.
    pub(crate) fn open_on(&self, upstream: JobId) -> impl Iterator<Item = (JobId, u32)> {
        let from = (upstream, JobId::from_bytes([0; 16]), 0);
        let edges = self.open.range(from..).take_while(move |(of, ..)| *of == upstream);
        edges.map(|(_, dependent, position)| (*dependent, *position))
    }

    /// All open dependencies: the job that is waited for, and the dependent.
    pub(crate) fn all_open(&self) -> impl Iterator<Item = (JobId, JobId)> {
        self.open.iter().map(|(upstream, dependent, _)| (*upstream, *dependent))
    }
}

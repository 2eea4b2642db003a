//! Shapes of flows: groups, chords and trees. A chain is [`NodeBuilder::then`](super::NodeBuilder::then).

use super::{Flow, Node, NodeBuilder, Receives};
use crate::client::{HasOutput, IntoJob};

/// Jobs of one type that run side by side, from [`Flow::group`].
#[derive(Clone, Debug)]
pub struct Group<J> {
    nodes: Vec<Node<J>>,
}

impl<J> Group<J> {
    /// The nodes, in the order of the jobs.
    pub fn nodes(&self) -> &[Node<J>] {
        &self.nodes
    }
}

impl<'g, J> IntoIterator for &'g Group<J> {
    type Item = &'g Node<J>;
    type IntoIter = std::slice::Iter<'g, Node<J>>;

    fn into_iter(self) -> Self::IntoIter {
        self.nodes.iter()
    }
}

/// A job that runs after others of the same type, which may run after others in turn; see [`Flow::tree`].
#[derive(Clone, Debug)]
pub struct Tree<T> {
    job: T,
    children: Vec<Self>,
}

impl<T> Tree<T> {
    /// A job that waits for nothing.
    pub const fn leaf(job: T) -> Self {
        Self { job, children: Vec::new() }
    }

    /// A job that runs after these.
    pub fn of(job: T, children: impl IntoIterator<Item = Self>) -> Self {
        Self { job, children: children.into_iter().collect() }
    }
}

impl Flow {
    /// Adds jobs that run side by side, named `NAME-0`, `NAME-1` and so on.
    pub fn group<T: IntoJob>(
        &mut self,
        name: &str,
        jobs: impl IntoIterator<Item = T>,
    ) -> Group<T::Job> {
        let jobs = jobs.into_iter().enumerate();
        let nodes = jobs.map(|(index, job)| self.add(format!("{name}-{index}"), job).node());
        Group { nodes: nodes.collect() }
    }

    /// Adds a group, and a job that runs after all of it and reads the results. It runs at once if the group is empty.
    pub fn chord<T: IntoJob, L: IntoJob>(
        &mut self,
        (name, jobs): (&str, impl IntoIterator<Item = T>),
        (last_name, last): (&str, L),
    ) -> NodeBuilder<'_, L::Job>
    where
        T::Job: HasOutput,
        L::Job: Receives<<T::Job as HasOutput>::Output>,
    {
        let group = self.group(name, jobs);
        self.add(last_name, last).reads_all(&group)
    }

    /// Adds a tree of jobs, of which each reads the results of its children; returns the root. The root is named `NAME`,
    /// its children `NAME-0`, `NAME-1` and so on, theirs `NAME-0-0`.
    pub fn tree<T: IntoJob>(&mut self, name: &str, tree: Tree<T>) -> Node<T::Job>
    where
        T::Job: HasOutput + Receives<<T::Job as HasOutput>::Output>,
    {
        let Tree { job, children } = tree;
        let children: Vec<Node<T::Job>> = children
            .into_iter()
            .enumerate()
            .map(|(index, child)| self.tree(&format!("{name}-{index}"), child))
            .collect();
        self.add(name, job).reads_all(&children).node()
    }
}

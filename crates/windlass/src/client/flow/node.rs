//! One job of a flow, and what it runs after.

use super::{Flow, Receives};
use crate::client::{HasOutput, IntoJob};
use std::fmt;
use std::marker::PhantomData;
use windlass_core::JobId;
use windlass_core::model::{Dependency, OnFailure};

/// A job of type `J` in a [`Flow`]. Others run after it; a [`StoredFlow`](super::StoredFlow) gives its handle.
pub struct Node<J> {
    id: JobId,
    name: String,
    job: PhantomData<fn() -> J>,
}

impl<J> Node<J> {
    pub(super) const fn new(id: JobId, name: String) -> Self {
        Self { id, name, job: PhantomData }
    }

    /// The id of the job.
    pub const fn id(&self) -> JobId {
        self.id
    }

    /// The name in the flow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This node, to run after it, with what happens if its job is not completed.
    pub fn on_failure(&self, policy: OnFailure) -> After<J> {
        let dependency = Dependency::on(self.id).named(&self.name).on_failure(policy);
        After { dependency, job: PhantomData }
    }
}

impl<J> Clone for Node<J> {
    fn clone(&self) -> Self {
        Self::new(self.id, self.name.clone())
    }
}

impl<J> fmt::Debug for Node<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}, {})", self.name, self.id)
    }
}

/// A dependency on a job of type `J`: a [`Node`], or one with a policy from [`Node::on_failure`].
pub struct After<J> {
    dependency: Dependency,
    job: PhantomData<fn() -> J>,
}

impl<J> After<J> {
    /// Sets the name under which the dependent finds the result, instead of that of the node.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.dependency = self.dependency.named(name);
        self
    }
}

impl<J> From<&Node<J>> for After<J> {
    fn from(node: &Node<J>) -> Self {
        node.on_failure(OnFailure::Fail)
    }
}

impl<J> fmt::Debug for After<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "After({:?})", self.dependency)
    }
}

/// A job that was just added to a flow. [`node`](Self::node) ends the sentence.
pub struct NodeBuilder<'f, J> {
    flow: &'f mut Flow,
    node: Node<J>,
}

impl<'f, J: 'static> NodeBuilder<'f, J> {
    pub(super) const fn new(flow: &'f mut Flow, node: Node<J>) -> Self {
        Self { flow, node }
    }

    /// Runs the job after another one of this flow, whatever the types of both.
    #[must_use]
    pub fn after<U>(self, upstream: impl Into<After<U>>) -> Self {
        self.depend(upstream.into().dependency)
    }

    /// Runs the job after one that exists already, or that is enqueued elsewhere before the flow is.
    #[must_use]
    pub fn after_job(self, dependency: impl Into<Dependency>) -> Self {
        self.depend(dependency.into())
    }

    /// Runs the job after another one whose result it reads: `J` must [receive](Receives) it.
    #[must_use]
    pub fn reads<U: HasOutput>(self, upstream: impl Into<After<U>>) -> Self
    where
        J: Receives<U::Output>,
    {
        self.after(upstream)
    }

    /// Runs the job after all of these, whose results it reads.
    #[must_use]
    pub fn reads_all<'n, U: HasOutput + 'n>(
        self,
        upstream: impl IntoIterator<Item = &'n Node<U>>,
    ) -> Self
    where
        J: Receives<U::Output>,
    {
        upstream.into_iter().fold(self, |job, node| job.after(node))
    }

    /// Adds a job that runs after this one.
    pub fn then<T: IntoJob>(self, name: impl Into<String>, job: T) -> NodeBuilder<'f, T::Job> {
        let Self { flow, node } = self;
        flow.add(name, job).after(&node)
    }

    /// Adds a job that runs after this one and reads its result.
    pub fn feeds<T: IntoJob>(self, name: impl Into<String>, job: T) -> NodeBuilder<'f, T::Job>
    where
        J: HasOutput,
        T::Job: Receives<J::Output>,
    {
        self.then(name, job)
    }

    /// The node.
    pub fn node(self) -> Node<J> {
        self.node
    }

    fn depend(self, dependency: Dependency) -> Self {
        // The node was added last.
        if let Some((_, Ok(job))) = self.flow.nodes.last_mut() {
            job.after.push(dependency);
        }
        self
    }
}

impl<J> fmt::Debug for NodeBuilder<'_, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeBuilder({:?})", self.node)
    }
}

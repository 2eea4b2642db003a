//! Graphs of jobs that are enqueued together, and what their jobs learn of each other.

mod inputs;
mod node;
mod shapes;

pub use inputs::{Inputs, Receives};
pub use node::{After, Node, NodeBuilder};
pub use shapes::{Group, Tree};

use super::{Client, IntoJob, JobHandle, Untyped, trace};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::fmt;
use windlass_core::engine::{Enqueue, Enqueued};
use windlass_core::model::{Name, NewJob};
use windlass_core::{JobId, check_name};

/// A graph of jobs under construction, from [`Client::flow`]: named nodes, each a job that may run after others. It is
/// enqueued as a whole by [`enqueue`](Self::enqueue), or not at all.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # #[derive(windlass::Job, Serialize, Deserialize)]
/// # struct Resize { width: u32 }
/// # #[derive(windlass::Job, Serialize, Deserialize)]
/// # struct Notify { who: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// use windlass::model::OnFailure;
///
/// # let client = windlass::connect("memory:").await?;
/// let mut flow = client.flow("order-789");
/// let small = flow.add("small", Resize { width: 100 }).node();
/// let large = flow.add("large", Resize { width: 2000 }).node();
/// let notify = flow
///     .add("notify", Notify { who: "ada".into() })
///     .after(&small)
///     .after(large.on_failure(OnFailure::Run))
///     .node();
///
/// let stored = flow.enqueue().await?;
/// assert_eq!(stored.handle(&notify).get().await?.dependencies.open, 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "a flow is stored by `enqueue`"]
pub struct Flow {
    client: Client,
    name: Name,
    nodes: Vec<(String, Result<NewJob>)>,
}

impl Client {
    /// Begins a flow with this name, which all of its jobs share, and their follow-ups inherit.
    pub fn flow(&self, name: impl Into<Name>) -> Flow {
        Flow { client: self.clone(), name: name.into(), nodes: Vec::new() }
    }
}

impl Flow {
    /// Adds a job under a name, which no other node of the flow has. The jobs after it find its result under this name.
    pub fn add<T: IntoJob>(&mut self, name: impl Into<String>, job: T) -> NodeBuilder<'_, T::Job> {
        let name: String = name.into();
        let mut job = job.into_new_job();
        let id = match &mut job {
            Ok(job) => *job.id.get_or_insert_with(|| self.client.new_id()),
            Err(_) => self.client.new_id(),
        };
        let node = Node::new(id, name.clone());
        self.nodes.push((name, job));
        NodeBuilder::new(self, node)
    }

    /// The number of jobs.
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no job was added.
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Enqueues all jobs in one atomic step. An error names the node, and nothing is stored.
    pub async fn enqueue(self) -> Result<StoredFlow> {
        let Self { client, name, nodes } = self;
        check_name("flow", &name)?;
        let (mut names, mut jobs) = (Vec::new(), Vec::new());
        let mut known = HashMap::new();
        for (node, job) in nodes {
            check_name("nodes", &node)?;
            let mut job = job.map_err(|error| within(&node, error))?;
            job.flow.get_or_insert_with(|| name.clone());
            if let Some(id) = job.id
                && known.insert(node.clone(), id).is_some()
            {
                let expected = "give each node of a flow its own name";
                return Err(windlass_core::Error::invalid("nodes", node, expected).into());
            }
            names.push(node);
            jobs.push(job);
        }
        trace::hand_on(&mut jobs);
        let items = client.engine().enqueue(Enqueue::all_or_nothing(jobs)).await?.value;
        let mut stored: HashMap<String, Enqueued> = HashMap::new();
        for (node, item) in names.into_iter().zip(items) {
            match item {
                Ok(enqueued) => drop(stored.insert(node, enqueued)),
                // Another node is the reason.
                Err(windlass_core::Error::Aborted { .. }) => {}
                Err(error) => return Err(within(&node, error.into())),
            }
        }
        let ids = known.iter().filter_map(|(node, id)| Some((*id, stored.get(node)?.id)));
        Ok(StoredFlow { ids: ids.collect(), client, name, nodes: stored })
    }
}

/// An error that names the node.
fn within(node: &str, error: Error) -> Error {
    match error {
        Error::Engine(error) => error.within(format_args!("nodes.{node}")).into(),
        error => error,
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flow({}, {} nodes)", self.name, self.nodes.len())
    }
}

/// A flow that was enqueued.
pub struct StoredFlow {
    client: Client,
    name: Name,
    nodes: HashMap<String, Enqueued>,
    /// The stored job of each node: another one than the node's if it existed already.
    ids: HashMap<JobId, JobId>,
}

impl StoredFlow {
    /// The name of the flow.
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// A handle to the job of a node.
    pub fn handle<J>(&self, node: &Node<J>) -> JobHandle<J> {
        let id = self.ids.get(&node.id()).copied().unwrap_or_else(|| node.id());
        match self.nodes.values().find(|enqueued| enqueued.id == id) {
            Some(enqueued) => JobHandle::of(self.client.clone(), enqueued.clone()),
            None => self.client.job(id),
        }
    }

    /// A handle to the job of the node with this name.
    pub fn named(&self, name: &str) -> Option<JobHandle<Untyped>> {
        let enqueued = self.nodes.get(name)?;
        Some(JobHandle::of(self.client.clone(), enqueued.clone()))
    }

    /// The reply of the store for each node, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Enqueued)> {
        self.nodes.iter().map(|(name, enqueued)| (name.as_str(), enqueued))
    }
}

impl fmt::Debug for StoredFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredFlow({}, {} nodes)", self.name, self.nodes.len())
    }
}

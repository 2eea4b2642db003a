//! Assigns claimed jobs to batches, for kinds with a batch handler.

use super::Runtime;
use crate::batch::Group;
use crate::running::Running;
use crate::shared::Shared;
use std::sync::Arc;

/// The batch of each kind that accepts more jobs, by the index of the kind. Empty if no kind has a batch
/// handler.
pub(super) struct Batches(Vec<Option<Arc<Group>>>);

impl Batches {
    pub(super) fn new(shared: &Shared) -> Self {
        let any = shared.routes.iter().any(|route| route.batching.is_some());
        Self(if any { vec![None; shared.routes.len()] } else { Vec::new() })
    }
}

impl Runtime {
    /// Assigns the jobs of one claim to batches, before they start.
    pub(super) fn gather(&mut self, jobs: &[Arc<Running>]) {
        if self.batches.0.is_empty() {
            return;
        }
        for running in jobs {
            let Some(batching) = &self.shared.routes[running.kind].batching else { continue };
            let open = &mut self.batches.0[running.kind];
            let group = match open.take() {
                Some(group) if group.add() => group,
                _ => {
                    let group = Group::open(batching);
                    group.add();
                    group
                }
            };
            running.put_group(group.clone());
            *open = Some(group);
        }
        for (route, open) in self.shared.routes.iter().zip(&mut self.batches.0) {
            if route.batching.as_ref().is_some_and(|batching| batching.linger.is_zero())
                && let Some(group) = open.take()
            {
                group.seal();
            }
        }
    }
}

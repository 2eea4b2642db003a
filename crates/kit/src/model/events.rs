//! Events: what the model expects of them, and what the engine's streams have.

use super::interpreter::agree;
use super::lockstep::{Lockstep, Same};
use super::op::QUEUES;
use std::collections::BTreeMap;
use windlass_core::JobId;
use windlass_core::engine::{Cursor, Event, EventFields, EventsRequest};
use windlass_core::limits::PAGE_MAX;
use windlass_core::machine::EventKind;
use windlass_core::model::{Finish, Name, State};

/// What the model knows of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) job: JobId,
    pub(super) queue: Name,
    pub(super) number: u32,
    pub(super) event: EventKind,
    pub(super) state: Option<State>,
    pub(super) attempt: u32,
    pub(super) reason: Option<Finish>,
}

impl Expected {
    fn of(event: Event) -> Self {
        let EventFields { job, queue, number, event, state, attempt, reason, .. } = event.into();
        Self { job, queue, number, event, state, attempt, reason }
    }
}

/// Events by job.
fn by_job(events: Vec<Expected>) -> BTreeMap<JobId, Vec<Expected>> {
    let mut jobs: BTreeMap<JobId, Vec<Expected>> = BTreeMap::new();
    for event in events {
        jobs.entry(event.job).or_default().push(event);
    }
    jobs
}

impl Lockstep {
    /// Compares the events of this step: per job, because their order across jobs is the engine's choice.
    pub(super) async fn compare_events(&mut self) -> Same {
        let mut expected = std::mem::take(&mut self.model.events);
        for queue in QUEUES.map(Name::from) {
            let on = self.model.queues.get(&queue).is_some_and(|it| it.events.is_some());
            if !on {
                self.read_to.remove(&queue);
                continue;
            }
            let got = by_job(self.new_events(&queue).await?);
            let ours = by_job(expected.remove(&queue).unwrap_or_default());
            if !self.model.is_any_order() {
                agree(&format!("the events of queue {queue}"), &ours, &got)?;
                continue;
            }
            // The engine may free a job before it ends it: the last event of each is the same.
            let jobs = |events: &BTreeMap<_, Vec<_>>| events.keys().copied().collect::<Vec<_>>();
            agree(&format!("the jobs in the events of queue {queue}"), &jobs(&ours), &jobs(&got))?;
            for (ours, got) in ours.values().zip(got.values()) {
                let last = |events: &[Expected]| events.last().map(|it| (it.event, it.state));
                agree(&format!("the last event of queue {queue}"), &last(ours), &last(got))?;
            }
        }
        Ok(())
    }

    /// The events of a queue since they were read last.
    async fn new_events(&mut self, queue: &Name) -> Result<Vec<Expected>, String> {
        let mut all = Vec::new();
        loop {
            let mut request = EventsRequest::new(queue.clone()).limit(PAGE_MAX);
            if let Some(cursor) = self.read_to.get(queue) {
                request = request.after(Cursor::clone(cursor));
            }
            let page = self.rig.engine().events(request).await.map_err(|e| e.to_string())?.value;
            agree("a gap in the events", &false, &page.gap)?;
            self.read_to.insert(queue.clone(), page.next);
            let is_last = page.events.len() < PAGE_MAX as usize;
            all.extend(page.events.into_iter().map(|entry| Expected::of(entry.event)));
            if is_last {
                return Ok(all);
            }
        }
    }
}

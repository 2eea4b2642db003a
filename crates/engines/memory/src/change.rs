//! Changes from outside, and settings.

use crate::store::{Happening, Store};
use windlass_core::engine::{
    Capability, Change, ChangeItem, Changed, Configure, Edits, Item, Settings,
};
use windlass_core::machine::EventKind;
use windlass_core::model::{Due, Order};
use windlass_core::{Error, JobId, Result, Timestamp};

impl Store {
    pub(crate) fn change(&mut self, item: ChangeItem, now: Timestamp) -> Item<Changed> {
        let ChangeItem { id, change, .. } = item;
        change.check(now, self.capabilities.payload_bytes_max)?;
        let event = change.event();
        let at = |due: Due| Happening { run_at: Some(due.at(now)), ..Happening::default() };
        let what = match change {
            Change::Promote => at(Due::Now),
            Change::Reschedule(due) => at(due),
            Change::Reprioritise(priority) => {
                Happening { priority: Some(priority), ..Happening::default() }
            }
            Change::Replay(edits) => return self.replay(id, *edits, now),
            _ => Happening::default(),
        };
        let state = self.apply(id, event, what, now)?;
        Ok(Changed { id, state })
    }

    /// Gives an ended job another life.
    fn replay(&mut self, id: JobId, edits: Edits, now: Timestamp) -> Item<Changed> {
        let run_at = Some(edits.due.at(now));
        let what = Happening { run_at, priority: edits.priority, ..Happening::default() };
        self.foresee_step(id, EventKind::Replay, &what, now)?;
        let entry = self.entry(id)?;
        if let (Some(slot), Some(unique)) = (entry.unique_slot(), &entry.job.header.unique)
            && let Some(holder) = self.holder(&slot, None, now).filter(|holder| holder.id != id)
        {
            return Err(Error::Duplicate { key: unique.key.clone(), holder: holder.id });
        }
        let copy = entry.clone();
        self.take_unique(&copy, now);
        let Some(mut entry) = self.jobs.remove(&id) else { return Err(Error::NotFound { id }) };
        self.index.remove(&entry);
        edits.payload.apply(&mut entry.job.parts.payload);
        edits.state.apply(&mut entry.job.parts.state);
        if let Some(policy) = edits.policy {
            entry.job.header.policy = policy;
        }
        self.index.insert(&entry);
        self.jobs.insert(id, entry);
        let state = self.apply(id, EventKind::Replay, what, now)?;
        Ok(Changed { id, state })
    }

    pub(crate) fn configure(&mut self, change: Configure) -> Result<()> {
        change.check()?;
        match change {
            Configure::Queue(queue, patch) => {
                if patch.order == Some(Order::Fair) && !self.capabilities.has(Capability::FairOrder)
                {
                    return Err(Error::Unsupported {
                        engine: self.capabilities.engine,
                        capability: Capability::FairOrder,
                        hint: "use another order",
                    });
                }
                let settings = self.queues.entry(queue.clone()).or_default();
                patch.apply(settings);
                if *settings == Default::default() {
                    self.queues.remove(&queue);
                }
            }
            Configure::Kind(kind, patch) => {
                let settings = self.kinds.entry(kind.clone()).or_default();
                patch.apply(settings);
                if *settings == Default::default() {
                    self.kinds.remove(&kind);
                }
            }
            _ => {
                return Err(Error::invalid(
                    "configure",
                    "?",
                    "this engine is older than the request",
                ));
            }
        }
        // A gate may have opened.
        self.readied += 1;
        Ok(())
    }

    pub(crate) fn settings(&self) -> Settings {
        let queues = self.queues.iter().map(|(name, s)| (name.clone(), s.clone())).collect();
        let kinds = self.kinds.iter().map(|(name, s)| (name.clone(), s.clone())).collect();
        Settings::new(queues, kinds)
    }
}

//! Changes from outside, and settings.

use crate::executor::{Executor, Happening};
use crate::rows::Rows;
use windlass_core::engine::{
    Capability, Change, ChangeItem, Changed, Configure, Edits, Item, Settings, check_items,
};
use windlass_core::machine::EventKind;
use windlass_core::model::{Due, Order};
use windlass_core::{Error, JobId, Result, Timestamp};

impl<R: Rows> Executor<R> {
    /// Changes jobs from outside; see [`windlass_core::engine::Admin::change`].
    pub fn change(&mut self, batch: Vec<ChangeItem>, now: Timestamp) -> Result<Vec<Item<Changed>>> {
        check_items(&batch)?;
        Ok(batch.into_iter().map(|item| self.change_one(item, now)).collect())
    }

    fn change_one(&mut self, item: ChangeItem, now: Timestamp) -> Item<Changed> {
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
        let Some(mut entry) = self.rows.take(id)? else { return Err(Error::NotFound { id }) };
        let rival = match entry.unique_slot() {
            Some(slot) => self.holder(&slot, None, now)?.filter(|holder| holder.id != id),
            None => None,
        };
        if let (Some(holder), Some(unique)) = (rival, &entry.job.header.unique) {
            let refused = Error::Duplicate { key: unique.key.clone(), holder: holder.id };
            self.rows.put_back(entry)?;
            return Err(refused);
        }
        self.take_unique(&entry, now)?;
        edits.payload.apply(&mut entry.job.parts.payload);
        edits.state.apply(&mut entry.job.parts.state);
        if let Some(policy) = edits.policy {
            entry.job.header.policy = policy;
        }
        let state = self.apply_taken(entry, EventKind::Replay, what, now)?;
        Ok(Changed { id, state })
    }

    /// Changes settings; see [`windlass_core::engine::Admin::configure`].
    pub fn configure(&mut self, batch: Vec<Configure>) -> Result<Vec<Item<()>>> {
        check_items(&batch)?;
        Ok(batch.into_iter().map(|change| self.configure_one(change)).collect())
    }

    fn configure_one(&mut self, change: Configure) -> Result<()> {
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
                self.rows.save_queue(&queue, self.queues.get(&queue))?;
            }
            Configure::Kind(kind, patch) => {
                let settings = self.kinds.entry(kind.clone()).or_default();
                patch.apply(settings);
                if *settings == Default::default() {
                    self.kinds.remove(&kind);
                }
                self.rows.save_kind(&kind, self.kinds.get(&kind))?;
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

    /// All settings that differ from the defaults.
    pub fn settings(&self) -> Settings {
        let queues = self.queues.iter().map(|(name, s)| (name.clone(), s.clone())).collect();
        let kinds = self.kinds.iter().map(|(name, s)| (name.clone(), s.clone())).collect();
        Settings::new(queues, kinds)
    }
}

//! Imports in a sequence: a job of the store is exported, and stored again.

use super::interpreter::agree;
use super::lockstep::{Lockstep, Same};
use super::op::Wish;
use super::story_runner::{StoryRunner, value};
use super::translate::{change, pick};
use super::upkeep::wished;
use crate::rig::Rig;
use windlass_core::engine::{ChangeItem, Get, Import};
use windlass_core::model::{Job, PartSet};
use windlass_core::{Error, JobId};

impl Lockstep {
    pub(super) async fn import(&mut self, number: usize, discards: bool) -> Same {
        let Some(id) = pick(&self.named.ids, number).copied() else { return Ok(()) };
        let Some(mut exported) = self.model.jobs.get(&id).cloned() else { return Ok(()) };
        let fresh = self.named.fresh_id(self.model.now);
        let Exported { mut job, discarded } = export(&self.rig, id, discards).await?;
        if discards {
            let expected = self.model.or_nothing(|model| wished(model, id, Wish::Discard, None));
            agree("a discard", &expected.is_ok(), &discarded)?;
        }
        if !discarded {
            (job.header.id, exported.id) = (fresh, fresh);
            self.named.ids.push(fresh);
        }
        let got = self.rig.engine().import(Import::new([job])).await.map_err(|e| e.to_string())?;
        let got = got.value.into_iter().next().expect("one answer for one job");
        let got = got.map(|item| (item.id, item.disposition));
        let expected = self.model.or_nothing(|model| model.import(exported));
        agree("an import", &expected, &got.as_ref().map(|done| *done).map_err(Error::code))
    }
}

impl StoryRunner {
    pub(super) async fn import(&mut self, number: usize, discards: bool) -> String {
        let Some(id) = pick(&self.named.ids, number).copied() else { return String::new() };
        let fresh = self.named.fresh_id(self.now);
        let Exported { mut job, discarded } = match export(&self.rig, id, discards).await {
            Ok(exported) => exported,
            Err(reason) => return reason,
        };
        if !discarded {
            job.header.id = fresh;
            self.named.ids.push(fresh);
        }
        let reply = self.rig.engine().import(Import::new([job])).await;
        self.text(&value(reply))
    }
}

/// A job as the store returned it.
struct Exported {
    job: Job,
    /// Whether the store has discarded it since.
    discarded: bool,
}

/// Exports a job, and discards it if that is asked for and possible.
async fn export(rig: &Rig, id: JobId, discards: bool) -> Result<Exported, String> {
    let get = Get::new([id]).parts(PartSet::ALL);
    let job = value(rig.engine().get(get).await).map_err(|error| error.to_string())?.remove(0);
    let job = job.ok_or_else(|| format!("{id} does not exist"))?;
    let mut discarded = false;
    if discards {
        let item = ChangeItem::new(id, change(Wish::Discard));
        let reply = value(rig.engine().change(vec![item]).await).map_err(|e| e.to_string())?;
        discarded = reply.into_iter().all(|item| item.is_ok());
    }
    Ok(Exported { job, discarded })
}

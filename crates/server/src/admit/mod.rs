//! A layer that validates writes: jobs must follow the rules of their kind (`registry`, `schema`)
//! and fit the depth limit of their queue (`depth`); replays of sensitive kinds must be confirmed.
//! It must not know HTTP or the caller (only `pace` does).

mod depth;
mod pace;
mod registry;
mod schema;

pub(crate) use depth::{Depth, DepthLimits};
pub(crate) use pace::{Peer, Principal, RateLimits};
pub(crate) use registry::Registry;
pub(crate) use schema::Schema;

use crate::access::KeyChanges;
use crate::beside::on_items;
use registry::Table;
use std::collections::HashMap;
use std::sync::Arc;
use windlass_core::engine::*;
use windlass_core::model::{Name, PartEdit, PartEdits};
use windlass_core::{Error, JobId, Result};

/// The validating layer. It is above the layer that merges calls, so that each request is validated
/// in its own task.
pub(crate) struct Admit {
    engine: Arc<dyn Engine>,
    registry: Arc<Registry>,
    /// `None` for the services: scheduled runs are limited only by a queue's own `max_depth`.
    depth: Option<Arc<Depth>>,
    /// Notified of key changes.
    key_changes: Arc<KeyChanges>,
}

impl Admit {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        registry: Arc<Registry>,
        depth: Option<Arc<Depth>>,
        key_changes: Arc<KeyChanges>,
    ) -> Self {
        Self { engine, registry, depth, key_changes }
    }

    /// Stores the valid jobs of a request and returns an error for each of the others.
    async fn let_in(&self, mut request: Enqueue) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        request.check()?;
        let table = self.registry.table().await?;
        if let Some(depth) = &self.depth {
            depth.refresh().await?;
        }
        let (mut kept, mut refused) = (Vec::with_capacity(request.jobs.len()), Vec::new());
        on_items(request.jobs.len(), || {
            for (index, mut job) in request.jobs.drain(..).enumerate() {
                let taken = table
                    .admit(&mut job)
                    .and_then(|()| self.depth.as_ref().map_or(Ok(()), |depth| depth.admit(&job)));
                match taken {
                    Ok(()) => kept.push(job),
                    Err(error) => refused.push((index, error)),
                }
            }
        });
        let Some((culprit, _)) = refused.first() else {
            request.jobs = kept;
            return self.store(request).await;
        };
        let answers = if request.mode == Mode::AllOrNothing {
            let aborted: Item<Enqueued> = Err(Error::Aborted { culprit: *culprit });
            self.stamped(vec![aborted; kept.len()]).await?
        } else if kept.is_empty() {
            self.stamped(Vec::new()).await?
        } else {
            request.jobs = kept;
            self.store(request).await?
        };
        Ok(answers.map(|answers| merged(answers, refused)))
    }

    fn take_room(&self, queue: &Name) -> Result<()> {
        self.depth.as_ref().map_or(Ok(()), |depth| depth.take(queue))
    }

    /// Stores jobs. Adds a retry time to errors of queues that are full by their own limit.
    async fn store(&self, request: Enqueue) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        let mut reply = self.engine.enqueue(request).await?;
        if let Some(depth) = &self.depth {
            reply
                .value
                .iter_mut()
                .filter_map(|it| it.as_mut().err())
                .for_each(|it| depth.advise(it));
        }
        Ok(reply)
    }

    /// Stamps an answer that needs no call to the store except for its time and epoch.
    async fn stamped<T>(&self, value: T) -> Result<Stamped<T>> {
        Ok(self.engine.health().await?.map(|()| value))
    }

    /// The kinds of jobs whose payload is edited, by id. Reads nothing if no kind has rules.
    async fn kinds_of<'a>(
        &self,
        table: &Table,
        items: impl Iterator<Item = (JobId, &'a PartEdits)>,
    ) -> Result<HashMap<JobId, Name>> {
        let edited = items.filter(|(_, parts)| parts.payload != PartEdit::Keep);
        let ids: Vec<JobId> = edited.map(|(id, _)| id).collect();
        if ids.is_empty() || table.is_idle() {
            return Ok(HashMap::new());
        }
        let found = self.engine.get(Get::new(ids)).await?.value;
        Ok(found.into_iter().flatten().map(|job| (job.header.id, job.header.kind)).collect())
    }

    /// Settles the items with valid payloads and follow-ups; the others keep their leases.
    async fn report(&self, mut request: Settle) -> Result<Stamped<SettleReply>> {
        request.check()?;
        let table = self.registry.table().await?;
        let edits = request.items.iter().map(|item| (item.id, &item.parts));
        let kinds = self.kinds_of(&table, edits).await?;
        let (mut kept, mut refused) = (Vec::with_capacity(request.items.len()), Vec::new());
        for (index, mut item) in request.items.drain(..).enumerate() {
            let checked = edited_payload(&table, kinds.get(&item.id), &item.parts.payload)
                .and_then(|()| follow_ups(&table, &mut item));
            match checked {
                Ok(()) => kept.push(item),
                Err(error) => refused.push((index, error)),
            }
        }
        let requested = !kept.is_empty() || request.claim.is_some() || refused.is_empty();
        request.items = kept;
        let reply = match requested {
            true => self.engine.settle(request).await?,
            false => self.stamped(SettleReply::new(Vec::new(), None)).await?,
        };
        Ok(reply.map(|mut reply| {
            reply.items = merged(std::mem::take(&mut reply.items), refused);
            reply
        }))
    }

    /// Updates the jobs with valid payloads.
    async fn edit(&self, mut request: Update) -> Result<Stamped<Vec<Item<Updated>>>> {
        request.check()?;
        let table = self.registry.table().await?;
        let edits = request.items.iter().map(|item| (item.id, &item.parts));
        let kinds = self.kinds_of(&table, edits).await?;
        let (mut kept, mut refused) = (Vec::with_capacity(request.items.len()), Vec::new());
        for (index, item) in request.items.drain(..).enumerate() {
            match edited_payload(&table, kinds.get(&item.id), &item.parts.payload) {
                Ok(()) => kept.push(item),
                Err(error) => refused.push((index, error)),
            }
        }
        request.items = kept;
        let answers = match request.items.is_empty() && !refused.is_empty() {
            true => self.stamped(Vec::new()).await?,
            false => self.engine.update(request).await?,
        };
        Ok(answers.map(|answers| merged(answers, refused)))
    }

    /// Changes jobs. Checks replays and new priorities against the rules of their kinds, and moves against the depth of the queue.
    async fn alter(&self, batch: Vec<ChangeItem>) -> Result<Stamped<Vec<Item<Changed>>>> {
        check_items(&batch)?;
        let table = self.registry.table().await?;
        let moves = batch.iter().any(|item| matches!(item.change, Change::Move(_)));
        let depth = self.depth.as_ref().filter(|_| moves);
        if let Some(depth) = depth {
            depth.refresh().await?;
        }
        let ruled = batch.iter().filter(|item| is_ruled(&item.change) && !table.is_idle());
        let ids: Vec<_> = ruled.map(|item| item.id).collect();
        if ids.is_empty() && depth.is_none() {
            return self.engine.change(batch).await;
        }
        let found = match ids.is_empty() {
            true => Vec::new(),
            false => self.engine.get(Get::new(ids)).await?.value,
        };
        let mut kinds = found.into_iter().map(|job| job.map(|job| job.header.kind));
        let (mut kept, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
        for (index, item) in batch.into_iter().enumerate() {
            let kind = if is_ruled(&item.change) { kinds.next().flatten() } else { None };
            let checked = match (&item.change, kind) {
                (Change::Replay(edits), Some(kind)) => replay(&table, &kind, edits),
                (Change::Reprioritise(priority), Some(kind)) => {
                    table.check_priority(&kind, *priority)
                }
                (Change::Move(queue), _) => self.take_room(queue),
                // The store reports a missing job itself.
                _ => Ok(()),
            };
            match checked {
                Ok(()) => kept.push(item),
                Err(error) => refused.push((index, error)),
            }
        }
        let mut answers = match kept.is_empty() {
            true => self.stamped(Vec::new()).await?,
            false => self.engine.change(kept).await?,
        };
        if let Some(depth) = depth {
            let errors = answers.value.iter_mut().filter_map(|answer| answer.as_mut().err());
            errors.for_each(|error| depth.advise(error));
        }
        Ok(answers.map(|answers| merged(answers, refused)))
    }
}

/// Checks an edit of the payload of a job of this kind; a job that was not found has none.
fn edited_payload(table: &Table, kind: Option<&Name>, edit: &PartEdit) -> Result<()> {
    match (kind, edit) {
        (None, _) | (_, PartEdit::Keep) => Ok(()),
        (Some(kind), PartEdit::Set(part)) => table.check_payload(kind, Some(part)),
        (Some(kind), PartEdit::Unset) => table.check_payload(kind, None),
    }
}

fn follow_ups(table: &Table, item: &mut SettleItem) -> Result<()> {
    for (index, job) in item.follow_ups.iter_mut().enumerate() {
        let place = format_args!("follow_ups[{index}]");
        table.admit(job).map_err(|error| error.within(place))?;
    }
    Ok(())
}

/// Whether the rules of a kind restrict this change.
const fn is_ruled(change: &Change) -> bool {
    matches!(change, Change::Replay(_) | Change::Reprioritise(_))
}

fn replay(table: &Table, kind: &Name, edits: &Edits) -> Result<()> {
    if table.is_sensitive(kind) && edits.confirm.as_ref() != Some(kind) {
        return Err(windlass_services::unconfirmed(kind));
    }
    if let Some(priority) = edits.priority {
        table.check_priority(kind, priority)?;
    }
    edited_payload(table, Some(kind), &edits.payload)
}

/// Merges the engine's answers with the errors of refused items, in the original order.
pub(crate) fn merged<T>(answers: Vec<Result<T>>, bad: Vec<(usize, Error)>) -> Vec<Result<T>> {
    if bad.is_empty() {
        return answers;
    }
    let total = answers.len() + bad.len();
    let (mut answers, mut bad) = (answers.into_iter(), bad.into_iter().peekable());
    let mut all = Vec::with_capacity(total);
    for place in 0..total {
        match bad.next_if(|(index, _)| *index == place) {
            Some((_, error)) => all.push(Err(error)),
            None => all.extend(answers.next()),
        }
    }
    all
}

impl Jobs for Admit {
    windlass_core::pass_on!(
        engine: capabilities, open_session, heartbeat, close_session, take, claim, wait
    );

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(self.let_in(request))
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        let is_plain =
            |item: &SettleItem| item.follow_ups.is_empty() && item.parts.payload == PartEdit::Keep;
        match request.items.iter().all(is_plain) {
            true => self.engine.settle(request),
            false => Box::pin(self.report(request)),
        }
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        match request.items.iter().all(|item| item.parts.payload == PartEdit::Keep) {
            true => self.engine.update(request),
            false => Box::pin(self.edit(request)),
        }
    }
}

impl Admin for Admit {
    windlass_core::pass_on!(engine: get, list, stats, limits, why, sessions, configure, settings, removed, events, import, health);

    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        if !KeyChanges::is_among(&batch) {
            return self.engine.records(batch);
        }
        Box::pin(async move {
            let _announced = self.key_changes.announce_at_end();
            self.engine.records(batch).await
        })
    }

    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        Box::pin(self.alter(batch))
    }
}

impl Maintain for Admit {
    windlass_core::pass_on!(engine: maintain, check);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_answered_in_its_place() {
        let error = |n: u32| Error::invalid("item", n, "better");
        let all = merged(vec![Ok(1), Ok(3)], vec![(0, error(0)), (2, error(2)), (4, error(4))]);
        assert_eq!(all, [Err(error(0)), Ok(1), Err(error(2)), Ok(3), Err(error(4))]);
    }
}

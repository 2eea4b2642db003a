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
use std::sync::Arc;
use windlass_core::engine::*;
use windlass_core::model::{Name, PartEdit};
use windlass_core::{Error, Result};

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
                let taken = table.admit(&mut job).and_then(|()| self.take_room(&job.queue));
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

    /// Settles the items with valid follow-ups; the others keep their leases.
    async fn report(&self, mut request: Settle) -> Result<Stamped<SettleReply>> {
        request.check()?;
        let table = self.registry.table().await?;
        let (mut kept, mut refused) = (Vec::with_capacity(request.items.len()), Vec::new());
        for (index, mut item) in request.items.drain(..).enumerate() {
            match follow_ups(&table, &mut item) {
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

    /// Changes jobs. Checks replays and new priorities against the rules of their kinds.
    async fn alter(&self, batch: Vec<ChangeItem>) -> Result<Stamped<Vec<Item<Changed>>>> {
        check_items(&batch)?;
        let table = self.registry.table().await?;
        let ruled = batch.iter().filter(|item| is_ruled(&item.change));
        let ids: Vec<_> = ruled.map(|item| item.id).collect();
        if ids.is_empty() || table.is_idle() {
            return self.engine.change(batch).await;
        }
        let found = self.engine.get(Get::new(ids)).await?.value;
        let mut kinds = found.into_iter().map(|job| job.map(|job| job.header.kind));
        let (mut kept, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
        for (index, item) in batch.into_iter().enumerate() {
            let kind = if is_ruled(&item.change) { kinds.next().flatten() } else { None };
            let checked = match (&item.change, kind) {
                (Change::Replay(edits), Some(kind)) => replay(&table, &kind, edits),
                (Change::Reprioritise(priority), Some(kind)) => {
                    table.check_priority(&kind, *priority)
                }
                // The store reports a missing job itself.
                _ => Ok(()),
            };
            match checked {
                Ok(()) => kept.push(item),
                Err(error) => refused.push((index, error)),
            }
        }
        let answers = match kept.is_empty() {
            true => self.stamped(Vec::new()).await?,
            false => self.engine.change(kept).await?,
        };
        Ok(answers.map(|answers| merged(answers, refused)))
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
    match &edits.payload {
        PartEdit::Keep => Ok(()),
        PartEdit::Set(part) => table.check_payload(kind, Some(part)),
        PartEdit::Unset => table.check_payload(kind, None),
    }
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
        engine: capabilities, open_session, heartbeat, close_session, claim, wait, update
    );

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(self.let_in(request))
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        if request.items.iter().all(|item| item.follow_ups.is_empty()) {
            return self.engine.settle(request);
        }
        Box::pin(self.report(request))
    }
}

impl Admin for Admit {
    windlass_core::pass_on!(engine: get, list, stats, sessions, configure, settings, removed, health);

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

//! Enqueue of plain jobs in one call.

use super::{decimal, revision, stamp};
use crate::conn::error::{Trouble, Try};
use crate::conn::int_or_refusal;
use crate::conn::library::Function;
use crate::conn::script::Commands;
use crate::engine::RedisEngine;
use crate::rows::record::{self, JobRow};
use crate::rows::small;
use crate::slow::transaction::Transaction;
use std::collections::{BTreeMap, HashSet};
use windlass_core::engine::{Disposition, Enqueue, Enqueued, Item, Mode, Stamped};
use windlass_core::model::{Header, HeaderFields, Job, NewJob, Order, State};
use windlass_core::policy::{Ready, rank};
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::{Entry, LaneKey};
use windlass_workset::codec::Decoded;

/// Jobs that one call stores; an all-or-nothing batch is one call of up to ten times as many.
const CALL_MAX: usize = 1_000;

/// The reply for a stored job.
const fn created(id: JobId) -> Item<Enqueued> {
    Ok(Enqueued::new(id, Disposition::Created, Some(State::Available)))
}

impl RedisEngine {
    /// Stores jobs; returns `None` if the slow path must do it. Generated ids are kept.
    pub(crate) async fn enqueue_fast(
        &self,
        request: &mut Enqueue,
    ) -> Result<Option<Stamped<Vec<Item<Enqueued>>>>> {
        let Some(transaction) = self.begin_fast().await? else { return Ok(None) };
        let now = match &self.inner.shared.clock {
            Some(clock) => clock.now(),
            None => transaction.live.server.about_now(),
        };
        let max = self.inner.shared.capabilities.payload_bytes_max;
        let mut lanes: BTreeMap<LaneKey, usize> = BTreeMap::new();
        for job in &request.jobs {
            if !job.is_plain() || job.check(now, max).is_err() {
                return Ok(None);
            }
            let known = lanes.len();
            lanes.entry((job.queue.clone(), job.kind.clone())).or_insert(known + 1);
        }
        if lanes.is_empty() || !lanes.keys().all(|lane| transaction.settings.stores_plainly(lane)) {
            return Ok(None);
        }
        let given: Vec<JobId> = request.jobs.iter().filter_map(|job| job.id).collect();
        let distinct: HashSet<JobId> = given.iter().copied().collect();
        if distinct.len() < given.len() {
            return Ok(None);
        }
        self.give_ids(&mut request.jobs, now);
        let chunk = if request.mode == Mode::Each { CALL_MAX } else { request.jobs.len() };
        let (mut items, mut rest) = (Vec::with_capacity(request.jobs.len()), &request.jobs[..]);
        let mut now = now;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(chunk.min(rest.len()));
            let stored = self.store(&transaction, some, &lanes, &distinct).await;
            match stored.map_err(Trouble::into_error) {
                Ok(Some(at)) => {
                    now = at;
                    items.extend(some.iter().filter_map(|job| job.id).map(created));
                }
                Ok(None) if items.is_empty() => return Ok(None),
                Err(error) if items.is_empty() => return Err(error),
                // Jobs before it are stored, so that the call does not fail as a whole.
                Ok(None) => {
                    let slow = self.enqueue_slow(Enqueue::each(rest.to_vec())).await;
                    match slow {
                        Ok(slow) => items.extend(slow.value),
                        Err(error) => items.extend(rest.iter().map(|_| Err(error.clone()))),
                    }
                    break;
                }
                Err(error) => {
                    items.extend(rest.iter().map(|_| Err(error.clone())));
                    break;
                }
            }
            rest = others;
        }
        self.inner.wakeups.wake();
        Ok(Some(stamp(&transaction, now, items)))
    }

    /// Stores jobs in one call; returns its time, or `None` if the function refused.
    async fn store(
        &self,
        transaction: &Transaction<'_>,
        jobs: &[NewJob],
        lanes: &BTreeMap<LaneKey, usize>,
        given: &HashSet<JobId>,
    ) -> Try<Option<Timestamp>> {
        let keys = transaction.keys;
        let mut call = Commands::default();
        call.keys.extend(["revision", "seq", "job", "part", "wake"].map(|name| keys.one(name)));
        let mut in_order: Vec<(&LaneKey, usize)> =
            lanes.iter().map(|(lane, number)| (lane, *number)).collect();
        in_order.sort_unstable_by_key(|(_, number)| *number);
        call.args.extend([revision(&transaction.settings), self.test_now(), decimal(lanes.len())]);
        for (lane, _) in in_order {
            call.keys.extend([keys.all(lane), keys.ready(lane), keys.open(&lane.0)]);
            call.args.push(lane.1.as_bytes().to_vec());
        }
        let ids = jobs.iter().filter_map(|job| job.id);
        let existing: Vec<Vec<u8>> =
            ids.filter(|id| given.contains(id)).map(|id| id.as_bytes().to_vec()).collect();
        call.args.push(decimal(existing.len()));
        call.args.extend(existing);
        for job in jobs {
            let (Some(id), Some(lane)) =
                (job.id, lanes.get(&(job.queue.clone(), job.kind.clone())))
            else {
                return Ok(None);
            };
            let entry = entry(job, id);
            let payload = job.parts.payload.as_ref().map(record::encode_part).transpose()?;
            call.args.extend([
                decimal(lane),
                id.as_bytes().to_vec(),
                decimal(entry.rank),
                vec![small::ready_flags(&entry)],
                first_body(&entry)?,
                payload.unwrap_or_default(),
            ]);
        }
        let reply = transaction.link.call(&transaction.live, Function::Enqueue, &call, &[]).await?;
        let now = int_or_refusal(&reply)?;
        if now.is_none() {
            self.refused();
        }
        Ok(now.map(Timestamp::from_millis))
    }
}

/// A plain job as it enters, at the beginning of time: the function gives it the time and its number.
fn entry(job: &NewJob, id: JobId) -> Entry {
    let now = Timestamp::EPOCH;
    let header = Header::from(HeaderFields {
        id,
        queue: job.queue.clone(),
        kind: job.kind.clone(),
        priority: job.priority,
        run_at: now,
        created_at: now,
        tenant: job.tenant.clone(),
        key: None,
        group: None,
        cost: job.cost,
        unique: None,
        parent: job.parent,
        flow: job.flow.clone(),
        tags: job.tags.clone(),
        trace: job.trace.clone(),
        policy: job.policy.clone(),
        counters: Default::default(),
    });
    let mut entry = Entry::new(Job::new(header, State::Available, job.parts.clone()));
    (entry.job.transitions, entry.job.changed_at) = (1, now);
    entry.ready_at = now;
    // A queue in another order is not plain.
    entry.rank = rank(Order::Strict, Ready { priority: job.priority, at: now, turn: 0 });
    entry
}

fn first_body(entry: &Entry) -> Decoded<Vec<u8>> {
    record::body(entry, JobRow { revision: 1, alone: false })
}

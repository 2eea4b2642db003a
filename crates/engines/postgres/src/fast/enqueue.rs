//! Enqueue of plain jobs in one statement.

use crate::conn::Row;
use crate::conn::error::{Trouble, Try};
use crate::engine::PostgresEngine;
use crate::retention::partitions::OLD_ID_MS;
use crate::rows::codec::{self, Spec};
use crate::rows::entries::{at, job_id};
use crate::rows::lanes::Lanes;
use crate::slow::load::PLAIN;
use std::collections::HashSet;
use uuid::Uuid;
use windlass_core::engine::{Disposition, Enqueue, Enqueued, Item, Stamped};
use windlass_core::model::{NewJob, State};
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::LaneKey;

const ENQUEUE: &str = include_str!("../../sql/enqueue.sql");

/// The parameters of the statement, by column.
#[derive(Default)]
struct Rows<'a> {
    ids: Vec<Uuid>,
    lanes: Vec<i32>,
    priorities: Vec<i32>,
    flags: Vec<i16>,
    specs: Vec<Option<String>>,
    payloads: Vec<Option<&'a [u8]>>,
    envelopes: Vec<Option<String>>,
    queues: Vec<&'a str>,
    kinds: Vec<&'a str>,
}

/// The reply for a stored job.
const fn created(id: JobId) -> Item<Enqueued> {
    Ok(Enqueued::new(id, Disposition::Created, Some(State::Available)))
}

/// The parameters for these jobs, whose lanes have numbers.
fn rows<'a>(jobs: &'a [NewJob], lanes: &Lanes) -> Result<Rows<'a>> {
    let mut rows = Rows::default();
    for job in jobs {
        let lane = lanes.number(&job.queue, &job.kind);
        rows.lanes.extend(lane);
        rows.ids.extend(job.id.map(JobId::as_uuid));
        rows.priorities.push(job.priority);
        rows.flags.push(if job.completes_plainly() { PLAIN } else { 0 });
        rows.specs.push(codec::to_text(&Spec::of_new(job))?);
        let payload = job.parts.payload.as_ref();
        rows.payloads.push(payload.map(|part| &*part.bytes));
        rows.envelopes.push(payload.map(codec::envelope_text).transpose()?.flatten());
        if rows.queues.last() != Some(&&*job.queue) {
            rows.queues.push(&job.queue);
        }
        if rows.kinds.last() != Some(&&*job.kind) {
            rows.kinds.push(&job.kind);
        }
    }
    Ok(rows)
}

impl PostgresEngine {
    /// Stores jobs; returns `None` if the slow path must do it. Generated ids are kept.
    pub(crate) async fn enqueue_fast(
        &self,
        request: &mut Enqueue,
        lanes: &[LaneKey],
    ) -> Result<Option<Stamped<Vec<Item<Enqueued>>>>> {
        let now = self.about_now();
        let max = self.inner.shared.capabilities.payload_bytes_max;
        let good = |job: &NewJob| job.is_plain() && job.check(now, max).is_ok();
        if request.jobs.is_empty() || !request.jobs.iter().all(good) {
            return Ok(None);
        }
        let given: Vec<JobId> = request.jobs.iter().filter_map(|job| job.id).collect();
        let distinct: HashSet<&JobId> = given.iter().collect();
        if distinct.len() < given.len() {
            return Ok(None);
        }
        self.give_ids(&mut request.jobs, now);
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        let stored = async {
            let clock = self.inner.shared.test_now().map(Timestamp::as_millis);
            conn.lanes.intern(&conn, lanes, clock).await?;
            let rows = rows(&request.jobs, &conn.lanes)?;
            if rows.lanes.len() < rows.ids.len() {
                // A queue has too many lanes: the slow path refuses the right job.
                return Ok(Vec::new());
            }
            let lowest = rows.ids.iter().min();
            let Rows { ids, lanes, priorities, flags, specs, payloads, envelopes, queues, kinds } =
                &rows;
            conn.query(
                ENQUEUE,
                &[
                    ids,
                    lanes,
                    priorities,
                    flags,
                    specs,
                    payloads,
                    envelopes,
                    queues,
                    &clock,
                    &lowest,
                    &OLD_ID_MS.cast_signed(),
                    kinds,
                ],
            )
            .await
        };
        let stored: Try<Vec<Row>> = stored.await;
        let rows = match stored {
            Ok(rows) => rows,
            Err(trouble) => return self.after_trouble(conn, trouble).await,
        };
        let epoch = conn.epoch.clone();
        conn.give_back();
        let Some(row) = rows.first() else { return Ok(None) };
        let now = self.saw(at(row.get(0)));
        if !row.get::<_, bool>(1) {
            return Ok(None);
        }
        let some: Option<Vec<Uuid>> = row.get(2);
        // Also if only some jobs were stored.
        let ready = Stamped { now, epoch: epoch.clone(), value: lanes.to_vec() };
        self.inner.wakeups.wake(Some(row.get(3)), Some(ready));
        let ids = request.jobs.iter().filter_map(|job| job.id);
        let Some(some) = some else {
            let value = ids.map(created).collect();
            return Ok(Some(Stamped { now, epoch, value }));
        };
        let some: HashSet<JobId> = some.into_iter().map(job_id).collect();
        self.enqueue_rest(request, &some).await.map(Some)
    }

    /// Sends jobs whose id existed to the slow path; the others were stored.
    async fn enqueue_rest(
        &self,
        request: &Enqueue,
        stored: &HashSet<JobId>,
    ) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        let is_stored = |job: &NewJob| job.id.is_some_and(|id| stored.contains(&id));
        let rest = request.jobs.iter().filter(|job| !is_stored(job)).cloned();
        let reply = self.enqueue_slow(Enqueue::each(rest)).await?;
        Ok(reply.map(|items| {
            let mut others = items.into_iter();
            let items = request.jobs.iter().filter_map(|job| match job.id {
                Some(id) if stored.contains(&id) => Some(created(id)),
                _ => others.next(),
            });
            items.collect()
        }))
    }

    /// The estimated time of the store.
    fn about_now(&self) -> Timestamp {
        self.inner.shared.test_now().unwrap_or_else(|| self.inner.estimate.now())
    }

    /// Updates the estimate.
    fn saw(&self, now: Timestamp) -> Timestamp {
        self.inner.estimate.saw(now);
        self.inner.shared.now(now)
    }
}

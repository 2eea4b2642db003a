//! Runs a verb inside the application's transaction, under a savepoint. Never ends the transaction.

use crate::conn::error::{Trouble, Try, unavailable};
use crate::conn::{Conn, Row};
use crate::fast::Completions;
use crate::slow::load::{Loaded, Loader};
use crate::slow::moves;
use crate::slow::perform::{Act, Run};
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_core::engine::{Enqueue, Enqueued, Item, Settle, SettleItem, Settled};
use windlass_core::model::{AttemptEnd, Name, NewJob, State};
use windlass_core::time::Clock;
use windlass_core::{Error, JobId, Result, Timestamp};
use windlass_executor::LaneKey;
use windlass_workset::{Context, Ran, Store as _, Wants, rounds};

/// Maximum runs within an application's transaction, where waiting blocks others.
const TRIES_MAX: u32 = 5;
/// Rolls the application's transaction back to our savepoint, which also releases the locks taken since.
const ROLL_BACK: &str = "ROLLBACK TO SAVEPOINT windlass; RELEASE SAVEPOINT windlass";
/// Limits the wait for locks to this many milliseconds, or less if the application's setting is lower; returns the
/// limit. Valid until the transaction ends or is rolled back.
const WAIT_LESS: &str = "SELECT was, current_setting('transaction_isolation'), set_config('lock_timeout', CASE WHEN
        extract(epoch FROM was::interval) * 1000 BETWEEN 1 AND $1::bigint THEN was ELSE $1::bigint || 'ms' END, true)
    FROM current_setting('lock_timeout') was";
const WAIT_AS_BEFORE: &str = "SELECT set_config('lock_timeout', $1::text, true)";
/// Wakes workers when the transaction commits.
const WAKE: &str = "SELECT {s}.wake($1::bigint)::text";

/// Wakes readers of the events of these queues when the transaction commits.
const WAKE_READERS: &str = "SELECT {s}.wake_readers($1::text[])::text";

/// An application's transaction, with the parameters of runs in it.
pub(crate) struct Joined<'a, 'c> {
    pub(crate) conn: &'a Conn<'c>,
    pub(crate) context: Context<'a>,
    pub(crate) clock: Option<&'a Arc<dyn Clock>>,
    /// How long a run waits for a key held by another transaction.
    pub(crate) lock_timeout_ms: u64,
    /// Lanes to create in the transaction, because no cache has them.
    pub(crate) lanes: Vec<LaneKey>,
    /// The job that a report moves to another queue, where its lane may be new, too.
    pub(crate) moved: Option<(JobId, Name)>,
}

/// Settings of the application's transaction.
#[derive(Default)]
struct Settings {
    lock_timeout: String,
    isolation: String,
}

/// The result of a run.
struct Done<T> {
    now: Timestamp,
    /// The lowest number of the new claimable jobs.
    lowest: Option<i64>,
    /// The queues whose events have news for readers.
    events: BTreeSet<Name>,
    value: T,
}

impl Joined<'_, '_> {
    /// Stores jobs. `give_ids` gives ids to jobs without one and returns the new ids.
    pub(crate) async fn enqueue(
        &self,
        request: Enqueue,
        give_ids: &(dyn Fn(&mut [NewJob], Timestamp) -> Vec<JobId> + Sync),
    ) -> Result<(Timestamp, Vec<Item<Enqueued>>)> {
        let (mut request, mut fresh) = (request, Vec::new());
        let all_stored = |answers: &Vec<_>| answers.iter().all(is_stored);
        let mut done = self.store(&mut request, &mut fresh, give_ids, all_stored).await?;
        let answers = &mut done.value;
        let stored: Vec<usize> = (0..answers.len()).filter(|at| is_stored(&answers[*at])).collect();
        let mut wakes = (done.lowest, done.events);
        if !stored.is_empty() && stored.len() < answers.len() {
            // Stored again without the jobs whose key is held, so that its holder is not blocked.
            request.jobs = stored.iter().map(|at| request.jobs[*at].clone()).collect();
            let others = self.store(&mut request, &mut fresh, give_ids, |_| true).await?;
            wakes = (others.lowest, others.events);
            stored.iter().zip(others.value).for_each(|(at, answer)| answers[*at] = answer);
        }
        self.wake(wakes.0, &wakes.1).await?;
        Ok((done.now, done.value))
    }

    /// Stores jobs, and rolls back unless the results are to be kept.
    async fn store(
        &self,
        request: &mut Enqueue,
        fresh: &mut Vec<JobId>,
        give_ids: &(dyn Fn(&mut [NewJob], Timestamp) -> Vec<JobId> + Sync),
        keeps: fn(&Vec<Item<Enqueued>>) -> bool,
    ) -> Result<Done<Vec<Item<Enqueued>>>> {
        let wants = Wants::of_enqueue(request);
        let mut act = |run: &mut Run<'_>, now| {
            fresh.extend(give_ids(&mut request.jobs, now));
            run.rows_mut().add_fresh(fresh.iter().copied());
            run.enqueue(request.clone(), now)
        };
        self.perform(&wants, &mut act, keeps).await
    }

    /// Settles the attempt of a job. Rolls back to the savepoint if the report is refused.
    pub(crate) async fn settle(mut self, item: SettleItem) -> Result<Settled> {
        // How a repeated report may be recorded: a failure is a retry only if the job runs again.
        let (id, ends) = (item.id, [State::Available, State::Dead].map(|it| item.outcome.end(it)));
        // Boxed here and below, because these futures are large and become parts of the application's.
        if Box::pin(self.completes_plainly(&item)).await? {
            let (end, state) = (AttemptEnd::Complete, State::Completed);
            return Ok(Settled::new(id, end, state));
        }
        self.moved = item.queue.clone().map(|queue| (id, queue));
        let request = Settle::new([item]);
        let wants = Wants::of_settle(&request);
        let mut act = |run: &mut Run<'_>, now| {
            run.rows().expect_follow_ups(&request.items);
            run.settle(&request, now).map(|reply| reply.items)
        };
        let is_new = |items: &Vec<Item<Settled>>| {
            items.iter().all(|item| item.as_ref().is_ok_and(|settled| !settled.already))
        };
        let done = self.perform(&wants, &mut act, is_new).await?;
        if is_new(&done.value) {
            self.wake(done.lowest, &done.events).await?;
        }
        match done.value.into_iter().next().unwrap_or(Err(Error::NotFound { id }))? {
            // It ended otherwise: the writes of this transaction must not be kept.
            settled if settled.already && !ends.contains(&settled.end) => {
                Err(Error::LeaseLost { id })
            }
            settled => Ok(settled),
        }
    }

    /// Completes a plain job with the statement of the fast path; returns whether it did.
    async fn completes_plainly(&self, item: &SettleItem) -> Result<bool> {
        let items = std::slice::from_ref(item);
        let Some(completions) = Completions::of(items) else { return Ok(false) };
        let attempt = async {
            let was = self.wait_less().await?;
            check_isolation(&was.isolation, true, false)?;
            let now = self.clock.map(|clock| clock.now().as_millis());
            let settled = completions.complete_in(self.conn, now).await?;
            self.wait_as_before(&was).await?;
            Ok::<_, Trouble>(!settled.is_empty())
        };
        self.command("SAVEPOINT windlass").await?;
        match attempt.await {
            Ok(true) => self.command("RELEASE SAVEPOINT windlass").await.map(|()| true),
            // The slow path decides, and repeats it after a conflict.
            Ok(false) | Err(Trouble::Retryable(_)) => self.command(ROLL_BACK).await.map(|()| false),
            Err(Trouble::Fatal(error)) => self.command(ROLL_BACK).await.and(Err(error)),
        }
    }

    async fn command(&self, sql: &str) -> Result<()> {
        self.conn.command(sql).await.map_err(Trouble::into_error)
    }

    /// Limits the wait for locks.
    async fn wait_less(&self) -> Try<Settings> {
        let rows = self.conn.query(WAIT_LESS, &[&(self.lock_timeout_ms as i64)]).await?;
        let read = |row: &Row| Settings { lock_timeout: row.get(0), isolation: row.get(1) };
        Ok(rows.first().map(read).unwrap_or_default())
    }

    async fn wait_as_before(&self, was: &Settings) -> Try<()> {
        self.conn.query(WAIT_AS_BEFORE, &[&was.lock_timeout]).await.map(drop)
    }

    /// When the transaction commits, wakes workers if it makes jobs claimable, and readers of these events.
    async fn wake(&self, lowest: Option<i64>, events: &BTreeSet<Name>) -> Result<()> {
        if let Some(lowest) = lowest {
            self.conn.query(WAKE, &[&lowest]).await.map_err(Trouble::into_error)?;
        }
        if !events.is_empty() {
            let queues: Vec<String> = events.iter().map(ToString::to_string).collect();
            self.conn.query(WAKE_READERS, &[&queues]).await.map_err(Trouble::into_error)?;
        }
        Ok(())
    }

    /// Runs a verb. Rolls back to the savepoint unless `keeps` accepts the result.
    async fn perform<T>(
        &self,
        wants: &Wants,
        act: &mut Act<'_, T>,
        keeps: impl Fn(&T) -> bool,
    ) -> Result<Done<T>> {
        let mut again = unavailable("it was never tried");
        for _ in 0..TRIES_MAX {
            self.command("SAVEPOINT windlass").await?;
            match Box::pin(self.attempt(wants, act)).await {
                Ok(done) => {
                    let keeps = keeps(&done.value);
                    let end = if keeps { "RELEASE SAVEPOINT windlass" } else { ROLL_BACK };
                    self.command(end).await?;
                    return Ok(done);
                }
                Err(trouble) => {
                    self.command(ROLL_BACK).await?;
                    match trouble {
                        Trouble::Retryable(error) => again = error,
                        Trouble::Fatal(error) => return Err(error),
                    }
                }
            }
        }
        Err(again)
    }

    async fn attempt<T>(&self, wants: &Wants, act: &mut Act<'_, T>) -> Try<Done<T>> {
        let Self { conn, clock, .. } = *self;
        let loader = Loader::new(conn, clock);
        let mut loaded = Loaded::default();
        let was = self.wait_less().await?;
        check_isolation(&was.isolation, !wants.own.is_empty(), wants.has_keys())?;
        let test_now = clock.map(|clock| clock.now().as_millis());
        let moves: Vec<_> = self.moved.iter().map(|(id, queue)| (*id, queue)).collect();
        let mut lanes = moves::lanes(conn, &moves).await?;
        lanes.extend(self.lanes.iter().cloned());
        conn.lanes.join(conn, &lanes, test_now).await?;
        loader.load(wants, &mut loaded).await?;
        let mut ran = rounds(&loader, self.context, &mut loaded, wants.parts, act).await?;
        let more = loader.lanes_beside(&lanes);
        if !more.is_empty() {
            conn.lanes.join(conn, &more, test_now).await?;
            ran = rounds(&loader, self.context, &mut loaded, wants.parts, act).await?;
        }
        let Ran { value, saves, .. } = ran;
        for batch in &saves.batches {
            batch.write(conn).await?;
        }
        self.wait_as_before(&was).await?;
        let lowest = saves.lowest.into_iter().chain(loaded.lowest_skipped()).min();
        Ok(Done { now: loaded.now, lowest, events: saves.events, value: value? })
    }
}

/// Refuses what a snapshot from before a rewrite of a table, which would see the table empty, cannot decide.
fn check_isolation(isolation: &str, ends_job: bool, has_keys: bool) -> Result<()> {
    if ["read committed", "read uncommitted"].contains(&isolation) {
        return Ok(());
    }
    if ends_job {
        let expected = "the end of a job needs READ COMMITTED";
        return Err(Error::invalid("transaction", isolation, expected));
    }
    if has_keys {
        let expected = "jobs with unique or ordering keys need READ COMMITTED";
        return Err(Error::invalid("transaction", isolation, expected));
    }
    Ok(())
}

/// Whether a new job was stored.
fn is_stored(answer: &Item<Enqueued>) -> bool {
    answer.as_ref().is_ok_and(Enqueued::is_new)
}

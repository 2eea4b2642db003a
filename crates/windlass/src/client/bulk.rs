//! Bulk enqueue and bulk change: many jobs in few calls.

use super::{Client, IntoJob, JobHandle, trace};
use crate::error::{Error, Result};
use windlass_core::JobId;
use windlass_core::engine::Change;
use windlass_core::engine::{ChangeItem, Changed, Enqueue, Enqueued, Item};
use windlass_core::limits::{BATCH_MAX, ENQUEUE_BATCH_MAX};
use windlass_core::model::{NewJob, Part, PartName};
use windlass_core::policy::{Pace, Pacer};

/// Maximum payload bytes per call of a bulk enqueue; larger payloads mean fewer jobs per call.
const CALL_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Client {
    /// Enqueues many jobs in as few calls as the limits allow. Each job has its own result, in the order of
    /// the jobs; a refused job does not affect the others. The iterator is consumed one call at a time.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use std::time::Duration;
    /// # #[derive(windlass::Job, Serialize, Deserialize)]
    /// # struct Greet { who: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let client = windlass::connect("memory:").await?;
    /// let names = ["ada", "alan", "grace"];
    /// let answers = client.enqueue_all(names.map(|who| Greet { who: who.into() })).await;
    /// assert!(answers.iter().all(Result::is_ok));
    ///
    /// // The same with something set for each.
    /// let later = names.map(|who| {
    ///     windlass::job(Greet { who: who.into() }).delay(Duration::from_secs(60)).unique(who)
    /// });
    /// assert_eq!(client.enqueue_all(later).await.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue_all<I, T>(&self, jobs: I) -> Vec<Result<JobHandle<T::Job>>>
    where
        I: IntoIterator<Item = T>,
        T: IntoJob,
    {
        self.enqueue_spread(None, jobs).await
    }

    /// Enqueues many jobs spread over time: at most the given number of jobs per second become due, counted
    /// from the time at which each job would be due by itself. Use it to avoid sending, say, a million mails
    /// at once.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(windlass::Job, Serialize, Deserialize)]
    /// # struct Greet { who: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// use windlass::policy::Pace;
    ///
    /// # let client = windlass::connect("memory:").await?;
    /// let jobs = ["ada", "alan", "grace"].map(|who| Greet { who: who.into() });
    /// let answers = client.enqueue_paced(Pace::per_second(2)?, jobs).await;
    /// assert!(answers.iter().all(Result::is_ok));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue_paced<I, T>(&self, pace: Pace, jobs: I) -> Vec<Result<JobHandle<T::Job>>>
    where
        I: IntoIterator<Item = T>,
        T: IntoJob,
    {
        self.enqueue_spread(Some(pace), jobs).await
    }

    async fn enqueue_spread<I, T>(
        &self,
        pace: Option<Pace>,
        jobs: I,
    ) -> Vec<Result<JobHandle<T::Job>>>
    where
        I: IntoIterator<Item = T>,
        T: IntoJob,
    {
        let mut jobs = jobs.into_iter().map(IntoJob::into_new_job).peekable();
        let (mut answers, mut pacer) = (Vec::new(), None);
        while jobs.peek().is_some() {
            let mut call = Call::gather(&mut jobs);
            let spread = match pace {
                Some(pace) => self.spread(pace, &mut pacer, &mut call.jobs).await,
                None => Ok(()),
            };
            let count = call.jobs.len();
            let stored = match spread {
                Ok(()) => self.store_all(call.jobs).await,
                Err(error) => each(count, Err(error)),
            };
            let mut stored = stored.into_iter();
            // Jobs that failed to serialize keep their position among the results.
            answers.extend(call.places.into_iter().map(|place| match place {
                Some(error) => Err(error),
                None => {
                    let stored = stored.next().unwrap_or_else(|| Err(not_answered()))?;
                    Ok(JobHandle::of(self.clone(), stored))
                }
            }));
        }
        answers
    }

    /// Assigns run times, by the store's clock, to the jobs of the next call.
    async fn spread(
        &self,
        pace: Pace,
        pacer: &mut Option<Pacer>,
        jobs: &mut [NewJob],
    ) -> windlass_core::Result<()> {
        let now = self.engine().health().await?.now;
        let pacer = pacer.get_or_insert_with(|| Pacer::new(pace, now));
        pacer.go_on(now);
        jobs.iter_mut().for_each(|job| job.due = pacer.due(job.due));
        Ok(())
    }

    /// Enqueues all of these jobs or none of them, in one atomic step. At most [`ENQUEUE_BATCH_MAX`] jobs;
    /// some engines also require that all are on one queue.
    pub async fn enqueue_atomic<I, T>(&self, jobs: I) -> Result<Vec<JobHandle<T::Job>>>
    where
        I: IntoIterator<Item = T>,
        T: IntoJob,
    {
        let refused = |index, source| Error::NotStored { index, source: Box::new(source) };
        let mut batch = Vec::new();
        // One job over the limit is enough for the engine to refuse the batch.
        for (index, job) in jobs.into_iter().take(ENQUEUE_BATCH_MAX + 1).enumerate() {
            batch.push(job.into_new_job().map_err(|error| refused(index, error))?);
        }
        trace::hand_on(&mut batch);
        let items = self.engine().enqueue(Enqueue::all_or_nothing(batch)).await?.value;
        let culprit = items.iter().position(|item| {
            matches!(item, Err(error) if !matches!(error, windlass_core::Error::Aborted { .. }))
        });
        let mut stored = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match item {
                Ok(enqueued) => stored.push(JobHandle::of(self.clone(), enqueued)),
                Err(_) if culprit.is_some_and(|culprit| culprit != index) => {}
                Err(error) => return Err(refused(index, error.into())),
            }
        }
        Ok(stored)
    }

    /// Applies one change to many jobs. Each job has its own result, in the order of the ids.
    pub async fn change_all<I>(&self, ids: I, change: Change) -> Vec<Result<Changed>>
    where
        I: IntoIterator<Item = JobId>,
    {
        let item = |id| ChangeItem::new(id, change.clone());
        self.change_each(ids.into_iter().map(item)).await
    }

    /// Applies a list of changes, in order, each with its own result. An item may require that the job is
    /// still in the state that the change was decided for ([`ChangeItem::if_state`]).
    pub async fn change_each<I>(&self, items: I) -> Vec<Result<Changed>>
    where
        I: IntoIterator<Item = ChangeItem>,
    {
        let items: Vec<ChangeItem> = items.into_iter().collect();
        let mut answers = Vec::with_capacity(items.len());
        for items in items.chunks(BATCH_MAX) {
            let reply = self.engine().change(items.to_vec()).await;
            answers.extend(each(items.len(), reply.map(|reply| reply.value)));
        }
        answers
    }

    async fn store_all(&self, mut jobs: Vec<NewJob>) -> Vec<Result<Enqueued>> {
        if jobs.is_empty() {
            return Vec::new();
        }
        trace::hand_on(&mut jobs);
        let count = jobs.len();
        let reply = self.engine().enqueue(Enqueue::each(jobs)).await;
        each(count, reply.map(|reply| reply.value))
    }
}

/// The jobs of one call, and the positions of their results.
#[derive(Default)]
struct Call {
    jobs: Vec<NewJob>,
    /// One entry per item taken from the iterator: its error, or `None` if the store's reply has its result.
    places: Vec<Option<Error>>,
}

impl Call {
    fn gather(jobs: &mut impl Iterator<Item = Result<NewJob>>) -> Self {
        let (mut call, mut bytes) = (Self::default(), 0);
        while call.places.len() < ENQUEUE_BATCH_MAX
            && bytes < CALL_BYTES_MAX
            && let Some(job) = jobs.next()
        {
            match job {
                Ok(job) => {
                    bytes += size(&job);
                    call.jobs.push(job);
                    call.places.push(None);
                }
                Err(error) => call.places.push(Some(error)),
            }
        }
        call
    }
}

fn size(job: &NewJob) -> usize {
    let bytes = |part: &Part| part.bytes.len();
    PartName::ALL.into_iter().filter_map(|name| job.parts.get(name)).map(bytes).sum()
}

/// One result per item; an error of the whole call is repeated for every item.
fn each<T>(count: usize, reply: windlass_core::Result<Vec<Item<T>>>) -> Vec<Result<T>> {
    match reply {
        Ok(items) => {
            let answers = items.into_iter().map(|item| item.map_err(Error::from));
            answers.chain(std::iter::repeat_with(|| Err(not_answered()))).take(count).collect()
        }
        Err(error) => (0..count).map(|_| Err(Error::Engine(error.clone()))).collect(),
    }
}

fn not_answered() -> Error {
    Error::Engine(windlass_core::Error::Unavailable {
        store: "the engine".into(),
        reason: "its reply has fewer results than items".into(),
    })
}

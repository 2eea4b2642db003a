//! Functions as batch handlers: how they take their jobs and return their results.

use crate::ctx::Ctx;
use crate::extract::{FromJob, Kinded, Need, SameForAll};
use crate::stop::{Done, Ended, Return, Stop, code};
use serde::Serialize;
use std::ops::Deref;
use windlass_core::model::Name;

/// An async function that runs several jobs of one kind in one call: a `Vec` of payloads `J` first, then up to
/// four [`Data`](crate::Data) extractors `A`.
///
/// It returns a `Vec` with one `Result` per job, in their order, or one `Result` (or nothing) for all.
///
/// ```
/// use windlass_worker::{Batched, Json, Stop};
///
/// /// One result for all: one statement inserts all rows or none.
/// async fn insert(rows: Vec<Json<String>>) -> Result<(), Stop> {
///     println!("INSERT {} rows", rows.len());
///     Ok(())
/// }
///
/// /// One result per job; `Batched` also has the context of each job.
/// async fn parse(jobs: Vec<Batched<Json<String>>>) -> Vec<Result<i64, Stop>> {
///     let parse = |job: &Batched<Json<String>>| {
///         job.ctx.log("parsing");
///         Ok(job.0.parse()?)
///     };
///     jobs.iter().map(parse).collect()
/// }
/// # fn is_handler<J, A>(_: impl windlass_worker::BatchHandler<J, A>) {}
/// # is_handler(insert);
/// # is_handler(parse);
/// ```
///
/// - **Gathering.** A batch consists of jobs that one claim returned: the worker never waits for a batch to
///   fill, unless [`batch_linger`](crate::Builder::batch_linger) allows it.
/// - **Stopping.** Each job has its own timeout, which covers the whole call, and its own lease. A job that
///   is cancelled, times out or loses its lease is reported at once; the handler continues for the others,
///   and its result for that job is dropped. When no job is left, the handler is dropped.
/// - **Failing.** A panic is a failure of every job of the batch. A job whose payload cannot be read fails
///   alone, before the call.
/// - **Crashing.** When a worker dies, every job of the batch counts one crash; after that, each runs in a
///   batch of its own, so that the job that kills workers cannot take others with it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch handler",
    note = "a batch handler is an `async fn(Vec<J>, Data<T>…) -> Vec<Result<R, E>>` that is \
            `Clone + Send + Sync`; it may also return one `Result<R, E>` for all jobs"
)]
pub trait BatchHandler<J, A>: Clone + Send + Sync + 'static {
    /// The type of the result of one job.
    type Output;

    /// Runs the jobs; returns one result per job, in their order.
    fn call(self, jobs: Vec<Ctx>) -> impl Future<Output = Vec<Ended>> + Send + 'static;

    /// The shared data that its arguments require.
    fn needs() -> Vec<Need>;
}

/// A job of a batch with its context.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Batched<J> {
    /// The payload.
    pub job: J,
    /// The context of this job: id, log, progress, checkpoint, follow-ups.
    pub ctx: Ctx,
}

impl<J: FromJob> FromJob for Batched<J> {
    fn from_job(ctx: &Ctx) -> Result<Self, Stop> {
        Ok(Self { job: J::from_job(ctx)?, ctx: ctx.clone() })
    }
}

impl<J: Kinded> Kinded for Batched<J> {
    const KIND: &'static str = J::KIND;
    type Output = J::Output;

    fn queue() -> Name {
        J::queue()
    }
}

impl<J> Deref for Batched<J> {
    type Target = J;

    fn deref(&self) -> &J {
        &self.job
    }
}

/// The return types of batch handlers: a `Vec` with one `Result` per job, one `Result` for all, or nothing.
#[diagnostic::on_unimplemented(
    message = "a batch handler cannot return `{Self}`",
    note = "return `Vec<Result<R, E>>` with one result per job, `Result<R, E>` for all jobs, or `()`"
)]
pub trait BatchReturn {
    /// The type of the result of one job.
    type Value;

    /// Converts the return value into one result per job.
    fn into_results(self, jobs: usize) -> Vec<Ended>;
}

impl BatchReturn for () {
    type Value = ();

    fn into_results(self, jobs: usize) -> Vec<Ended> {
        (0..jobs).map(|_| Ok(Done::NOTHING)).collect()
    }
}

impl<R: Serialize, E: Into<Stop>> BatchReturn for Result<R, E> {
    type Value = R;

    fn into_results(self, jobs: usize) -> Vec<Ended> {
        match self.into_ended() {
            Ok(done) => (0..jobs).map(|_| Ok(done.clone())).collect(),
            Err(stop) => same(&stop, jobs),
        }
    }
}

impl<R: Serialize, E: Into<Stop>> BatchReturn for Vec<Result<R, E>> {
    type Value = R;

    fn into_results(self, jobs: usize) -> Vec<Ended> {
        if self.len() != jobs {
            let got = self.len();
            let error = format!("the batch handler returned {got} results for {jobs} jobs");
            return same(&Stop::retry(error).code(code::BATCH_RESULTS), jobs);
        }
        self.into_iter().map(Return::into_ended).collect()
    }
}

/// The same reason for every job.
fn same(stop: &Stop, jobs: usize) -> Vec<Ended> {
    (0..jobs).map(|_| Err(stop.same())).collect()
}

/// The payloads of a batch, and the reasons of the jobs whose payload cannot be read.
struct Payloads<J> {
    readable: Vec<J>,
    /// One entry per job of the batch; `None` for those that are readable.
    refused: Vec<Option<Stop>>,
}

impl<J: FromJob> Payloads<J> {
    fn of(jobs: &[Ctx]) -> Self {
        let mut payloads = Self { readable: Vec::new(), refused: Vec::new() };
        for ctx in jobs {
            let refused = match J::from_job(ctx) {
                Ok(job) => {
                    payloads.readable.push(job);
                    None
                }
                Err(stop) => Some(stop),
            };
            payloads.refused.push(refused);
        }
        payloads
    }
}

/// Merges the results of the readable jobs with the reasons of the others.
fn merge(refused: Vec<Option<Stop>>, results: Vec<Ended>) -> Vec<Ended> {
    let mut results = results.into_iter();
    let missing = || Err(Stop::retry("the batch handler returned too few results"));
    let each = refused.into_iter().map(|refused| match refused {
        Some(stop) => Err(stop),
        None => results.next().unwrap_or_else(missing),
    });
    each.collect()
}

macro_rules! batch_handlers {
    ($($arg:ident),*) => {
        impl<F, Fut, J, $($arg),*> BatchHandler<J, ($($arg,)*)> for F
        where
            F: FnOnce(Vec<J>, $($arg),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output: BatchReturn> + Send + 'static,
            J: FromJob + 'static,
            $($arg: SameForAll + 'static,)*
        {
            type Output = <Fut::Output as BatchReturn>::Value;

            async fn call(self, jobs: Vec<Ctx>) -> Vec<Ended> {
                let Payloads { readable, refused } = Payloads::<J>::of(&jobs);
                let count = readable.len();
                if count == 0 {
                    return merge(refused, Vec::new());
                }
                // Arguments other than the payloads are the same for all jobs.
                let running = async {
                    Ok::<Fut, Stop>((self)(readable, $($arg::from_context(&jobs[0])?),*))
                };
                let running = running.await;
                drop(jobs);
                let results = match running {
                    Ok(running) => running.await.into_results(count),
                    Err(stop) => same(&stop, count),
                };
                merge(refused, results)
            }

            fn needs() -> Vec<Need> {
                let needs: [Option<Need>; _] = [$($arg::needs()),*];
                needs.into_iter().flatten().collect()
            }
        }
    };
}

batch_handlers!();
batch_handlers!(A1);
batch_handlers!(A1, A2);
batch_handlers!(A1, A2, A3);
batch_handlers!(A1, A2, A3, A4);

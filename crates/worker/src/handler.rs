//! Functions as handlers: how arguments are extracted from a job and which shared data they require. Independent of
//! queues, leases and timeouts.

use crate::batch::{self, BatchHandler, Batching};
use crate::blocking;
use crate::ctx::Ctx;
use crate::extract::{FromContext, FromJob, Need};
use crate::middleware::{Next, Stack};
use crate::stop::{Ended, Return};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::model::{Name, Rate};

/// The future of a running handler.
pub(crate) type Attempt = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// An async function that runs jobs: the payload `J` first, then up to six extractors `A`.
///
/// ```
/// use windlass_worker::{Ctx, Json, Stop};
///
/// async fn greet(Json(name): Json<String>, ctx: Ctx) -> Result<String, Stop> {
///     Ok(format!("hello {name}, attempt {}", ctx.attempt()))
/// }
/// # fn is_handler<J, A>(_: impl windlass_worker::Handler<J, A>) {}
/// # is_handler(greet);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is an `async fn(payload, extractors…) -> Result<R, E>` that is `Clone + Send + Sync`",
    note = "the payload derives `Job` or is `Json<T>` or `Raw`; extractors are `Ctx`, `Data<T>` and the like"
)]
pub trait Handler<J, A>: Clone + Send + Sync + 'static {
    /// The type of the result that it returns.
    type Output;

    /// Runs one job.
    fn call(self, ctx: Ctx) -> impl Future<Output = Ended> + Send + 'static;

    /// The shared data that its arguments require.
    fn needs() -> Vec<Need>;
}

/// A function that runs jobs and may block. Takes the same arguments as a [`Handler`].
///
/// It runs on a thread of the worker's own pool, inside the Tokio context, so that
/// `tokio::runtime::Handle::current().block_on(ctx.save_checkpoint(…))` works.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a blocking handler",
    note = "a blocking handler is a plain `fn(payload, extractors…) -> Result<R, E>` that is \
            `Clone + Send + Sync`; an async one goes to `handle`"
)]
pub trait BlockingHandler<J, A>: Clone + Send + Sync + 'static {
    /// The type of the result that it returns.
    type Output;

    /// Runs one job.
    fn call(self, ctx: &Ctx) -> Ended;

    /// The shared data that its arguments require.
    fn needs() -> Vec<Need>;
}

macro_rules! handlers {
    ($($arg:ident),*) => {
        impl<F, Fut, J, $($arg),*> Handler<J, ($($arg,)*)> for F
        where
            F: FnOnce(J, $($arg),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output: Return> + Send + 'static,
            J: FromJob + 'static,
            $($arg: FromContext + 'static,)*
        {
            type Output = <Fut::Output as Return>::Value;

            async fn call(self, ctx: Ctx) -> Ended {
                // `ctx` is not held across the await: the handler owns its arguments.
                let running = (self)(J::from_job(&ctx)?, $($arg::from_context(&ctx)?),*);
                drop(ctx);
                running.await.into_ended()
            }

            fn needs() -> Vec<Need> {
                let needs: [Option<Need>; _] = [$($arg::needs()),*];
                needs.into_iter().flatten().collect()
            }
        }

        impl<F, R, J, $($arg),*> BlockingHandler<J, ($($arg,)*)> for F
        where
            F: FnOnce(J, $($arg),*) -> R + Clone + Send + Sync + 'static,
            R: Return,
            J: FromJob,
            $($arg: FromContext,)*
        {
            type Output = R::Value;

            fn call(self, ctx: &Ctx) -> Ended {
                (self)(J::from_job(ctx)?, $($arg::from_context(ctx)?),*).into_ended()
            }

            fn needs() -> Vec<Need> {
                let needs: [Option<Need>; _] = [$($arg::needs()),*];
                needs.into_iter().flatten().collect()
            }
        }
    };
}

handlers!();
handlers!(A1);
handlers!(A1, A2);
handlers!(A1, A2, A3);
handlers!(A1, A2, A3, A4);
handlers!(A1, A2, A3, A4, A5);
handlers!(A1, A2, A3, A4, A5, A6);

/// A handler with its types erased.
pub(crate) type Call = Arc<dyn Fn(Ctx) -> Attempt + Send + Sync>;

/// The worker's configuration of one kind.
pub(crate) struct Route {
    pub(crate) kind: Name,
    /// The queue that jobs of the handler's type go to; `None` for handlers that are added by kind.
    pub(crate) queue: Option<Name>,
    pub(crate) call: Call,
    pub(crate) needs: Vec<Need>,
    /// How to gather jobs, if the handler takes several at once.
    pub(crate) batching: Option<Batching>,
    /// Whether the handler occupies a thread of the pool.
    pub(crate) blocking: bool,
    /// Maximum run time, unless the job sets one.
    pub(crate) timeout: Option<Duration>,
    /// Maximum number of jobs of this kind that run at a time.
    pub(crate) limit: Option<u32>,
    /// How often jobs of this kind start.
    pub(crate) rate: Option<Rate>,
}

impl Route {
    pub(crate) fn new<J: 'static, A: 'static, H: Handler<J, A>>(kind: &str, handler: H) -> Self {
        let call: Call = Arc::new(move |ctx| Box::pin(handler.clone().call(ctx)));
        Self::of(kind, call, H::needs(), false)
    }

    pub(crate) fn blocking<J: 'static, A: 'static, H: BlockingHandler<J, A>>(
        kind: &str,
        handler: H,
    ) -> Self {
        let call: Call = Arc::new(move |ctx| {
            let handler = handler.clone();
            Box::pin(blocking::run(ctx, move |ctx| handler.call(ctx)))
        });
        Self::of(kind, call, H::needs(), true)
    }

    pub(crate) fn batch<J: 'static, A: 'static, H: BatchHandler<J, A>>(
        kind: &str,
        handler: H,
        jobs_max: u32,
    ) -> Self {
        // Validation may change the options of the batch later, so the attempt reads them from the route.
        let call: Call = Arc::new(|ctx| Box::pin(batch::attend(ctx)));
        let batching = Some(Batching::new(handler, jobs_max));
        Self { batching, ..Self::of(kind, call, H::needs(), false) }
    }

    fn of(kind: &str, call: Call, needs: Vec<Need>, blocking: bool) -> Self {
        let kind = kind.into();
        let (queue, batching, timeout, limit, rate) = (None, None, None, None, None);
        Self { kind, queue, call, needs, batching, blocking, timeout, limit, rate }
    }

    /// Sets the queue that jobs of the handler's type go to.
    pub(crate) fn on(mut self, queue: Name) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Starts an attempt through the middleware.
    pub(crate) fn attempt(&self, ctx: Ctx, stack: &Stack) -> Attempt {
        if stack.is_empty() {
            return (self.call)(ctx);
        }
        Box::pin(Next::new(stack.clone(), self.call.clone()).run(ctx))
    }
}

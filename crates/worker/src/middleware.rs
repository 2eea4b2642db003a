//! Middleware: code that runs around every handler, e.g. for tenancy or extra metrics.

use crate::ctx::Ctx;
use crate::handler::{Attempt, Call};
use crate::stop::Ended;
use std::sync::Arc;

/// Code that runs around every handler of a worker.
///
/// Any `async fn(Ctx, Next) -> Ended` is a middleware. The first one added to the builder is the outermost.
///
/// ```
/// use windlass_worker::{Ctx, Ended, Next, Stop};
///
/// #[derive(Clone)]
/// struct Tenant(String);
///
/// async fn tenancy(ctx: Ctx, next: Next) -> Ended {
///     let Some(tenant) = ctx.tenant() else { return Err(Stop::fatal("whose job is this?")) };
///     ctx.insert(Tenant(tenant.to_owned())); // handlers take `Extension<Tenant>`
///     next.run(ctx).await
/// }
/// # fn is_middleware(_: impl windlass_worker::Middleware) {}
/// # is_middleware(tenancy);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a middleware",
    note = "a middleware is an `async fn(Ctx, Next) -> Ended`"
)]
pub trait Middleware: Send + Sync + 'static {
    /// Runs around one attempt; `next` runs the inner middleware and the handler.
    fn call(&self, ctx: Ctx, next: Next) -> impl Future<Output = Ended> + Send + 'static;
}

impl<F, Fut> Middleware for F
where
    F: Fn(Ctx, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Ended> + Send + 'static,
{
    fn call(&self, ctx: Ctx, next: Next) -> impl Future<Output = Ended> + Send + 'static {
        self(ctx, next)
    }
}

type Erased = Box<dyn Fn(Ctx, Next) -> Attempt + Send + Sync>;

/// The middleware of a worker, outermost first.
#[derive(Clone, Default)]
pub(crate) struct Stack(Arc<[Erased]>);

impl Stack {
    pub(crate) fn new(layers: Vec<Erased>) -> Self {
        Self(layers.into())
    }

    pub(crate) fn erase(middleware: impl Middleware) -> Erased {
        Box::new(move |ctx, next| Box::pin(middleware.call(ctx, next)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The inner middleware and the handler.
pub struct Next {
    stack: Stack,
    passed: usize,
    handler: Call,
}

impl Next {
    pub(crate) fn new(stack: Stack, handler: Call) -> Self {
        Self { stack, passed: 0, handler }
    }

    /// Runs the inner middleware and the handler.
    pub async fn run(mut self, ctx: Ctx) -> Ended {
        let stack = self.stack.clone();
        match stack.0.get(self.passed) {
            Some(middleware) => {
                self.passed += 1;
                middleware(ctx, self).await
            }
            None => (self.handler)(ctx).await,
        }
    }
}

impl std::fmt::Debug for Next {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Next({} of {} passed)", self.passed, self.stack.0.len())
    }
}

//! Extractors: the types that a handler takes as arguments. The first is made from the payload, the others
//! from the [`Ctx`]. Independent of how handlers run.

use crate::ctx::Ctx;
use crate::stop::{Stop, code};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;
use windlass_core::TypedJob;
use windlass_core::model::Name;

/// The first argument of a handler, made from the job's payload.
///
/// Implemented for every [`TypedJob`], for [`Json`] and for [`Raw`]. A payload that cannot be read makes the
/// job dead at once, with code `unreadable_payload`.
#[diagnostic::on_unimplemented(
    message = "the first argument of a handler cannot be `{Self}`",
    note = "take a type that derives `Job`, `Json<T>` with `T: Deserialize`, or `Raw`"
)]
pub trait FromJob: Sized + Send {
    /// Reads the argument from the job.
    fn from_job(ctx: &Ctx) -> Result<Self, Stop>;
}

/// A first argument whose type names its kind of jobs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which kind of jobs this handler takes",
    note = "take a type that derives `Job`, or name the kind with `handle_kind`"
)]
pub trait Kinded {
    /// The kind.
    const KIND: &'static str;

    /// The type of the result, which the handler returns.
    type Output;

    /// The queue that jobs of this type go to, unless they are enqueued with another one.
    fn queue() -> Name;
}

impl<T: TypedJob> FromJob for T {
    fn from_job(ctx: &Ctx) -> Result<Self, Stop> {
        json(ctx)
    }
}

impl<T: TypedJob> Kinded for T {
    const KIND: &'static str = T::KIND;
    type Output = T::Output;

    fn queue() -> Name {
        T::template().queue
    }
}

/// The payload, deserialized from JSON into any type: `Json<serde_json::Value>` accepts any JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send> FromJob for Json<T> {
    fn from_job(ctx: &Ctx) -> Result<Self, Stop> {
        json(ctx).map(Self)
    }
}

impl<T: TypedJob> Kinded for Json<T> {
    const KIND: &'static str = T::KIND;
    type Output = T::Output;

    fn queue() -> Name {
        T::template().queue
    }
}

/// The payload as raw bytes; empty if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(pub Bytes);

impl FromJob for Raw {
    fn from_job(ctx: &Ctx) -> Result<Self, Stop> {
        readable(ctx).map(|bytes| Self(bytes.cloned().unwrap_or_default()))
    }
}

fn json<T: DeserializeOwned>(ctx: &Ctx) -> Result<T, Stop> {
    // A missing payload reads as `null`.
    let bytes = readable(ctx)?.map_or(&b"null"[..], |bytes| bytes);
    serde_json::from_slice(bytes).map_err(|error| {
        unreadable(format!("the payload is not the JSON of {}: {error}", type_name::<T>()))
    })
}

/// The payload, or an error if it has an encoding that this worker has no layer for.
fn readable(ctx: &Ctx) -> Result<Option<&Bytes>, Stop> {
    let Some(payload) = ctx.payload() else { return Ok(None) };
    match payload.envelope() {
        None => Ok(Some(&payload.bytes)),
        Some(envelope) => Err(unreadable(format!(
            "the payload is sealed ({envelope:?}): give the worker the engine with the layer that \
             wrote it"
        ))),
    }
}

fn unreadable(message: String) -> Stop {
    Stop::fatal(message).code(code::UNREADABLE_PAYLOAD)
}

/// A further argument of a handler, taken from its context.
///
/// ```
/// use windlass_worker::{Ctx, FromContext, Stop};
///
/// struct Tenant(String);
///
/// impl FromContext for Tenant {
///     fn from_context(ctx: &Ctx) -> Result<Self, Stop> {
///         let tenant = ctx.tenant().ok_or_else(|| Stop::fatal("a job without a tenant"))?;
///         Ok(Self(tenant.to_owned()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    note = "after the payload a handler takes `Ctx`, `Data<T>`, `Extension<T>` or whatever \
            implements `FromContext`"
)]
pub trait FromContext: Sized + Send {
    /// Extracts the argument.
    fn from_context(ctx: &Ctx) -> Result<Self, Stop>;

    /// The shared data that the argument requires; checked when the worker is built.
    fn needs() -> Option<Need> {
        None
    }
}

/// A type of shared data that a handler needs.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
}

impl Need {
    /// Requires data of type `T`.
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

impl FromContext for Ctx {
    fn from_context(ctx: &Ctx) -> Result<Self, Stop> {
        Ok(ctx.clone())
    }
}

/// Data of the application, shared by all handlers of a worker: pools, clients, configuration.
///
/// It is cloned for each job, so put expensive values behind an `Arc`. Building the worker fails if a handler
/// takes data that the worker does not have.
#[derive(Clone, Copy, Debug)]
pub struct Data<T>(pub T);

impl<T: Clone + Send + Sync + 'static> FromContext for Data<T> {
    fn from_context(ctx: &Ctx) -> Result<Self, Stop> {
        let data = ctx.shared().data.get::<T>();
        data.map(Self).ok_or_else(|| {
            Stop::retry(format!("the worker has no data of type {}", type_name::<T>()))
        })
    }

    fn needs() -> Option<Need> {
        Some(Need::of::<T>())
    }
}

/// An argument that is the same for all jobs of a worker, so that batch handlers can take it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a batch handler",
    note = "after the payloads a batch handler takes `Data<T>`; the context of each job is in `Vec<Batched<J>>`"
)]
pub trait SameForAll: FromContext {}

impl<T: Clone + Send + Sync + 'static> SameForAll for Data<T> {}

/// A value that a middleware put into the job's context with [`Ctx::insert`].
#[derive(Clone, Copy, Debug)]
pub struct Extension<T>(pub T);

impl<T: Clone + Send + Sync + 'static> FromContext for Extension<T> {
    fn from_context(ctx: &Ctx) -> Result<Self, Stop> {
        ctx.extension().map(Self).ok_or_else(|| {
            let name = type_name::<T>();
            Stop::retry(format!("no middleware inserted a {name} into the job's context"))
                .code(code::MISSING_EXTENSION)
        })
    }
}

/// Values by their type.
#[derive(Clone, Default)]
pub(crate) struct Values(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Values {
    /// Inserts a value; `false` if it replaced another of the same type.
    pub(crate) fn put<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        self.0.insert(TypeId::of::<T>(), Arc::new(value)).is_none()
    }

    pub(crate) fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref::<T>()).cloned()
    }

    pub(crate) fn has(&self, need: Need) -> bool {
        self.0.contains_key(&need.id)
    }
}

//! Jobs as Rust types: names and defaults only. Serialization of the payload is done by the code that
//! enqueues or runs the job.

use crate::error::Result;
use crate::model::NewJob;
use crate::policy::Unique;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A Rust type that is the payload of one kind of jobs.
///
/// Usually derived with `#[derive(Job)]` of the `windlass` crate.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass_core::TypedJob;
/// use windlass_core::model::NewJob;
///
/// #[derive(Serialize, Deserialize)]
/// struct SendEmail {
///     to: String,
/// }
///
/// impl TypedJob for SendEmail {
///     const KIND: &'static str = "send_email";
///     type Output = (); // the handler returns nothing
///
///     fn template() -> NewJob {
///         NewJob::new(Self::KIND).queue("mail").max_attempts(3)
///     }
/// }
///
/// assert_eq!(&*SendEmail::template().queue, "mail");
/// ```
pub trait TypedJob: Serialize + DeserializeOwned + Send + 'static {
    /// The kind, which selects the handler. Must not change while such jobs are stored, even if the type is
    /// renamed.
    const KIND: &'static str;

    /// The type of the result: the handler returns it, and waiting for the job returns it.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// A job of this kind without its payload: with the queue and the policy of the kind.
    fn template() -> NewJob {
        NewJob::new(Self::KIND)
    }

    /// The uniqueness rule of this job; `None` if its type has none.
    fn unique_rule(&self) -> Result<Option<Unique>> {
        Ok(None)
    }
}

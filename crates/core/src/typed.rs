//! Jobs as Rust types: names and defaults only. Serialization of the payload is done by the code that
//! enqueues or runs the job.

use crate::model::NewJob;
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

    /// A job of this kind without its payload: with the queue and the policy of the kind.
    fn template() -> NewJob {
        NewJob::new(Self::KIND)
    }
}

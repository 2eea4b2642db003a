//! Jobs as Rust types. Only the names and the defaults: how a payload becomes bytes is the business
//! of whoever enqueues or runs it.

use crate::model::NewJob;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A Rust type that is the payload of one kind of jobs.
///
/// Users derive it (`#[derive(Job)]` of the `windlass` crate) rather than write it.
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
    /// The kind: chooses the handler. Stays the same for as long as such jobs are stored, whatever
    /// becomes of the type's name.
    const KIND: &'static str;

    /// A job of this kind without its payload: the queue and the policy of the kind.
    fn template() -> NewJob {
        NewJob::new(Self::KIND)
    }
}

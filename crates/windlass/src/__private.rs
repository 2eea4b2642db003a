//! What the code of `#[derive(Job)]` names. Not for use by hand: it may change in any version.

pub use serde::Serialize;
pub use serde::de::DeserializeOwned;
pub use windlass_core::TypedJob;
pub use windlass_core::model::NewJob;
pub use windlass_core::policy::{Backoff, Retention};

/// What a payload must be, as a trait of its own, so that the compiler says it in our words first.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a job, because it cannot be written and read by serde",
    label = "derive `Serialize` and `Deserialize` as well",
    note = "as in `#[derive(Job, serde::Serialize, serde::Deserialize)]`"
)]
pub trait Payload {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Payload for T {}

//! The header `Idempotency-Key`: a repeated enqueue returns the jobs of the first one instead of storing them again. It is
//! a unique key that each job holds as long as its record exists, so it needs no storage of its own.

use crate::app::App;
use crate::reply::Refusal;
use axum::extract::FromRequestParts;
use http::request::Parts;
use windlass_core::model::NewJob;
use windlass_core::policy::{Unique, UniqueScope, Until};
use windlass_core::{Error, Result, check_text};

const HEADER: &str = "idempotency-key";
/// Maximum length of the header; together with prefix and index, it is a valid unique key.
const BYTES_MAX: usize = 200;
/// Separates these keys from the unique keys of applications.
const PREFIX: &str = "idempotency-key:";

/// The idempotency key of an enqueue, if it has one.
pub(crate) struct IdempotencyKey(Option<String>);

impl FromRequestParts<App> for IdempotencyKey {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        let mut given = parts.headers.get_all(HEADER).iter();
        let Some(first) = given.next() else { return Ok(Self(None)) };
        if given.next().is_some() {
            return Err(Error::invalid(HEADER, "two values", "send the header once").into());
        }
        let text = first.to_str().map_err(|_| {
            let value = String::from_utf8_lossy(first.as_bytes());
            Error::invalid(HEADER, value, "use visible ASCII characters, for example a UUID")
        })?;
        check_text(HEADER, text, BYTES_MAX)?;
        Ok(Self(Some(text.to_owned())))
    }
}

impl IdempotencyKey {
    /// Gives the job at this index of the request its unique key.
    pub(crate) fn apply(&self, index: usize, job: &mut NewJob) -> Result<()> {
        let Some(key) = &self.0 else { return Ok(()) };
        if job.unique.is_some() {
            let expected = "the job has a unique key of its own: leave out the header, or `unique`";
            return Err(Error::invalid(HEADER, key, expected));
        }
        let unique = Unique::by(format!("{PREFIX}{key}/{index}"));
        job.unique = Some(unique.scope(UniqueScope::Kind).until(Until::Removed));
        Ok(())
    }
}

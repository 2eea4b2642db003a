//! The principal of a request, as used by routes. It must not know how it was authenticated.

use super::PeerNames;
use crate::app::App;
use crate::reply::Refusal;
use axum::extract::FromRequestParts;
use http::request::Parts;
use std::convert::Infallible;
use std::sync::Arc;
use windlass_core::engine::Claim;
use windlass_core::model::NewJob;
use windlass_core::{Error, Result};
use windlass_services::Principal;

/// The principal of an authenticated request.
#[derive(Clone, Debug)]
pub(crate) struct Who(pub(crate) Arc<Principal>);

impl Who {
    /// Checks that this job may be enqueued. Derived ids require `admin`: they are for schedulers,
    /// and a producer could use one to suppress a scheduled run.
    pub(crate) fn may_enqueue(&self, job: &NewJob) -> Result<()> {
        let (may, kind) = (self.0.may(), &job.kind);
        if job.derived && !may.is_admin() {
            return Err(self.may_not("admin"));
        }
        match may.may_enqueue(kind) {
            true => Ok(()),
            false => Err(self.may_not(&format!("enqueue:{kind}"))),
        }
    }

    /// Checks that all of these jobs may be enqueued.
    pub(crate) fn may_enqueue_all(&self, jobs: &[NewJob]) -> Result<()> {
        jobs.iter().try_for_each(|job| self.may_enqueue(job))
    }

    /// Whether the principal sees jobs of this kind, even if only their status.
    pub(crate) fn may_follow(&self, kind: &str) -> bool {
        self.0.may().may_view() || self.0.may().may_enqueue(kind)
    }

    /// Checks that jobs of this queue may be claimed.
    pub(crate) fn may_work(&self, queue: &str) -> Result<()> {
        match self.0.may().may_work(queue) {
            true => Ok(()),
            false => Err(self.may_not(&format!("work:{queue}"))),
        }
    }

    /// Checks that this claim is permitted.
    pub(crate) fn may_claim(&self, claim: &Claim) -> Result<()> {
        claim.queues.iter().try_for_each(|want| self.may_work(&want.queue))
    }

    /// The error for a missing permission.
    pub(crate) fn may_not(&self, needs: &str) -> Error {
        Error::Forbidden { who: format!("key {:?}", self.0.name()), needs: needs.to_owned() }
    }
}

/// Whether the request has view permission. For routes without a required permission that return
/// more details to viewers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewer(pub(crate) bool);

impl FromRequestParts<App> for Viewer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let peer = parts.extensions.get::<PeerNames>();
        Ok(Self(app.access.may_view(&parts.headers, peer).await))
    }
}

impl FromRequestParts<App> for Who {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        let who = parts.extensions.get::<Arc<Principal>>().cloned();
        // Unreachable for routes in the table. Otherwise refuse the request, as it was not
        // authenticated.
        let stranger = || Error::Unauthenticated {
            reason: "this route does not authenticate requests".to_owned(),
        };
        who.map(Self).ok_or_else(|| Refusal::from(stranger()))
    }
}

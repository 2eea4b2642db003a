//! Who makes a request, as routes ask for it. It must not know how that was found out.

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

/// The principal behind a request that was let through.
#[derive(Clone, Debug)]
pub(crate) struct Who(pub(crate) Arc<Principal>);

impl Who {
    /// Whether this job may be handed over. Derived ids are for schedulers: a producer could take the place of a fire.
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

    /// Whether all of these jobs may be handed over.
    pub(crate) fn may_enqueue_all(&self, jobs: &[NewJob]) -> Result<()> {
        jobs.iter().try_for_each(|job| self.may_enqueue(job))
    }

    /// Whether this queue may be worked on.
    pub(crate) fn may_work(&self, queue: &str) -> Result<()> {
        match self.0.may().may_work(queue) {
            true => Ok(()),
            false => Err(self.may_not(&format!("work:{queue}"))),
        }
    }

    /// Whether this may be claimed.
    pub(crate) fn may_claim(&self, claim: &Claim) -> Result<()> {
        claim.queues.iter().try_for_each(|want| self.may_work(&want.queue))
    }

    /// That it may not.
    pub(crate) fn may_not(&self, needs: &str) -> Error {
        Error::Forbidden { who: format!("key {:?}", self.0.name()), needs: needs.to_owned() }
    }
}

/// Whether whoever makes a request may view. Of routes that need nothing, which tell some more than others.
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
        // Cannot happen to a route of the table; if it does, nothing is done for a stranger.
        let stranger = || Error::Unauthenticated { reason: "this route asks nobody".to_owned() };
        who.map(Self).ok_or_else(|| Refusal::from(stranger()))
    }
}

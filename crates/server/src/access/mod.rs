//! Authentication and authorization: maps credentials to a principal and checks the permission that
//! the route requires. It knows keys and headers; it must not know what the routes do.
//!
//! One table lists the permission of each route ([`table`]). A producer's kinds and a worker's
//! queues are in the request body, so those routes check them through [`Who`] after parsing.

mod cookie;
mod keeper;
mod key_changes;
mod principal;
mod session;
pub(crate) mod table;

pub(crate) use cookie::{Cookie, SESSION_SECONDS};
pub(crate) use keeper::Access;
pub(crate) use key_changes::KeyChanges;
pub(crate) use principal::{Viewer, Who};
pub(crate) use session::{bind_claim, close, issue};

use crate::admit as pace;
use crate::app::App;
use crate::reply::Refusal;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::Method;
use std::sync::Arc;
use table::Needs;
use windlass_core::Error;
use windlass_services::Principal;

/// The names in the certificate of a client.
#[derive(Clone, Debug)]
pub(crate) struct PeerNames(pub(crate) Arc<[String]>);

/// Middleware of the JSON routes: authenticates a request and checks its permission.
pub(crate) async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let needs = needs_of(&request);
    if needs == Needs::Nothing {
        return next.run(request).await;
    }
    // Reads accept the dashboard's cookie, because its pages link to JSON.
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let peer = request.extensions().get::<PeerNames>();
    let who = match needs {
        Needs::Watch => app.access.admit_watcher(request.headers(), peer).await,
        _ => app.access.admit(request.headers(), peer, reads).await,
    };
    match who.and_then(|who| meets(who, needs)) {
        Ok(who) => {
            let_through(&mut request, who);
            next.run(request).await
        }
        Err(error) => Refusal::from(error).into_response(),
    }
}

/// Stores the principal in the request's extensions.
pub(crate) fn let_through(request: &mut Request, who: Arc<Principal>) {
    if who.id().is_some() {
        request.extensions_mut().insert(pace::Principal(who.name().into()));
    }
    request.extensions_mut().insert(who);
}

/// The permission that a request needs; nothing for unknown paths.
pub(crate) fn needs_of(request: &Request) -> Needs {
    match request.extensions().get::<MatchedPath>() {
        Some(path) => table::needs(request.method(), path.as_str()),
        None => Needs::Nothing,
    }
}

/// Returns the principal if it has the permission.
pub(crate) fn meets(who: Arc<Principal>, needs: Needs) -> Result<Arc<Principal>, Error> {
    if needs.met_by(who.may()) { Ok(who) } else { Err(Who(who).may_not(needs.as_str())) }
}

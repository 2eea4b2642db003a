//! A server whose store is not there yet: it says so, and opens the store when it comes. It must not know
//! what is served then.

use crate::health::{StoreHealth, told};
use crate::metrics::Exporter;
use crate::reply::{Refusal, json};
use crate::routes;
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use windlass_core::Result;
use windlass_core::engine::Engine;
use windlass_core::random::{Random, SystemRandom};
use windlass_wire as wire;

/// The first pause between two tries; twice as long each time, up to the next, before jitter.
const PAUSE_FIRST_MS: u64 = 250;
/// The longest pause: how late a store that comes back is noticed.
const PAUSE_MAX_MS: u64 = 4_000;

/// Routes that are there once the store is.
#[derive(Clone)]
pub(crate) struct Late {
    routes: Arc<OnceLock<Router>>,
    health: StoreHealth,
    exporter: Option<Exporter>,
}

impl Late {
    pub(crate) fn new(health: StoreHealth, exporter: Option<Exporter>) -> Self {
        health.failed("it was not reached yet".to_owned());
        Self { routes: Arc::default(), health, exporter }
    }

    /// The store is there: from now on these answer.
    pub(crate) fn arrived(&self, routes: Router) {
        // Only ever called once, by whoever opened the store.
        let _ = self.routes.set(routes);
    }

    /// What answers until then, and passes on afterwards.
    pub(crate) fn router(&self) -> Router {
        let late = self.clone();
        Router::new().fallback(move |request| late.clone().answer(request))
    }

    async fn answer(self, request: Request) -> Response {
        if let Some(routes) = self.routes.get() {
            let Ok(response) = TowerToHyperService::new(routes.clone()).call(request).await;
            return response;
        }
        match (request.uri().path(), &self.exporter) {
            (wire::routes::HEALTHZ, _) => {
                json(StatusCode::OK, &wire::Alive { store: self.health.outline() })
            }
            (wire::routes::METRICS, Some(exporter)) => routes::metrics::text(exporter),
            // Without the store there are no keys, and nobody is known.
            _ => Refusal::from(StoreHealth::away_untold()).into_response(),
        }
    }

    /// Tries to open the store until it is open; `None` when the server stops before that.
    pub(crate) async fn open<F>(
        &self,
        mut open: impl FnMut() -> F,
        stop: &CancellationToken,
    ) -> Option<Arc<dyn Engine>>
    where
        F: Future<Output = Result<Arc<dyn Engine>>>,
    {
        let mut pause_ms = PAUSE_FIRST_MS;
        loop {
            match stop.run_until_cancelled(open()).await? {
                Ok(engine) => return Some(engine),
                Err(error) => self.health.failed(told(error)),
            }
            let pause = Duration::from_millis(pause_ms + SystemRandom.below(pause_ms));
            stop.run_until_cancelled(tokio::time::sleep(pause)).await?;
            pause_ms = (pause_ms * 2).min(PAUSE_MAX_MS);
        }
    }
}

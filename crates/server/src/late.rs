//! Serves health probes and refuses other requests while the store is not open yet, and retries
//! opening it. It must not know the routes served afterwards.

use crate::health::{StoreHealth, reported};
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

/// Initial pause between attempts. It doubles after each attempt up to [`PAUSE_MAX_MS`]; jitter
/// adds up to 100 %.
const PAUSE_FIRST_MS: u64 = 250;
/// Maximum pause before jitter: bounds how late a returning store is noticed.
const PAUSE_MAX_MS: u64 = 4_000;

/// Routes that become available once the store is open.
#[derive(Clone)]
pub(crate) struct Late {
    routes: Arc<OnceLock<Router>>,
    health: StoreHealth,
    exporter: Option<Exporter>,
}

impl Late {
    pub(crate) fn new(health: StoreHealth, exporter: Option<Exporter>) -> Self {
        health.failed("not connected yet".to_owned());
        Self { routes: Arc::default(), health, exporter }
    }

    /// Switches to these routes: the store is open.
    pub(crate) fn arrived(&self, routes: Router) {
        // Called once, by the task that opened the store.
        let _ = self.routes.set(routes);
    }

    /// A router that refuses requests until the store is open and forwards them afterwards.
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
            // Keys are in the store, so the caller cannot be authenticated yet.
            _ => Refusal::from(StoreHealth::unavailable()).into_response(),
        }
    }

    /// Retries until the store is open; `None` if the server stops first.
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
                Err(error) => self.health.failed(reported(error)),
            }
            let pause = Duration::from_millis(pause_ms + SystemRandom.below(pause_ms));
            stop.run_until_cancelled(tokio::time::sleep(pause)).await?;
            pause_ms = (pause_ms * 2).min(PAUSE_MAX_MS);
        }
    }
}

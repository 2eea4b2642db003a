//! Trace propagation: the `traceparent` of an enqueue request is stored with those of its jobs that
//! have no trace, through a span for the request if spans are enabled. Only enqueue requests are
//! traced: claims, heartbeats and settles would flood the traces. Knows nothing of exporters.

use crate::app::App;
use axum::extract::FromRequestParts;
use http::request::Parts;
use std::convert::Infallible;
use tracing::{Instrument as _, Span};
use windlass_core::model::NewJob;
use windlass_core::{Error, Result};

const TRACEPARENT: &str = "traceparent";

/// The trace context of a request.
pub(crate) struct Trace(Option<String>);

impl FromRequestParts<App> for Trace {
    type Rejection = Infallible;

    /// A malformed or repeated header is ignored, as W3C Trace Context requires, and never fails
    /// the request.
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let mut given = parts.headers.get_all(TRACEPARENT).iter();
        let only = match (given.next(), given.next()) {
            (Some(only), None) => only.to_str().ok(),
            _ => None,
        };
        Ok(Self(only.filter(|text| windlass_traces::is_traceparent(text)).map(str::to_owned)))
    }
}

impl Trace {
    /// Sets the request's trace on those of its jobs that have none. With `spans`, creates a span
    /// for the request as their parent, unless all jobs have a trace already: such a span would
    /// have no children.
    pub(crate) fn forward(self, jobs: &mut [NewJob], spans: bool, route: &str) -> RequestSpan {
        let lacking = jobs.iter().any(|job| job.trace.is_none());
        if !lacking || !spans && self.0.is_none() {
            return RequestSpan(Span::none());
        }
        let span = if spans { self.span(jobs.len(), route) } else { Span::none() };
        if let Some(trace) = windlass_traces::of(&span).or(self.0) {
            for job in jobs {
                job.trace.get_or_insert_with(|| trace.clone());
            }
        }
        RequestSpan(span)
    }

    fn span(&self, jobs: usize, route: &str) -> Span {
        let name = format!("POST {route}");
        let (kind, name) = ("server", name.as_str());
        // OpenTelemetry has signed integers only; other numbers would become strings.
        let jobs = i64::try_from(jobs).ok();
        let span = tracing::info_span!("enqueue", otel.kind = kind, otel.name = name, jobs);
        if let Some(parent) = &self.0 {
            windlass_traces::continue_from(&span, parent);
        } else {
            windlass_traces::begin(&span);
        }
        span
    }
}

/// The span of a request, if enabled.
pub(crate) struct RequestSpan(Span);

impl RequestSpan {
    /// Awaits a call inside the span; the span ends with the call.
    pub(crate) async fn around<T>(self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let Self(span) = self;
        if span.is_disabled() {
            return call.await;
        }
        let answer = call.instrument(span.clone()).await;
        windlass_traces::end(&span, answer.as_ref().err().map(Error::code));
        answer
    }
}

//! Trace contexts between jobs and spans: a job carries one as text (W3C `traceparent`), a span carries one in
//! whatever OpenTelemetry layer listens to it. Knows nothing of jobs, of exporters, or of whether anybody listens:
//! where nobody does, there is no context and nothing is changed.
//!
//! ```
//! let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
//! assert!(windlass_traces::is_traceparent(given));
//!
//! // Nobody listens here, so there is nothing to go on from, and nothing to hand on.
//! assert!(!windlass_traces::continue_from(&tracing::info_span!("job"), given));
//! assert_eq!(windlass_traces::current(), None);
//! ```

mod traceparent;

use opentelemetry::Context;
use opentelemetry::trace::{Status, TraceContextExt as _};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Whether this is a trace context as W3C writes it, in version 00.
pub fn is_traceparent(text: &str) -> bool {
    traceparent::read(text).is_some()
}

/// The trace context of the current span, to be handed on; `None` if nobody listens, or there is no span.
pub fn current() -> Option<String> {
    // The current span may be one that the OpenTelemetry layer leaves out; the context around it is still right.
    let around = || Context::map_current(written);
    of(&Span::current()).or_else(around)
}

/// The trace context of a span. From then on it belongs where it belongs: [`continue_from`] and [`begin`] are too
/// late.
pub fn of(span: &Span) -> Option<String> {
    if span.is_disabled() {
        return None;
    }
    written(&span.context())
}

/// Makes a span, before anybody enters it, part of the trace that came with this `traceparent`. Whether that is
/// so: not if nobody listens, the text is none, or the span has begun.
pub fn continue_from(span: &Span, traceparent: &str) -> bool {
    if span.is_disabled() {
        return false;
    }
    let Some(parent) = traceparent::read(traceparent) else { return false };
    span.set_parent(Context::new().with_remote_span_context(parent)).is_ok()
}

/// Makes a span, before anybody enters it, the first of a trace of its own, whatever is around it. Whether that is
/// so: not if nobody listens, or the span has begun.
pub fn begin(span: &Span) -> bool {
    !span.is_disabled() && span.set_parent(Context::new()).is_ok()
}

/// Says how what a span stands for ended: well, or with an error of this code.
pub fn end(span: &Span, error: Option<&str>) {
    if span.is_disabled() {
        return;
    }
    span.set_status(error.map_or(Status::Ok, |code| Status::error(code.to_owned())));
}

fn written(context: &Context) -> Option<String> {
    let span = context.span();
    let known = span.span_context();
    known.is_valid().then(|| traceparent::write(known))
}

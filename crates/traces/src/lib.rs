//! Trace contexts between jobs and spans. A job has its context as text (W3C `traceparent`); a span has its
//! context in the OpenTelemetry layer that records it. Independent of jobs and exporters: without a
//! subscriber there is no context and nothing is changed.
//!
//! ```
//! let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
//! assert!(windlass_traces::is_traceparent(given));
//!
//! // No subscriber is installed here, so there is no span to continue and none to pass on.
//! assert!(!windlass_traces::continue_from(&tracing::info_span!("job"), given));
//! assert_eq!(windlass_traces::current(), None);
//! ```

mod traceparent;

use opentelemetry::Context;
use opentelemetry::trace::{Status, TraceContextExt as _};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Whether the text is a valid W3C trace context of version 00.
pub fn is_traceparent(text: &str) -> bool {
    traceparent::read(text).is_some()
}

/// The trace context of the current span, to be propagated; `None` without a subscriber or a span.
pub fn current() -> Option<String> {
    // The OpenTelemetry layer may filter out the current span; the surrounding context is then the right one.
    let around = || Context::map_current(written);
    of(&Span::current()).or_else(around)
}

/// The trace context of a span. This fixes the parent of the span: [`continue_from`] and [`begin`] have no
/// effect afterwards.
pub fn of(span: &Span) -> Option<String> {
    if span.is_disabled() {
        return None;
    }
    written(&span.context())
}

/// Makes a span that has not been entered part of the trace of this `traceparent`. Returns `false` if there
/// is no subscriber, the text is invalid, or the span has started.
pub fn continue_from(span: &Span, traceparent: &str) -> bool {
    if span.is_disabled() {
        return false;
    }
    let Some(parent) = traceparent::read(traceparent) else { return false };
    span.set_parent(Context::new().with_remote_span_context(parent)).is_ok()
}

/// Makes a span that has not been entered the root of a new trace, whatever its context. Returns `false` if
/// there is no subscriber or the span has started.
pub fn begin(span: &Span) -> bool {
    !span.is_disabled() && span.set_parent(Context::new()).is_ok()
}

/// Records how the operation of a span ended: successfully, or with this error code.
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

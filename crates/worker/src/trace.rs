//! Spans of attempts, linked to the trace stored with the job (feature `otel`). Independent of exporters;
//! free of cost without the feature or without a subscriber.

#[cfg(feature = "otel")]
pub(crate) use on::{begin, end, here};

#[cfg(not(feature = "otel"))]
pub(crate) use off::{begin, end, here};

#[cfg(feature = "otel")]
mod on {
    use crate::stats::End;
    use tracing::Span;
    use windlass_core::engine::Outcome;
    use windlass_core::model::Header;

    /// The error type of a span whose lease was lost, in place of an error code.
    const LEASE_LOST: &str = "lease_lost";

    /// Makes the span of an attempt continue the job's trace, or start a new one.
    pub(crate) fn begin(span: &Span, header: &Header) {
        if span.is_disabled() {
            return;
        }
        // Only a valid `traceparent` is continued; any other text is left to the handler.
        let trace = header.trace.as_deref().filter(|trace| windlass_traces::is_traceparent(trace));
        let heard = match trace {
            Some(trace) => windlass_traces::continue_from(span, trace),
            None => windlass_traces::begin(span),
        };
        if heard {
            span.record("otel.kind", "consumer");
            span.record("otel.name", format!("job {}", header.kind).as_str());
        }
    }

    /// Records how the attempt ended; `None` if its lease was lost.
    pub(crate) fn end(span: &Span, outcome: Option<&Outcome>) {
        if span.is_disabled() {
            return;
        }
        let error = match outcome {
            None => Some(LEASE_LOST),
            Some(Outcome::Retry { error, .. } | Outcome::Fail { error }) => Some(&*error.code),
            Some(_) => None,
        };
        span.record("outcome", End::of(outcome).as_str());
        windlass_traces::end(span, error);
    }

    /// The trace context for outgoing calls in an attempt with this span.
    pub(crate) fn here(span: &Span) -> Option<String> {
        windlass_traces::current().or_else(|| windlass_traces::of(span))
    }
}

#[cfg(not(feature = "otel"))]
mod off {
    use tracing::Span;
    use windlass_core::engine::Outcome;
    use windlass_core::model::Header;

    pub(crate) const fn begin(_: &Span, _: &Header) {}

    pub(crate) const fn end(_: &Span, _: Option<&Outcome>) {}

    pub(crate) const fn here(_: &Span) -> Option<String> {
        None
    }
}

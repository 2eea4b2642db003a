//! An attempt as a span of the trace that its job came with (feature `otel`). Knows nothing of exporters: where
//! nobody listens, and without the feature, nothing of this costs anything.

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

    /// How the loss of a lease is called where others give the code of an error.
    const LEASE_LOST: &str = "lease_lost";

    /// Has the span of an attempt go on with the job's trace, or begin one.
    pub(crate) fn begin(span: &Span, header: &Header) {
        if span.is_disabled() {
            return;
        }
        // The one that is to be continued; anything else in its place is a text for the handler.
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

    /// Says how the attempt ended; `None`: its lease was lost.
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

    /// The context for whatever is called now, in an attempt with this span.
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

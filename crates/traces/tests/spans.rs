//! Spans as an OpenTelemetry exporter receives them.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use opentelemetry::trace::{SpanKind, Status, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn given(sampled: bool) -> String {
    format!("00-{TRACE}-{PARENT}-0{}", u8::from(sampled))
}

/// The spans that `work` exports, with a layer that records all targets except `unheard`.
fn exported(work: impl FnOnce()) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let sampler = Sampler::ParentBased(Box::new(Sampler::AlwaysOn));
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler)
        .with_simple_exporter(exporter.clone())
        .build();
    let heard =
        Targets::new().with_default(LevelFilter::INFO).with_target("unheard", LevelFilter::OFF);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    // A second listener records everything, so that every span exists.
    let others = tracing_subscriber::fmt::layer().with_writer(std::io::sink);
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(heard)).with(others);
    tracing::subscriber::with_default(subscriber, work);
    exporter.get_finished_spans().unwrap()
}

#[test]
fn a_span_continues_the_given_trace_and_forwards_it() {
    let spans = exported(|| {
        let span = tracing::info_span!("job", otel.kind = tracing::field::Empty);
        assert!(windlass_traces::continue_from(&span, &given(true)));
        span.record("otel.kind", "consumer");
        let own = windlass_traces::of(&span).unwrap();
        assert!(own.starts_with(&format!("00-{TRACE}-")) && own.ends_with("-01"), "{own}");
        assert!(!own.contains(PARENT), "its own span, not its parent's: {own}");
        let current = span.in_scope(windlass_traces::current);
        assert_eq!(current, Some(own));
        windlass_traces::end(&span, None);
    });
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(span.span_context.trace_id().to_string(), TRACE);
    assert_eq!(span.parent_span_id.to_string(), PARENT);
    assert!(span.parent_span_is_remote);
    assert_eq!(span.span_kind, SpanKind::Consumer);
    assert_eq!(span.status, Status::Ok);
}

#[test]
fn two_processes_make_one_trace() {
    let mut handed_on = None;
    let first = exported(|| {
        let span = tracing::info_span!("enqueue");
        handed_on = span.in_scope(windlass_traces::current);
    });
    let second = exported(|| {
        let span = tracing::info_span!("job");
        assert!(windlass_traces::continue_from(&span, handed_on.as_deref().unwrap()));
        windlass_traces::end(&span, Some("timeout"));
    });
    assert_eq!(first[0].span_context.trace_id(), second[0].span_context.trace_id());
    assert_eq!(first[0].span_context.span_id(), second[0].parent_span_id);
    assert_eq!(second[0].status, Status::error("timeout"));
}

#[test]
fn an_unsampled_trace_is_not_recorded_but_forwarded() {
    let spans = exported(|| {
        let span = tracing::info_span!("job");
        assert!(windlass_traces::continue_from(&span, &given(false)));
        let own = windlass_traces::of(&span).unwrap();
        assert!(own.starts_with(&format!("00-{TRACE}-")) && own.ends_with("-00"), "{own}");
    });
    assert!(spans.is_empty(), "{spans:?}");
}

#[test]
fn a_span_that_has_begun_or_is_given_nonsense_stays_where_it_is() {
    let spans = exported(|| {
        let span = tracing::info_span!("job");
        assert!(!windlass_traces::continue_from(&span, "nonsense"));
        span.in_scope(|| {});
        assert!(!windlass_traces::continue_from(&span, &given(true)));
        assert!(!windlass_traces::begin(&span));
    });
    assert_ne!(spans[0].span_context.trace_id().to_string(), TRACE);
}

#[test]
fn a_span_can_begin_a_trace_of_its_own_inside_another() {
    let spans = exported(|| {
        tracing::info_span!("outer").in_scope(|| {
            assert!(windlass_traces::begin(&tracing::info_span!("job")));
        });
    });
    let [inner, outer] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((&*inner.name, &*outer.name), ("job", "outer"));
    assert_ne!(inner.span_context.trace_id(), outer.span_context.trace_id());
}

#[test]
fn inside_a_span_that_is_not_listened_to_the_one_around_it_is_current() {
    exported(|| {
        let outer = tracing::info_span!("outer");
        outer.in_scope(|| {
            let inner = tracing::info_span!(target: "unheard", "inner");
            assert!(!inner.is_disabled(), "the second listener records it");
            assert_eq!(inner.in_scope(windlass_traces::current), windlass_traces::of(&outer));
        });
        assert!(windlass_traces::of(&outer).is_some());
        assert_eq!(windlass_traces::current(), None, "no span, no trace");
    });
}

#[test]
fn without_a_listener_there_is_no_trace() {
    let others = tracing_subscriber::fmt::layer().with_writer(std::io::sink);
    let subscriber = tracing_subscriber::registry().with(others);
    tracing::subscriber::with_default(subscriber, || {
        let span = tracing::info_span!("job");
        assert!(!span.is_disabled());
        assert!(!windlass_traces::continue_from(&span, &given(true)));
        assert!(!windlass_traces::begin(&span));
        windlass_traces::end(&span, None);
        assert_eq!(span.in_scope(windlass_traces::current), None);
    });
}

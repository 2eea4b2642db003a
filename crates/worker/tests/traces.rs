//! Attempts as spans of a trace, as an exporter of OpenTelemetry sees them.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use opentelemetry::trace::{SpanKind, Status, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use std::sync::{Arc, Mutex};
use support::{enqueue_all, memory, until, worker};
use tracing_subscriber::layer::SubscriberExt as _;
use windlass_core::model::NewJob;
use windlass_worker::{Builder, Ctx, Raw, Stop};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// The spans of a worker that completes `count` attempts at these jobs, one way or another.
fn spans(
    jobs: Vec<NewJob>,
    count: u64,
    handlers: impl FnOnce(Builder) -> Builder,
) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let engine = memory();
            let running = handlers(worker(&engine)).build().unwrap().start();
            enqueue_all(&engine, jobs).await;
            let ended = || {
                let stats = running.stats();
                stats.completed + stats.failed == count
            };
            until("all to end", ended).await;
            running.drain().await;
        });
    });
    exporter.get_finished_spans().unwrap()
}

fn traced(kind: &str) -> NewJob {
    let mut job = NewJob::new(kind).payload("secret");
    job.trace = Some(format!("00-{TRACE}-{PARENT}-01"));
    job
}

fn named<'a>(spans: &'a [SpanData], name: &str) -> &'a SpanData {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}: {spans:?}"))
}

fn attribute(span: &SpanData, name: &str) -> String {
    let found = span.attributes.iter().find(|it| it.key.as_str() == name);
    found.map_or_else(String::new, |it| it.value.to_string())
}

#[test]
fn an_attempt_goes_on_with_the_trace_of_its_job_and_says_how_it_ended() {
    let good = |_: Raw| async {};
    let bad = |_: Raw| async { Err::<(), _>(Stop::fatal("too bad").code("smtp_550")) };
    let jobs = vec![traced("good"), traced("bad"), NewJob::new("good")];
    let spans = spans(jobs, 3, |worker| worker.handle_kind("good", good).handle_kind("bad", bad));
    assert_eq!(spans.len(), 3, "{spans:?}");
    let is_ours = |span: &&SpanData| span.span_context.trace_id().to_string() == TRACE;
    let (ours, others): (Vec<_>, Vec<_>) = spans.iter().partition(is_ours);
    assert_eq!((ours.len(), others.len()), (2, 1), "a job without a trace begins one: {spans:?}");
    for span in &ours {
        assert_eq!(span.parent_span_id.to_string(), PARENT);
        assert_eq!(span.span_kind, SpanKind::Consumer);
    }
    let bad = named(&spans, "job bad");
    assert_eq!(bad.status, Status::error("smtp_550"));
    assert_eq!(attribute(bad, "outcome"), "failed");
    let good = named(&spans, "job good");
    assert_eq!(good.status, Status::Ok);
    assert_eq!(attribute(good, "outcome"), "completed");
    assert_eq!(attribute(good, "queue"), "default");
    assert!(!format!("{spans:?}").contains("secret"), "no payload: {spans:?}");
}

#[test]
fn a_follow_up_goes_on_from_the_attempt_that_made_it() {
    let seen = Arc::new(Mutex::new(None));
    let first = {
        let seen = seen.clone();
        move |_: Raw, ctx: Ctx| {
            let seen = seen.clone();
            async move {
                *seen.lock().unwrap() = ctx.trace();
                ctx.follow_up(NewJob::new("second"))?;
                Ok::<(), Stop>(())
            }
        }
    };
    let second = |_: Raw| async {};
    let spans = spans(vec![traced("first")], 2, |worker| {
        worker.handle_kind("first", first).handle_kind("second", second)
    });
    let (first, second) = (named(&spans, "job first"), named(&spans, "job second"));
    assert_eq!(second.parent_span_id, first.span_context.span_id());
    assert_eq!(second.span_context.trace_id().to_string(), TRACE);
    let own = format!("00-{TRACE}-{}-01", first.span_context.span_id());
    assert_eq!(*seen.lock().unwrap(), Some(own), "what the handler hands on");
}

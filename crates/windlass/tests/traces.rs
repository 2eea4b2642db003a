//! Traces from a span that enqueues to the handlers of what it enqueued.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use opentelemetry::trace::{SpanId, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;
use windlass::{Client, Data, Job};

const PATIENCE: Duration = Duration::from_secs(30);
/// A trace of another application.
const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[derive(Job, Serialize, Deserialize)]
struct Order {
    number: u32,
}

#[derive(Job, Serialize, Deserialize)]
struct Ship {
    number: u32,
}

async fn order(job: Order, Data(client): Data<Client>) -> windlass::Result<()> {
    client.enqueue(Ship { number: job.number }).await?;
    Ok(())
}

async fn ship(_: Ship) {}

/// The spans that `work` exports.
fn exported<F: Future<Output = ()>>(work: impl FnOnce(Client) -> F) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { work(windlass::connect("memory:").await.unwrap()).await });
    });
    exporter.get_finished_spans().unwrap()
}

fn named<'a>(spans: &'a [SpanData], name: &str) -> &'a SpanData {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}: {spans:?}"))
}

#[test]
fn one_trace_leads_from_a_request_over_its_job_to_the_job_of_that_job() {
    let spans = exported(|client| async move {
        let worker = client.worker().data(client.clone()).handle(order).handle(ship);
        let worker = worker.build().unwrap().start();
        let request = tracing::info_span!("request");
        let job = async { client.enqueue(Order { number: 7 }).await.unwrap() };
        let job = job.instrument(request).await;
        client.wait_for(job.id(), PATIENCE).await.unwrap();
        let shipped = async {
            while worker.stats().completed < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, shipped).await.unwrap();
        worker.drain().await;
    });
    let request = named(&spans, "request");
    let (order, ship) = (named(&spans, "job order"), named(&spans, "job ship"));
    assert_eq!(request.parent_span_id, SpanId::INVALID);
    assert_eq!(order.parent_span_id, request.span_context.span_id());
    assert_eq!(ship.parent_span_id, order.span_context.span_id());
    for span in [order, ship] {
        assert_eq!(span.span_context.trace_id(), request.span_context.trace_id());
    }
}

#[test]
fn every_way_to_enqueue_forwards_the_trace() {
    let mut seen = Vec::new();
    let kept = &mut seen;
    let spans = exported(|client| async move {
        let jobs = || [1, 2].map(|number| Order { number });
        let enqueue = async {
            let mut ids = Vec::new();
            ids.push(client.enqueue(Order { number: 0 }).await.unwrap().id());
            ids.extend(client.enqueue_all(jobs()).await.into_iter().map(|it| it.unwrap().id()));
            ids.extend(client.enqueue_atomic(jobs()).await.unwrap().iter().map(|it| it.id()));
            ids.push(client.enqueue(Order { number: 3 }).trace(GIVEN).await.unwrap().id());
            ids
        };
        let mut ids = enqueue.instrument(tracing::info_span!("request")).await;
        ids.push(client.enqueue(Order { number: 4 }).await.unwrap().id());
        for id in ids {
            kept.push(client.get(id).await.unwrap().unwrap().header.trace);
        }
    });
    let context = &named(&spans, "request").span_context;
    let own = format!("00-{}-{}-01", context.trace_id(), context.span_id());
    let (handed_on, rest) = seen.split_at(5);
    assert!(handed_on.iter().all(|trace| trace.as_ref() == Some(&own)), "{own}: {seen:?}");
    assert_eq!(rest, [Some(GIVEN.to_owned()), None], "its own, and outside of any span none");
}

//! The telemetry of a worker: metrics by queue, kind and outcome, and a span around every handler.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use support::{enqueue_all, memory, until, worker};
use tracing::field::{Field, Visit};
use tracing::span;
use windlass_core::model::NewJob;
use windlass_worker::{Ctx, Raw, Stop};

/// Keeps every metric under its name and labels.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Kept {
    fn slot(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<_> = key.labels().map(|label| label.value().to_owned()).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        self.0.lock().unwrap().entry(name.trim().to_owned()).or_default().clone()
    }

    fn get(&self, name: &str) -> u64 {
        self.0.lock().unwrap().get(name).map_or(0, |value| value.load(Ordering::SeqCst))
    }
}

/// Counts how many values a histogram was given.
struct Times(Arc<AtomicU64>);

impl metrics::HistogramFn for Times {
    fn record(&self, seconds: f64) {
        assert!((0.0..60.0).contains(&seconds));
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.slot(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.slot(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Times(self.slot(key))))
    }
}

#[tokio::test]
async fn attempts_are_counted_by_queue_kind_and_outcome() {
    let kept = Kept::default();
    metrics::set_global_recorder(kept.clone()).ok().unwrap();
    let engine = memory();
    let even = |Raw(payload): Raw| async move {
        if payload == "bad" { Err(Stop::fatal("bad")) } else { Ok(()) }
    };
    let running = worker(&engine).queue("q").handle_kind("even", even).build().unwrap().start();
    let job = |payload: &'static str| NewJob::new("even").queue("q").payload(payload);
    enqueue_all(&engine, [job("good"), job("bad"), job("good")]).await;
    until("all to end", || running.stats().completed == 2 && running.stats().failed == 1).await;
    running.drain().await;
    assert_eq!(kept.get("windlass_jobs_finished_total q even completed"), 2);
    assert_eq!(kept.get("windlass_jobs_finished_total q even failed"), 1);
    assert_eq!(kept.get("windlass_job_run_seconds q even"), 3);
    assert_eq!(kept.get("windlass_jobs_in_flight q even"), 0.0_f64.to_bits());
    assert_eq!(kept.get("windlass_worker_buffered"), 0.0_f64.to_bits());
}

/// Keeps the fields of every span named `job`, and which span an event was in.
#[derive(Default)]
struct Spans {
    ids: AtomicU64,
    jobs: Mutex<BTreeMap<u64, String>>,
    current: Mutex<Vec<u64>>,
    events: Mutex<Vec<(String, String)>>,
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl tracing::Subscriber for Watching {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let id = self.0.ids.fetch_add(1, Ordering::SeqCst) + 1;
        if span.metadata().name() == "job" {
            let mut fields = String::new();
            span.record(&mut Fields(&mut fields));
            self.0.jobs.lock().unwrap().insert(id, fields);
        }
        span::Id::from_u64(id)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut Fields(&mut text));
        let current = self.0.current.lock().unwrap().last().copied();
        let span = current.and_then(|id| self.0.jobs.lock().unwrap().get(&id).cloned());
        self.0.events.lock().unwrap().push((text, span.unwrap_or_default()));
    }

    fn enter(&self, id: &span::Id) {
        self.0.current.lock().unwrap().push(id.into_u64());
    }

    fn exit(&self, _: &span::Id) {
        self.0.current.lock().unwrap().pop();
    }
}

#[derive(Clone)]
struct Watching(Arc<Spans>);

#[test]
fn a_handler_runs_inside_a_span_that_names_its_job_and_shows_no_payload() {
    let spans = Arc::new(Spans::default());
    let talk = |_: Raw, ctx: Ctx| async move {
        assert!(!ctx.span().is_disabled());
        tokio::task::yield_now().await;
        tracing::info!("working");
    };
    let work = async {
        let engine = memory();
        let running = worker(&engine).handle_kind("talk", talk).build().unwrap().start();
        let mut job = NewJob::new("talk").payload("secret");
        job.trace = Some("00-trace".into());
        enqueue_all(&engine, [job]).await;
        until("it to end", || running.stats().completed == 1).await;
        running.drain().await;
    };
    tracing::subscriber::with_default(Watching(spans.clone()), || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work);
    });
    let events = spans.events.lock().unwrap();
    let (_, span) = events.iter().find(|(text, _)| text.contains("working")).unwrap();
    for field in ["kind=talk", "queue=default", "attempt=1", "trace=\"00-trace\"", "id="] {
        assert!(span.contains(field), "{span:?} has no {field}");
    }
    assert!(events.iter().all(|(text, span)| !text.contains("secret") && !span.contains("secret")));
}

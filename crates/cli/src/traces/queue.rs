//! Queues spans and sends them in batches from a separate task, so that ending a span never waits for the
//! collector. Spans that exceed the queue or are not delivered are lost; they are counted, and logged at most
//! once a minute.

use super::collector::{Collector, Lost};
use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Capacity of the queue in spans; more are lost.
const WAITING_SPANS_MAX: usize = 8_192;
/// Maximum number of spans in one request.
const BATCH_SPANS_MAX: usize = 512;
/// Maximum time that a span waits for its batch to fill.
const GATHER_MAX: Duration = Duration::from_secs(2);
/// Maximum time that the process waits at its end for the last spans to be sent.
const FLUSH_MAX: Duration = Duration::from_secs(2);
/// Minimum interval between two warnings about lost spans.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The span processor: puts ended spans into the queue.
#[derive(Debug)]
pub(super) struct Queue {
    spans: mpsc::Sender<SpanData>,
    /// Number of spans lost because the queue was full, until the task logs it. `on_end` must not log itself:
    /// that would re-enter the subscriber.
    overflow: Arc<AtomicU64>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.overflow.fetch_add(1, Ordering::Relaxed);
            count("full", 1);
        }
    }

    /// Not needed: [`Sending::stop`] flushes the queue.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// Not needed either: [`Sending::stop`] ends the task.
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The task that sends the spans of the queue.
#[derive(Debug)]
pub(super) struct Sending {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Sending {
    /// Starts the task. Call inside the runtime.
    pub(super) fn start(collector: Collector) -> (Queue, Self) {
        let (spans, waiting) = mpsc::channel(WAITING_SPANS_MAX);
        let (overflow, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let sender = Sender {
            collector,
            waiting,
            batch: Vec::new(),
            overflow: overflow.clone(),
            stop: stop.clone(),
            losses: Losses::default(),
        };
        (Queue { spans, overflow }, Self { task: tokio::spawn(sender.run()), stop })
    }

    /// Sends the remaining spans for at most [`FLUSH_MAX`], then ends the task.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        // The task returns nothing, and a panic in it is not worth reporting at the end.
        let _ = self.task.await;
    }
}

struct Sender {
    collector: Collector,
    waiting: mpsc::Receiver<SpanData>,
    batch: Vec<SpanData>,
    overflow: Arc<AtomicU64>,
    stop: CancellationToken,
    losses: Losses,
}

impl Sender {
    async fn run(mut self) {
        let stop = self.stop.clone();
        let mut too_late = std::pin::pin!(async {
            stop.cancelled().await;
            sleep(FLUSH_MAX).await;
        });
        while self.gather().await {
            let batch = std::mem::take(&mut self.batch);
            let count = batch.len();
            tokio::select! {
                sent = self.collector.send(batch) => self.note(sent),
                () = &mut too_late => {
                    self.waiting.close();
                    let spans = (count + self.waiting.len()) as u64;
                    let why = format!("the process ends, and they were not accepted within {FLUSH_MAX:?}");
                    self.note(Err(Lost { spans, why }));
                    break;
                }
            }
        }
        self.losses.say(self.collector.url());
    }

    /// Waits for the next batch; returns `false` if there is none because the queue was closed.
    async fn gather(&mut self) -> bool {
        if !self.more().await {
            return false;
        }
        let rest = async { while self.batch.len() < BATCH_SPANS_MAX && self.more().await {} };
        // On timeout, the batch is sent with the spans gathered so far.
        let _ = timeout(GATHER_MAX, rest).await;
        true
    }

    /// Waits for spans; returns `false` if the queue was closed and is empty.
    async fn more(&mut self) -> bool {
        let room = BATCH_SPANS_MAX - self.batch.len();
        let came = tokio::select! {
            came = self.waiting.recv_many(&mut self.batch, room) => came,
            () = self.stop.cancelled(), if !self.waiting.is_closed() => {
                self.waiting.close();
                self.waiting.recv_many(&mut self.batch, room).await
            }
        };
        came > 0
    }

    fn note(&mut self, sent: Result<(), Lost>) {
        if let Err(lost) = sent {
            count("not_sent", lost.spans);
            self.losses.add(lost);
        }
        let overflow = self.overflow.swap(0, Ordering::Relaxed);
        if overflow > 0 {
            let why = format!("the queue of {WAITING_SPANS_MAX} spans is full");
            self.losses.add(Lost { spans: overflow, why });
        }
        self.losses.say_at_times(self.collector.url());
    }
}

/// Losses that have not been logged yet.
#[derive(Debug, Default)]
struct Losses {
    spans: u64,
    /// The last reason.
    why: String,
    said_at: Option<Instant>,
}

impl Losses {
    fn add(&mut self, lost: Lost) {
        self.spans += lost.spans;
        self.why = lost.why;
    }

    fn say_at_times(&mut self, collector: &str) {
        if self.said_at.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            self.say(collector);
        }
    }

    fn say(&mut self, collector: &str) {
        if self.spans == 0 {
            return;
        }
        tracing::warn!(
            collector,
            spans = self.spans,
            error = self.why,
            "spans are lost because the collector does not receive them; jobs are not affected"
        );
        self.spans = 0;
        self.said_at = Some(Instant::now());
    }
}

fn count(why: &'static str, spans: u64) {
    metrics::counter!("windlass_spans_lost_total", "why" => why).increment(spans);
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use std::net::TcpListener;

    #[tokio::test]
    async fn dropped_and_unfinished_spans_are_counted_and_delay_no_caller() {
        const TOO_MANY: usize = 7;
        let recorder = PrometheusBuilder::new().build_recorder();
        let _here = metrics::set_default_local_recorder(&recorder);
        let lost = |why: &str, spans: usize| {
            let line = format!("windlass_spans_lost_total{{why=\"{why}\"}} {spans}\n");
            let metrics = recorder.handle().render();
            assert!(metrics.contains(&line), "{line}{metrics}");
        };
        // A listener that never accepts: connections are established, but nothing answers.
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/traces", mute.local_addr().unwrap());
        let collector = Collector::new(url, &Resource::builder_empty().build());
        let (queue, sending) = Sending::start(collector);
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        let tracer = provider.tracer("test");
        for _ in 0..WAITING_SPANS_MAX + TOO_MANY {
            tracer.start("span").end();
        }
        lost("full", TOO_MANY);
        sending.stop().await;
        lost("not_sent", WAITING_SPANS_MAX);
        tracer.start("too late").end();
        lost("full", TOO_MANY + 1);
    }
}

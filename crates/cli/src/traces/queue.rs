//! Spans that wait to be sent, in batches, by a task of their own: whoever ends a span never waits for a collector.
//! What finds no room or does not arrive is lost; it is counted, and said in the log now and then.

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

/// Spans that wait to be sent; more are lost.
const WAITING_SPANS_MAX: usize = 8_192;
/// Spans in one request.
const BATCH_SPANS_MAX: usize = 512;
/// The longest that a span waits for others to go with it.
const GATHER_MAX: Duration = Duration::from_secs(2);
/// The longest that the end of the process waits for the last spans to be sent.
const FLUSH_MAX: Duration = Duration::from_secs(2);
/// How often the log says that spans are lost.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Where spans go when they end.
#[derive(Debug)]
pub(super) struct Queue {
    spans: mpsc::Sender<SpanData>,
    /// Those that found no room, until the task tells the log. A span must not log while it ends: that would enter
    /// the subscriber from within.
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

    /// Nobody needs it: the task is asked ([`Sending::stop`]).
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// The same.
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The task that sends.
#[derive(Debug)]
pub(super) struct Sending {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Sending {
    /// Sends what comes into the queue. Call inside the runtime.
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

    /// Sends what is left, as far as that is possible within [`FLUSH_MAX`].
    pub(super) async fn stop(self) {
        self.stop.cancel();
        // Nothing is left to be told to somebody.
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
                    let why = format!("the process ends, and they were not taken within {FLUSH_MAX:?}");
                    self.note(Err(Lost { spans, why }));
                    break;
                }
            }
        }
        self.losses.say(self.collector.url());
    }

    /// Waits for the next batch; whether there is one.
    async fn gather(&mut self) -> bool {
        if !self.more().await {
            return false;
        }
        let rest = async { while self.batch.len() < BATCH_SPANS_MAX && self.more().await {} };
        // Late or not: what has come goes.
        let _ = timeout(GATHER_MAX, rest).await;
        true
    }

    /// Waits for spans; whether there are any, which is not so when all is over.
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
            let why = format!("more than {WAITING_SPANS_MAX} wait to be sent");
            self.losses.add(Lost { spans: overflow, why });
        }
        self.losses.say_at_times(self.collector.url());
    }
}

/// What the log has not been told yet.
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
            "spans are lost, for they do not arrive at the collector; work goes on"
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
    async fn spans_that_find_no_room_or_no_end_are_counted_and_nobody_waits_for_them() {
        const TOO_MANY: usize = 7;
        let recorder = PrometheusBuilder::new().build_recorder();
        let _here = metrics::set_default_local_recorder(&recorder);
        let lost = |why: &str, spans: usize| {
            let line = format!("windlass_spans_lost_total{{why=\"{why}\"}} {spans}\n");
            let metrics = recorder.handle().render();
            assert!(metrics.contains(&line), "{line}{metrics}");
        };
        // Connections are made, and nobody takes them up.
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

//! Samples the spans of this process, batches them, and sends them to a collector. It must not know what the
//! spans describe. If the collector is unavailable, spans are lost, but work is never delayed.

mod collector;
mod queue;

use crate::config::TracesSection;
use collector::Collector;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use queue::Sending;

/// Instrumentation scope of the spans.
const SCOPE: &str = "windlass";

/// The export of spans; empty if none is configured.
pub(crate) struct Traces(Option<(SdkTracerProvider, Sending)>);

impl Traces {
    /// Starts the export if a collector is configured. Call once, inside the runtime.
    pub(crate) fn start(section: &TracesSection) -> Self {
        let Some(endpoint) = &section.endpoint else { return Self(None) };
        let resource = Resource::builder()
            .with_service_name(section.service.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let (queue, sending) = Sending::start(Collector::new(endpoint.traces(), &resource));
        let sampled = Sampler::TraceIdRatioBased(f64::from(section.sample_percent) / 100.0);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .with_sampler(Sampler::parent_based(sampled))
            .build();
        Self(Some((provider, sending)))
    }

    /// The tracer; `None` if no collector is configured.
    pub(crate) fn tracer(&self) -> Option<SdkTracer> {
        self.0.as_ref().map(|(provider, _)| provider.tracer(SCOPE))
    }

    /// Sends the remaining spans, with a time limit.
    pub(crate) async fn stop(self) {
        if let Some((_, sending)) = self.0 {
            sending.stop().await;
        }
    }
}

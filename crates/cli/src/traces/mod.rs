//! The spans of this process on their way to a collector: sampled, gathered in batches, and sent. It must not know
//! what they are spans of. A collector that is away costs the spans; it never holds up work.

mod collector;
mod queue;

use crate::config::TracesSection;
use collector::Collector;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use queue::Sending;

/// What makes the spans, as traces call it.
const SCOPE: &str = "windlass";

/// Where spans go, if anywhere.
pub(crate) struct Traces(Option<(SdkTracerProvider, Sending)>);

impl Traces {
    /// Sends spans from now on, if there is somebody to send them to. Call once, inside the runtime.
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

    /// What makes spans; `None` if they would go nowhere.
    pub(crate) fn tracer(&self) -> Option<SdkTracer> {
        self.0.as_ref().map(|(provider, _)| provider.tracer(SCOPE))
    }

    /// Sends what is left, as far as that is possible in time.
    pub(crate) async fn stop(self) {
        if let Some((_, sending)) = self.0 {
            sending.stop().await;
        }
    }
}

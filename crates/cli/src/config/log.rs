//! The log of the process, with a level that can change at run time, and the recording of spans. It must not
//! know what is logged, nor where spans are sent.

use super::sections::Fixed;
use anyhow::{Context as _, Result};
use opentelemetry_sdk::trace::SdkTracer;
use std::io::IsTerminal as _;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, reload};

/// Prefix of the names of Windlass's crates.
const OURS: &str = "windlass";

/// Changes the log level of the process.
pub(crate) struct LogHandle(Box<dyn Fn(EnvFilter) -> Result<()> + Send + Sync>);

impl LogHandle {
    /// Starts logging to stderr, and recording spans if there is a tracer.
    pub(crate) fn start(fixed: &Fixed, tracer: Option<SdkTracer>) -> Result<Self> {
        let filter = filter(fixed)?;
        match tracer {
            None => Ok(Self::lines(filter)),
            Some(tracer) => Ok(Self::lines_and_spans(filter, tracer)),
        }
    }

    /// Without spans, one global filter is enough, which is the fastest way.
    fn lines(filter: EnvFilter) -> Self {
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .with_filter_reloading();
        let handle = builder.reload_handle();
        builder.init();
        Self(Box::new(move |filter| handle.reload(filter).context("cannot change the log")))
    }

    /// Logs and spans have separate filters, so that the log level does not affect traces.
    fn lines_and_spans(filter: EnvFilter, tracer: SdkTracer) -> Self {
        let (filter, handle) = reload::Layer::new(filter);
        let lines = fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .with_filter(filter);
        let spans = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(is_ours).with_max_level_hint(Level::INFO));
        tracing_subscriber::registry().with(spans).with(lines).init();
        Self(Box::new(move |filter| handle.reload(filter).context("cannot change the log")))
    }

    /// Changes the log level.
    pub(crate) fn change(&self, fixed: &Fixed) -> Result<()> {
        (self.0)(filter(fixed)?)
    }
}

/// Traces contain only Windlass's own spans of level info and above: no spans of other crates, and no log
/// events, which may contain any data.
fn is_ours(what: &Metadata<'_>) -> bool {
    what.is_span() && *what.level() <= Level::INFO && what.target().starts_with(OURS)
}

fn filter(fixed: &Fixed) -> Result<EnvFilter> {
    let level = fixed.log.level.to_string();
    EnvFilter::try_new(&level).with_context(|| format!("log.level is {level:?}"))
}

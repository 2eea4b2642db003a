//! Captures the log lines of the engine while a test runs.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};
use windlass_core::sync::lock;

/// Every event of the engine with its fields, as a line each.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<(Level, String)>>>);

impl Said {
    /// The lines of this level with this in them.
    pub(crate) fn lines(&self, level: Level, part: &str) -> Vec<String> {
        let said = lock(&self.0);
        let lines = said.iter().filter(|(at, line)| *at == level && line.contains(part));
        lines.map(|(_, line)| line.clone()).collect()
    }
}

impl Subscriber for Said {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("windlass_postgres")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let mut said = lock(&self.0);
        said.push((*event.metadata().level(), line.0));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

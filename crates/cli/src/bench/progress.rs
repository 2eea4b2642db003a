//! The progress bar of one run, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;

/// A bar that is not there when nobody watches: counting for it must cost nothing then.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar for the run called `label`, if errors go to a terminal.
    pub(super) fn new(label: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::new(0);
        let template = "{prefix:<34} {msg:<9} {bar:30} {percent:>3} %";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(label.to_owned());
        Self { bar: Some(bar) }
    }

    /// No bar.
    pub(super) const fn hidden() -> Self {
        Self { bar: None }
    }

    /// Begins a phase of so many steps.
    pub(super) fn phase(&self, name: &'static str, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(name);
            bar.set_length(steps);
            bar.reset();
        }
    }

    /// So many more steps are done.
    pub(super) fn add(&self, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(steps);
        }
    }

    /// So many steps are done.
    pub(super) fn at(&self, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(steps);
        }
    }

    /// Takes the bar away; the line belongs to the next run.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

//! The progress bar of one run, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;

/// A progress bar, or nothing if stderr is not a terminal: counting must cost nothing then.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar for the run called `label`, if stderr is a terminal.
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

    /// Starts a phase of `steps` steps.
    pub(super) fn phase(&self, name: &'static str, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(name);
            bar.set_length(steps);
            bar.reset();
        }
    }

    /// Advances by `steps`.
    pub(super) fn add(&self, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(steps);
        }
    }

    /// Sets the position to `steps`.
    pub(super) fn at(&self, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(steps);
        }
    }

    /// Removes the bar, so that the next run can use the line.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

//! Prints the progress of a run to stderr: a live line on a terminal, otherwise a line every 5 seconds.

use super::Plan;
use super::client::Counts;
use super::schedule::Action;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use windlass_core::sync::lock;

/// Refresh interval on a terminal.
const TICK: Duration = Duration::from_millis(250);
/// Interval between lines if stderr is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The progress of a run.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    seconds: u64,
    /// Time of the last line, since the start of the run.
    last: Mutex<Duration>,
}

impl Progress {
    /// Prints the parameters of the run.
    pub(super) fn begin(plan: &Plan, faults: usize, evidence: &Path) -> Self {
        let served = if plan.serve { " through a server started for it" } else { "" };
        eprintln!(
            "torturing {}{served} for {} s with seed {}: {faults} faults; histories go to {}",
            plan.store,
            plan.seconds,
            plan.seed,
            evidence.display()
        );
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, seconds: plan.seconds, last: Mutex::default() }
    }

    /// Interval at which to call `at`.
    pub(super) const fn every(&self) -> Duration {
        TICK
    }

    /// Shows the current counts.
    pub(super) fn at(&self, elapsed: Duration, faults: u64, counts: Counts) {
        let Counts { acknowledged, ended, .. } = counts;
        let message = format!(
            "{:>4} of {} s: {faults} faults, {acknowledged} acknowledged, about {ended} done",
            elapsed.as_secs(),
            self.seconds
        );
        if let Some(bar) = &self.bar {
            bar.set_message(message);
            bar.tick();
            return;
        }
        let mut last = lock(&self.last);
        if elapsed >= *last + LINE_EVERY {
            *last = elapsed;
            eprintln!("{message}");
        }
    }

    /// Prints an action, on a terminal only: they are too many for a log.
    pub(super) fn action(&self, action: Action) {
        if let Some(bar) = &self.bar {
            bar.println(format!("      {action}"));
        }
    }

    /// Shows the number of unfinished jobs.
    pub(super) fn left(&self, left: Option<u64>) {
        if let (Some(bar), Some(left)) = (&self.bar, left) {
            bar.set_message(format!("draining: {left} left"));
            bar.tick();
        }
    }

    /// Prints a line that stays.
    pub(super) fn says(&self, sentence: &str) {
        match &self.bar {
            Some(bar) => bar.println(sentence),
            None => eprintln!("{sentence}"),
        }
    }

    /// Removes the live line.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

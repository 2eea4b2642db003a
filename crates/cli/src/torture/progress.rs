//! What people see while it runs: on a terminal a line that moves, otherwise a line now and then. All of
//! it goes to stderr.

use super::Plan;
use super::client::Counts;
use super::schedule::Action;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// How often a line on a terminal moves.
const TICK: Duration = Duration::from_millis(250);
/// How often a line is written elsewhere.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Where a run stands.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    seconds: u64,
    /// When the last line was written.
    last: Mutex<Duration>,
}

impl Progress {
    /// Says what is about to happen.
    pub(super) fn begin(plan: &Plan, faults: usize, evidence: &Path) -> Self {
        let served = if plan.serve { " through a server of its own" } else { "" };
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

    /// How often to say something.
    pub(super) const fn every(&self) -> Duration {
        TICK
    }

    /// Where it stands.
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
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if elapsed >= *last + LINE_EVERY {
            *last = elapsed;
            eprintln!("{message}");
        }
    }

    /// What is done to somebody; too much for a log that nobody watches.
    pub(super) fn action(&self, action: Action) {
        if let Some(bar) = &self.bar {
            bar.println(format!("      {action}"));
        }
    }

    /// How much is left to do.
    pub(super) fn left(&self, left: Option<u64>) {
        if let (Some(bar), Some(left)) = (&self.bar, left) {
            bar.set_message(format!("draining: {left} left"));
            bar.tick();
        }
    }

    /// A sentence that stays.
    pub(super) fn says(&self, sentence: &str) {
        match &self.bar {
            Some(bar) => bar.println(sentence),
            None => eprintln!("{sentence}"),
        }
    }

    /// Takes the moving line away.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

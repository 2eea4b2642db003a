//! The score of a mutant run, from the output of cargo-mutants.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// Minimum percentage of caught mutants.
const MIN_SCORE_PERCENT: f64 = 85.0;

/// The mutants by outcome.
pub(super) struct Score {
    caught: Vec<String>,
    timed_out: Vec<String>,
    missed: Vec<String>,
    unviable: Vec<String>,
}

impl Score {
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let lines = |file: &str| -> Result<Vec<String>> {
            let path = directory.join(file);
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            Ok(text.lines().map(String::from).collect())
        };
        Ok(Self {
            caught: lines("caught.txt")?,
            timed_out: lines("timeout.txt")?,
            missed: lines("missed.txt")?,
            unviable: lines("unviable.txt")?,
        })
    }

    pub(super) fn total(&self) -> usize {
        self.caught.len() + self.timed_out.len() + self.missed.len() + self.unviable.len()
    }

    /// Percentage of caught mutants among those that compile. A test that hangs counts as caught.
    fn percent(&self) -> f64 {
        let noticed = self.caught.len() + self.timed_out.len();
        let viable = noticed + self.missed.len();
        if viable == 0 { 0.0 } else { 100.0 * noticed as f64 / viable as f64 }
    }

    /// Prints the score and the survivors; too low a score is an error.
    pub(super) fn report(&self) -> Result<()> {
        println!(
            "\n{} caught, {} timed out (counted as caught), {} missed, {} did not compile",
            self.caught.len(),
            self.timed_out.len(),
            self.missed.len(),
            self.unviable.len()
        );
        for survivor in &self.missed {
            println!("  survived: {survivor}");
        }
        let percent = self.percent();
        println!("score {percent:.1} %");
        if percent < MIN_SCORE_PERCENT {
            bail!("score {percent:.1} % is under {MIN_SCORE_PERCENT} %; test what survived");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("mutant {n}")).collect()
    }

    #[test]
    fn timeouts_count_as_caught_and_unviable_ones_do_not_count() {
        let score =
            Score { caught: names(6), timed_out: names(2), missed: names(2), unviable: names(5) };
        assert_eq!(score.percent(), 80.0);
        assert!(score.report().is_err());
    }
}

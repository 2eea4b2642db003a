//! `windlass check`: verifies that every job is stored in exactly one place and that all indexes agree.

use crate::output::{Colour, paint, print, print_json, progress_bar};
use crate::store::{Common, block_on};
use anyhow::Result;
use indicatif::{HumanCount, ProgressBar};
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use windlass::Url;
use windlass_core::engine::CheckReport;

/// Interval at which the spinner moves.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Repair the inconsistencies found
    #[arg(long)]
    repair: bool,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        block_on(async {
            let client = self.common.open().await?;
            let warning = match self.common.url()? {
                Url::File(dir) => windlass_local::exposure(&dir),
                _ => None,
            };
            let bar = spinner();
            let report = client.engine().check(self.repair).await;
            bar.finish_and_clear();
            self.end(&report?.value, warning)
        })
    }

    fn end(&self, report: &CheckReport, warning: Option<String>) -> Result<ExitCode> {
        let left = report.findings.iter().filter(|finding| !finding.repaired).count();
        if self.common.json {
            let finding = |it: &windlass_core::engine::Finding| json!({ "what": it.what, "repaired": it.repaired });
            let findings: Vec<_> = report.findings.iter().map(finding).collect();
            let warnings: Vec<String> = warning.into_iter().collect();
            let ok = left == 0;
            print_json(&json!({
                "jobs": report.jobs, "ok": ok, "findings": findings, "warnings": warnings
            }))?;
        } else {
            if let Some(warning) = warning {
                print(&format!("{}  {warning}\n", paint("warning", Colour::Notice)))?;
            }
            print(&self.words(report, left)?)?;
        }
        Ok(if left == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn words(&self, report: &CheckReport, left: usize) -> Result<String> {
        let mut text = String::new();
        for finding in &report.findings {
            let mark = match finding.repaired {
                true => paint("repaired", Colour::Good),
                false => paint("wrong", Colour::Bad),
            };
            writeln!(text, "{mark}  {}", finding.what)?;
        }
        let jobs = HumanCount(report.jobs);
        match (report.findings.len(), left) {
            (0, _) => writeln!(text, "{jobs} jobs, no problems found")?,
            (found, 0) => writeln!(text, "{jobs} jobs, {found} findings, all repaired")?,
            (found, left) if self.repair => {
                writeln!(text, "{jobs} jobs, {found} findings, {left} could not be repaired")?;
            }
            (found, _) => {
                writeln!(text, "{jobs} jobs, {found} findings; repair them with --repair")?;
            }
        }
        Ok(text)
    }
}

fn spinner() -> ProgressBar {
    if progress_bar(0).is_hidden() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message("checking");
    bar.enable_steady_tick(TICK);
    bar
}

//! `windlass scale`: computes how many workers a queue needs.

use crate::output::{print, print_json};
use crate::store::{Common, block_on};
use crate::values;
use anyhow::Result;
use std::process::ExitCode;
use windlass_core::time::rough_span;
use windlass_services::{Scale, ScaleQuery};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Name of the queue
    queue: String,
    /// Time within which ready jobs should start
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms, default_value = "30s")]
    target_latency: u64,
    /// Number of jobs that one worker runs at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    per_worker: u64,
    /// Minimum number of workers
    #[arg(long, value_name = "N", default_value_t = 0)]
    min: u64,
    /// Maximum number of workers
    #[arg(long, value_name = "N", default_value_t = 100)]
    max: u64,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        block_on(self.show())
    }

    async fn show(self) -> Result<ExitCode> {
        let client = self.common.open().await?;
        let mut query = ScaleQuery::new(self.queue);
        query.target_latency_ms = self.target_latency;
        (query.per_worker, query.min, query.max) = (self.per_worker, self.min, self.max);
        let scale = Scale::read(client.engine().clone(), &query, None).await?;
        if self.common.json {
            print_json(&windlass_server::documents::scale(&scale))?;
            return Ok(ExitCode::SUCCESS);
        }
        let each = scale.run_ms.map_or_else(|| "an unknown time".to_owned(), rough_span);
        print(&format!(
            "{} workers: {} ready, {} running, {:.1}/s arriving, {each} each\n",
            scale.desired, scale.available, scale.running, scale.arrivals_per_second
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

//! `open`: the time and memory to open a directory with many waiting jobs.

use super::super::clock;
use super::super::meter::{Counts, Meter, Sample};
use super::super::subject::{EngineSubject, Subject as _, Worker as _};
use crate::connect::Url;
use anyhow::{Result, ensure};

/// Opens the engine at `url` and claims a job. The latency is the time from opening to the first claimed job.
pub(in crate::bench) async fn measure_open(url: &Url) -> Result<Sample> {
    let mut meter = Meter::default();
    let start = clock::now();
    meter.begin(Counts::default());
    let subject = EngineSubject::open(url).await?;
    let held = subject.worker().await?.next(Vec::new(), 1).await?;
    let latency_ms = clock::ms_since(start);
    meter.end(Counts::default());
    ensure!(held.len() == 1, "no job is waiting in {url} although it had been filled");
    let per_job =
        Sample { jobs_per_s: None, bytes_per_job: None, ..meter.sample(1, vec![latency_ms]) };
    Ok(per_job)
}

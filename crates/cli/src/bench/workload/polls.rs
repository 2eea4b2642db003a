//! idle2000: the cost of waiting claims to the server, and whether each is answered eventually.

use super::super::clock;
use super::super::meter::{Counts, Sample};
use super::super::stats::percentile;
use super::super::subject::{EngineSubject, QUEUE, Subject as _};
use super::Bench;
use crate::connect::Url;
use crate::open_files;
use anyhow::{Context as _, Result, bail};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use windlass_core::engine::{Lease, Outcome, SettleItem};

/// Wait time of a claim: longer than any profile measures.
const WAIT_MS: u64 = 60_000;
/// Time for the last claim to arrive at the server before the measurement.
const ARRIVE: Duration = Duration::from_secs(1);
/// Maximum time until all claims are answered once there is a job for each.
const ANSWERS_MAX: Duration = Duration::from_secs(30);

/// Opens the connections, measures the idle server, and then enqueues a job for each claim. The latency is the
/// time from the first enqueue to the response.
pub(super) async fn idle(bench: &Bench<EngineSubject>, url: &Url) -> Result<Sample> {
    let Url::Http(server) = url else { bail!("only a server has claims that wait: {url}") };
    let host = server.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let (polls, for_ms) = (bench.profile.polls, bench.profile.polls_ms);
    open_files::raise_limit();
    bench.progress.phase("idling", for_ms);
    let mut waiting = Vec::new();
    for _ in 0..polls {
        waiting.push(poll(host).await.with_context(|| {
            format!("cannot open {polls} connections to {url}; raise the limit of open files")
        })?);
    }
    tokio::time::sleep(ARRIVE.min(Duration::from_millis(for_ms))).await;
    let mut meter = bench.meter();
    meter.begin(Counts::default());
    tokio::time::sleep(Duration::from_millis(for_ms)).await;
    meter.end(Counts::default());
    // Taken before the following work, whose memory must not count.
    let idle = meter.sample(polls.into(), Vec::new());
    let mut latencies_ms = wake(bench, waiting).await?;
    Ok(Sample {
        jobs_per_s: None,
        bytes_per_job: None,
        p50_ms: percentile(&mut latencies_ms, 50.0),
        p99_ms: percentile(&mut latencies_ms, 99.0),
        ..idle
    })
}

/// Opens a connection and sends a claim that waits for one job.
async fn poll(host: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(host).await?;
    let body = format!(r#"{{"queues":["{QUEUE}"],"wait_ms":{WAIT_MS},"worker":"bench"}}"#);
    let request = format!(
        "POST /v1/claim HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// Enqueues a job for each claim; returns the time until each was answered.
async fn wake(bench: &Bench<EngineSubject>, waiting: Vec<TcpStream>) -> Result<Vec<f32>> {
    let polls = waiting.len() as u64;
    let began = clock::now();
    let mut answers: JoinSet<Result<(f32, SettleItem)>> =
        waiting.into_iter().map(|stream| answered(stream, began)).collect();
    bench.subject.enqueue(0..polls, 1).await?;
    let all = async {
        let (mut latencies_ms, mut done) = (Vec::new(), Vec::new());
        while let Some(answer) = answers.join_next().await {
            let (latency_ms, item) = answer??;
            latencies_ms.push(latency_ms);
            done.push(item);
        }
        anyhow::Ok((latencies_ms, done))
    };
    let all = tokio::time::timeout(ANSWERS_MAX, all).await;
    let (latencies_ms, done) = all.with_context(|| {
        format!("claims were not answered within {ANSWERS_MAX:?} although there were jobs")
    })??;
    bench.subject.complete(done).await?;
    Ok(latencies_ms)
}

/// The time until the response, and the item that settles its job.
async fn answered(mut stream: TcpStream, began: Instant) -> Result<(f32, SettleItem)> {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let latency_ms = clock::ms_since(began);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let claimed: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let text = |field: &str| claimed["jobs"][0][field].as_str();
    let (Some(id), Some(lease)) = (text("id"), text("lease")) else {
        bail!("a waiting claim got no job: {answer}");
    };
    Ok((latency_ms, SettleItem::new(id.parse()?, Lease::new(lease), Outcome::DONE)))
}

//! Two servers on one database, as they are started: one of them keeps the store in order, and when it is killed
//! the other does before long.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod database;
mod serving;

use database::Database;
use serde_json::Value;
use serving::Serving;
use std::process::Command;
use std::time::Duration;
use tokio::time::Instant;
use windlass_postgres::{Options, PostgresEngine};
use windlass_services::Services;

/// Promised time until another server leads, with the defaults.
const HANDED_OVER_WITHIN: Duration = Duration::from_secs(15);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Times that a schedule fires, a second apart: some before the kill, some without a leader, some after.
const FIRES: u64 = 20;

fn serve(store: &str) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    Serving::by(command.args(["serve", "--listen", "127.0.0.1:0", "--store", store]))
}

fn ask(server: &Serving, method: &str, path: &str, body: &str) -> Value {
    let answer = server.request(method, path, body);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
    serde_json::from_str(body).unwrap()
}

/// A scheduled job, which a service must promote when it is due.
fn enqueue_due_soon(server: &Serving) -> String {
    let job = ask(server, "POST", "/v1/jobs", r#"{"kind":"due","delay_ms":100}"#);
    job["id"].as_str().unwrap().to_owned()
}

fn state(server: &Serving, id: &str) -> String {
    ask(server, "GET", &format!("/v1/jobs/{id}"), "")["state"].as_str().unwrap().to_owned()
}

async fn until(what: &str, within: Duration, mut done: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !done().await {
        assert!(began.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The process that leads.
async fn leader(engine: &PostgresEngine) -> Option<u32> {
    let leader = Services::leader(engine).await.unwrap()?;
    leader.label.strip_prefix("process ")?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_server_takes_over_in_time_when_the_one_that_leads_is_killed() {
    let database = Database::new();
    let servers = [serve(&database.url()), serve(&database.url())];
    let options = Options::new(&database.server).schema(&database.schema);
    let engine = PostgresEngine::connect(options).await.unwrap();
    until("one leads", HANDED_OVER_WITHIN, async || leader(&engine).await.is_some()).await;
    let every_second = format!(
        r#"{{"schedule":{{"every_ms":1000,"missed":"all","limit":{FIRES}}},"job":{{"kind":"tick"}}}}"#
    );
    ask(&servers[0], "PUT", "/v1/schedules/tick", &every_second);
    let first = enqueue_due_soon(&servers[0]);
    let let_in = async || state(&servers[1], &first) == "available";
    until("a job is let in", HANDED_OVER_WITHIN, let_in).await;

    let old = leader(&engine).await.unwrap();
    let [one, other] = servers;
    let (killed, left) = if one.pid() == old { (one, other) } else { (other, one) };
    assert_eq!(killed.pid(), old);
    drop(killed);
    let began = Instant::now();
    let second = enqueue_due_soon(&left);
    let led = async || leader(&engine).await == Some(left.pid());
    until("the other leads", HANDED_OVER_WITHIN, led).await;
    let rest = HANDED_OVER_WITHIN.saturating_sub(began.elapsed());
    until("it does the work", rest, async || state(&left, &second) == "available").await;

    let fired = async || ask(&left, "GET", "/v1/schedules/tick", "")["fired"] == FIRES;
    until("the schedule fires to its end", Duration::from_secs(2 * FIRES), fired).await;
    let ticks = ask(&left, "GET", "/v1/jobs?kind=tick&limit=100", "");
    assert_eq!(ticks["jobs"].as_array().unwrap().len() as u64, FIRES, "each fired once");
}

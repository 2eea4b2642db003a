//! A claim costs the same however many jobs wait: by the pages that the server looks at for it.

mod common;

use common::{OwnSchema, open, url};
use windlass_core::engine::*;
use windlass_core::model::NewJob;

/// Jobs that wait.
const FEW: usize = 1_000;
const MANY: usize = 50_000;
/// Lanes they are spread over.
const LANES: usize = 5;
/// Jobs in a claim.
const BATCH: u32 = 50;

/// How our own connections plan; made once, as they do, while there is little in the tables.
const PLANS: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off;";

async fn fill(engine: &dyn Engine, jobs: usize) {
    let job = |number: usize| NewJob::new(format!("kind{}", number % LANES)).json("{}");
    let jobs: Vec<NewJob> = (0..jobs).map(job).collect();
    for batch in jobs.chunks(10_000) {
        engine.enqueue(Enqueue::each(batch.to_vec())).await.expect("enqueues");
    }
}

/// Pages that a claim looks at.
async fn pages(client: &tokio_postgres::Client, session: &SessionId, claim_no: u64) -> i64 {
    let tokens = vec!["gen_random_uuid()"; BATCH as usize].join(", ");
    let none = "'{}', '{}', '{}', '{}'";
    let sql = format!(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE claim('{session}', {claim_no},
            'default', NULL, {BATCH}, ARRAY[{tokens}],
            NULL, NULL, {none})"
    );
    let rows = client.simple_query(&sql).await.expect("explains");
    let text = rows.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: serde_json::Value = serde_json::from_str(text.expect("a plan")).expect("is JSON");
    let blocks = |name: &str| plan[0]["Plan"][name].as_i64().expect("a number");
    blocks("Shared Hit Blocks") + blocks("Shared Read Blocks")
}

#[tokio::test]
async fn a_claim_looks_at_as_much_with_many_waiting_as_with_few() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let (client, connection) =
        tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    let claim = include_str!("../sql/claim.sql").replace("{s}", &format!("\"{}\"", schema.name));
    client.batch_execute(&format!("{PLANS} PREPARE claim AS {claim}")).await.expect("prepares");
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    fill(&engine, FEW).await;
    let few = pages(&client, &session, 1).await;
    fill(&engine, MANY).await;
    let many = pages(&client, &session, 2).await;
    // A deeper tree has a level more; a scan would look at thousands.
    assert!(many < 2 * few, "{many} pages with {MANY} waiting, {few} with {FEW}");
    assert_eq!(engine.check(false).await.expect("checks").value.findings, []);
}

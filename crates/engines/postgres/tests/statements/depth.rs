//! A claim costs the same at any depth, measured in pages that the server reads.

use crate::common::{OwnSchema, open, url};
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_postgres::claim_statement;

/// Jobs that wait.
const FEW: usize = 1_000;
const MANY: usize = 50_000;
/// Lanes they are spread over.
const LANES: usize = 5;
/// Jobs in a claim.
const BATCH: u32 = 50;

/// The planner settings of our connections; plans are made once, while the tables are nearly empty.
const PLANS: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off;";

/// The ranges of a claim without watermarks.
const EVERYWHERE: &str = "'{}', '{}', '{}', '{}'";

async fn fill(engine: &dyn Engine, jobs: usize) {
    let job = |number: usize| NewJob::new(format!("kind{}", number % LANES)).json("{}");
    let jobs: Vec<NewJob> = (0..jobs).map(job).collect();
    for batch in jobs.chunks(10_000) {
        engine.enqueue(Enqueue::each(batch.to_vec())).await.expect("enqueues");
    }
}

/// Pages that a claim reads.
async fn pages(
    client: &tokio_postgres::Client,
    claim: &str,
    session: &SessionId,
    claim_no: u64,
    ranges: &str,
) -> i64 {
    let tokens = vec!["gen_random_uuid()"; BATCH as usize].join(", ");
    let sql = format!(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE {claim}('{session}', {claim_no},
            'default', NULL, {BATCH}, ARRAY[{tokens}],
            NULL, NULL, {ranges}, false)"
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
async fn a_claim_reads_as_many_pages_with_many_waiting_as_with_few() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let (client, connection) =
        tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    let claim = claim_statement(&schema.name).expect("a name");
    client.batch_execute(&format!("{PLANS} PREPARE claim AS {claim}")).await.expect("prepares");
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    fill(&engine, FEW).await;
    let few = pages(&client, "claim", &session, 1, EVERYWHERE).await;
    fill(&engine, MANY).await;
    let many = pages(&client, "claim", &session, 2, EVERYWHERE).await;
    // A deeper index has one more level; a scan would read thousands of pages.
    assert!(many < 2 * few, "{many} pages with {MANY} waiting, {few} with {FEW}");
    assert_eq!(engine.check(false).await.expect("checks").value.findings, []);
}

#[tokio::test]
async fn a_claim_from_the_watermark_skips_no_dead_rows() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let url = url();
    let connect = || tokio_postgres::connect(&url, tokio_postgres::NoTls);
    let (client, connection) = connect().await.expect("connects");
    tokio::spawn(connection);
    let (other, connection) = connect().await.expect("connects");
    tokio::spawn(connection);
    let claim = claim_statement(&schema.name).expect("a name");
    client.batch_execute(&format!("{PLANS} PREPARE claim AS {claim}")).await.expect("prepares");
    // Dead rows cannot be vacuumed from now on.
    let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
    other.batch_execute(hold).await.expect("begins");
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    let one_kind = |jobs: usize| (0..jobs).map(|_| NewJob::new("kind0").json("{}"));
    for _ in 0..4 {
        engine.enqueue(Enqueue::each(one_kind(10_000))).await.expect("enqueues");
    }
    for claim_no in 1..=40 {
        let by = Claimant::Session { session: session.clone(), claim_no };
        let claimed = engine.claim(Claim::new(by, "default", 1_000)).await.expect("claims");
        assert_eq!(claimed.value.jobs.len(), 1_000);
    }
    engine.enqueue(Enqueue::each(one_kind(FEW))).await.expect("enqueues");
    let sql = format!("SELECT max(lane), min(seq) FROM \"{}\".ready", schema.name);
    let begin = client.query_one(&sql, &[]).await.expect("answers");
    let (lane, seq): (i32, i64) = (begin.get(0), begin.get(1));
    let (low, high) = (i64::MIN, i64::MAX);
    let behind = format!("'{{{lane},{lane}}}', '{{{low},0}}', '{{{low},{seq}}}', '{{-1,{high}}}'");
    let knowing = pages(&client, "claim", &session, 101, &behind).await;
    let unknowing = pages(&client, "claim", &session, 102, EVERYWHERE).await;
    // One reads the rows that it takes; the other skips forty thousand dead rows, too.
    assert!(2 * knowing < unknowing, "{knowing} pages, {unknowing} without knowing");
}

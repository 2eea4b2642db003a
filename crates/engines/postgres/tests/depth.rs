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

/// Where a claim looks that knows of no place where nothing is.
const EVERYWHERE: &str = "'{}', '{}', '{}', '{}'";

async fn fill(engine: &dyn Engine, jobs: usize) {
    let job = |number: usize| NewJob::new(format!("kind{}", number % LANES)).json("{}");
    let jobs: Vec<NewJob> = (0..jobs).map(job).collect();
    for batch in jobs.chunks(10_000) {
        engine.enqueue(Enqueue::each(batch.to_vec())).await.expect("enqueues");
    }
}

/// Pages that a claim looks at.
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
            NULL, NULL, {ranges})"
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
    let few = pages(&client, "claim", &session, 1, EVERYWHERE).await;
    fill(&engine, MANY).await;
    let many = pages(&client, "claim", &session, 2, EVERYWHERE).await;
    // A deeper tree has a level more; a scan would look at thousands.
    assert!(many < 2 * few, "{many} pages with {MANY} waiting, {few} with {FEW}");
    assert_eq!(engine.check(false).await.expect("checks").value.findings, []);
}

#[tokio::test]
async fn a_claim_that_knows_where_jobs_begin_passes_by_nothing_that_died_before() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let url = url();
    let connect = || tokio_postgres::connect(&url, tokio_postgres::NoTls);
    let (client, connection) = connect().await.expect("connects");
    tokio::spawn(connection);
    let (other, connection) = connect().await.expect("connects");
    tokio::spawn(connection);
    let claim = include_str!("../sql/claim.sql").replace("{s}", &format!("\"{}\"", schema.name));
    client.batch_execute(&format!("{PLANS} PREPARE claim AS {claim}")).await.expect("prepares");
    // Nothing that dies from now on can be cleared away.
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
    // One looks at what it takes; the other at forty thousand that are gone, too.
    assert!(2 * knowing < unknowing, "{knowing} pages, {unknowing} without knowing");
    // Who comes through a door knows it from whoever came before, if it believes them.
    let claim = claim.replace("--lock ", "");
    client.batch_execute(&format!("PREPARE in_crowd AS {claim}")).await.expect("prepares");
    let anywhere = |trusted_upto: i64| {
        format!("'{{{lane}}}', '{{0}}', '{{{low}}}', '{{{high}}}', '{{{trusted_upto}}}'")
    };
    let first = pages(&client, "in_crowd", &session, 103, &anywhere(high)).await;
    let believing = pages(&client, "in_crowd", &session, 104, &anywhere(high)).await;
    let unbelieving = pages(&client, "in_crowd", &session, 105, &anywhere(low)).await;
    assert!(2 * believing < first.min(unbelieving), "{believing}, {first} and {unbelieving} pages");
}

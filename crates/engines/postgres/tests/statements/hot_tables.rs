//! Costs that the short-lived tables must not have: every job pays for each of their indexes, a vacuum that truncates
//! them locks out all sessions, and after any vacuum all sessions plan their statements again.

use crate::common::{OwnSchema, application, open};
use std::time::Duration;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_postgres::PostgresEngine;

/// Tables that every job passes, or every job of a fair queue, and tables that every transaction inserts into.
const HOT: [&str; 6] = ["ready", "lease", "scheduled", "tally", "turn", "served"];
/// The most indexes one of them may have.
const INDEXES_MAX: i64 = 2;
/// Numbers of jobs below and above the threshold of a vacuum.
const FEW: usize = 50;
const MANY: usize = 3_000;
/// The server counts what died a second late, or two.
const LATE: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[tokio::test]
async fn hot_tables_have_two_indexes_at_most_and_no_vacuum_locks_them() {
    let schema = OwnSchema::new();
    open(&schema).await;
    let client = application().await;
    // The partial index of `lease` has entries only for jobs under limits by group.
    let sql = "SELECT relname::text, \
                   (SELECT count(*) FROM pg_index WHERE indrelid = c.oid AND indpred IS NULL), \
                   coalesce(array_to_string(reloptions, ' '), '') \
               FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
               WHERE nspname = $1 AND relname::text = ANY ($2)";
    let tables = client.query(sql, &[&schema.name, &HOT.as_slice()]).await.expect("answers");
    assert_eq!(tables.len(), HOT.len());
    for table in tables {
        let (name, indexes, options): (String, i64, String) =
            (table.get(0), table.get(1), table.get(2));
        assert!(indexes <= INDEXES_MAX, "{name} has {indexes}");
        assert!(options.contains("vacuum_truncate=off"), "{name}: {options}");
    }
}

/// Takes this many jobs out of `ready`.
async fn take(engine: &PostgresEngine, session: &SessionId, jobs: usize) {
    let batch = (0..jobs).map(|_| NewJob::new("hello"));
    engine.enqueue(Enqueue::each(batch)).await.expect("enqueues");
    for claim_no in 0.. {
        let by = Claimant::Session { session: session.clone(), claim_no: jobs as u64 + claim_no };
        let claimed = engine.claim(Claim::new(by, "default", 1_000)).await.expect("claims");
        if claimed.value.jobs.is_empty() {
            return;
        }
    }
}

/// Compacts for so long, or until `ready` has been vacuumed; whether it has.
async fn vacuumed(engine: &PostgresEngine, schema: &OwnSchema, within: Duration) -> bool {
    let client = application().await;
    let sql = format!("SELECT pg_stat_get_vacuum_count('\"{}\".ready'::regclass)", schema.name);
    let compacting = async {
        loop {
            let compact = MaintainRequest::new(Work::Compact, 1_000);
            engine.maintain(compact).await.expect("compacts");
            if client.query_one(&sql, &[]).await.expect("answers").get::<_, i64>(0) > 0 {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(within, compacting).await.is_ok()
}

#[tokio::test]
async fn only_tables_with_many_dead_rows_are_vacuumed() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    take(&engine, &session, FEW).await;
    assert!(!vacuumed(&engine, &schema, LATE).await, "for {FEW} dead rows");
    take(&engine, &session, MANY).await;
    assert!(vacuumed(&engine, &schema, LONG).await, "not even for {MANY}");
}

//! Fast paths against the executor: the same stories must leave the same rows.

use crate::common::{OwnSchema, application, url};
use std::sync::Arc;
use windlass_core::engine::FastPaths;
use windlass_core::time::ManualClock;
use windlass_kit::{START, SteadyRandom, Subject};
use windlass_postgres::{Options, PostgresEngine};

/// Number of stories in an ordinary test run, and in a long one.
const CASES: u32 = 6;
const CASES_LONG: u32 = 400;

/// Places, counts and keys. Numbers of entries differ by nature, as a transaction takes one of them and fast paths take
/// fewer; only their order counts.
const ROWS: &str = "
    SELECT concat_ws(' ', 'ready', l.queue, l.kind, r.rank, r.flags, r.id)
        FROM {s}.ready r JOIN {s}.lane l ON l.id = r.lane
    UNION ALL SELECT concat_ws(' ', 'ready order', l.queue, l.kind, array_agg(r.id ORDER BY r.rank, r.seq)::text)
        FROM {s}.ready r JOIN {s}.lane l ON l.id = r.lane GROUP BY l.queue, l.kind
    UNION ALL SELECT concat_ws(' ', 'lease', id, started_at, attempt, flags, replace(token::text, '-', ''), session)
        FROM {s}.lease
    UNION ALL SELECT concat_ws(' ', 'lease order', array_agg(id ORDER BY seq)::text) FROM {s}.lease
    UNION ALL SELECT concat_ws(' ', 'scheduled', run_at, array_agg(id ORDER BY seq)::text)
        FROM {s}.scheduled GROUP BY run_at
    UNION ALL SELECT concat_ws(' ', 'aside', id, state) FROM {s}.aside
    UNION ALL SELECT concat_ws(' ', 'finished', id, at, state, own) FROM {s}.finished
    UNION ALL SELECT concat_ws(' ', 'key holder', queue, key, id) FROM {s}.key_holder
    UNION ALL SELECT concat_ws(' ', 'key line', queue, key, array_agg(id ORDER BY seq)::text)
        FROM {s}.key_line GROUP BY queue, key
    UNION ALL SELECT concat_ws(' ', 'unique key', queue, kind, key, id, until) FROM {s}.unique_key
    UNION ALL SELECT concat_ws(' ', 'deadline', work, at, id) FROM {s}.deadline WHERE work = 1
    UNION ALL SELECT concat_ws(' ', 'tally', l.queue, l.kind, sum(scheduled), sum(blocked), sum(available),
            sum(running), sum(paused), sum(completed), sum(dead), sum(cancelled), sum(expired))
        FROM {s}.tally t JOIN {s}.lane l ON l.id = t.lane GROUP BY l.queue, l.kind
    ORDER BY 1";

/// A fresh engine in a schema of its own, with a switch.
async fn fresh() -> Subject {
    fresh_with("").await
}

/// The same, after this SQL was run in the schema.
pub(crate) async fn fresh_with(sql: &str) -> Subject {
    let schema = OwnSchema::new();
    let (clock, switch) = (Arc::new(ManualClock::at(START)), FastPaths::default());
    let options = Options::new(url()).schema(&schema.name).connections(1);
    let options = options.test_clock(clock.clone()).test_fast_paths(switch.clone());
    let engine = PostgresEngine::connect(options.random(Arc::new(SteadyRandom::default()))).await;
    let client = Arc::new(application().await);
    let quoted = format!("\"{}\"", schema.name);
    client.batch_execute(&sql.replace("{s}", &quoted)).await.expect("runs");
    let rows = ROWS.replace("{s}", &quoted);
    let inspect = move || {
        let (client, rows) = (Arc::clone(&client), rows.clone());
        let lines = async move {
            let rows = client.query(&rows, &[]).await.expect("reads");
            rows.iter().map(|row| row.get(0)).collect()
        };
        Box::pin(lines) as std::pin::Pin<Box<dyn Future<Output = Vec<String>> + Send>>
    };
    Subject::new(Arc::new(engine.expect("connects")), clock)
        .switched_by(switch)
        .inspected_by(Box::new(inspect))
        .guarded(schema)
}

windlass_kit::differential!(CASES, CASES_LONG, fresh);

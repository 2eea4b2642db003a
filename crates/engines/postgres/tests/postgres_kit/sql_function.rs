//! The SQL function `enqueue` marks jobs as plain by itself. It must decide as core does, whatever its parameters.

use crate::common::{OwnSchema, application, open};
use std::collections::BTreeSet;
use windlass_core::JobId;
use windlass_core::engine::{Admin as _, Get};
use windlass_core::model::{PartSet, State};

/// The bit of `ready.flags` that marks a job that completes plainly.
const PLAIN: i16 = 2;

/// Every parameter of the function, with the values to try; an empty one leaves it out.
const PARAMETERS: [(&str, &[&str]); 13] = [
    ("kind", &["'mail'"]),
    ("payload", &["", "'{}'"]),
    ("queue", &["", "'other'"]),
    ("priority", &["", "-3"]),
    ("delay_ms", &["", "60000"]),
    ("max_attempts", &["", "1"]),
    ("unique_key", &["", "gen_random_uuid()::text"]),
    ("tenant", &["", "'acme'"]),
    ("run_at", &["", "now() - interval '1 minute'"]),
    ("timeout_ms", &["", "1000"]),
    ("tags", &["", "ARRAY['a']"]),
    ("trace", &["", "'00-abc-def-01'"]),
    ("payload_bytes", &["", "'\\x00'"]),
];

/// Values that the function refuses together.
const REFUSED: [[&str; 2]; 2] = [["payload", "payload_bytes"], ["delay_ms", "run_at"]];

/// Every call that the function accepts.
fn calls() -> Vec<String> {
    let mut calls: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for (name, values) in PARAMETERS {
        let with = |call: &Vec<(&'static str, &'static str)>, value: &'static str| {
            let mut call = call.clone();
            call.extend((!value.is_empty()).then_some((name, value)));
            call
        };
        calls = calls.iter().flat_map(|call| values.iter().map(|v| with(call, v))).collect();
    }
    let has = |call: &[(&str, &str)], name: &str| call.iter().any(|(given, _)| *given == name);
    calls.retain(|call| !REFUSED.iter().any(|both| both.iter().all(|name| has(call, name))));
    let text = |call: Vec<(&str, &str)>| {
        let given = call.into_iter().map(|(name, value)| format!("{name} => {value}"));
        given.collect::<Vec<_>>().join(", ")
    };
    calls.into_iter().map(text).collect()
}

#[tokio::test]
async fn the_sql_function_calls_a_job_plain_exactly_if_core_does() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    let names = "SELECT proargnames FROM pg_proc
        WHERE pronamespace = $1::text::regnamespace AND proname = 'enqueue'";
    let names: Vec<String> = client.query_one(names, &[&schema.name]).await.unwrap().get(0);
    assert_eq!(names, PARAMETERS.map(|(name, _)| name), "every parameter is tried");
    let calls = calls();
    assert_eq!(calls.len(), 3 * 3 * 256);
    let each = calls.iter().map(|call| format!("({}.enqueue({call}))", schema.name));
    let sql = format!(
        "WITH w AS MATERIALIZED (SELECT * FROM (VALUES {}) w (id)) SELECT id FROM w",
        each.collect::<Vec<_>>().join(", ")
    );
    let ids: Vec<uuid::Uuid> =
        client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let flags = format!(
        "SELECT r.flags FROM unnest($1::uuid[]) WITH ORDINALITY w (id, n)
        LEFT JOIN {}.ready r ON r.id = w.id ORDER BY w.n",
        schema.name
    );
    let flags = client.query(&flags, &[&ids]).await.unwrap();
    let mut seen = BTreeSet::new();
    for ((ids, flags), calls) in ids.chunks(500).zip(flags.chunks(500)).zip(calls.chunks(500)) {
        let get = Get::new(ids.iter().map(|id| JobId::from_bytes(id.into_bytes())));
        let jobs = engine.get(get.parts(PartSet::NONE)).await.unwrap().value;
        for ((job, row), call) in jobs.into_iter().zip(flags).zip(calls) {
            let job = job.unwrap();
            let expected = match job.state {
                State::Available => Some(if job.completes_plainly() { PLAIN } else { 0 }),
                _ => None,
            };
            assert_eq!(row.get::<_, Option<i16>>(0), expected, "{call}");
            seen.insert(expected);
        }
    }
    assert_eq!(Vec::from_iter(seen), [None, Some(0), Some(PLAIN)], "every answer occurs");
}

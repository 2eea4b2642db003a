//! The SQL function `enqueue` marks jobs as plain by itself. It must decide as core does, whatever its parameters.

use crate::common::{OwnSchema, application, open};
use std::collections::BTreeSet;
use windlass_core::JobId;
use windlass_core::engine::{Admin as _, Get};
use windlass_core::model::{PartSet, State};

/// The bit of `ready.flags` that marks a job that completes plainly.
const PLAIN: i16 = 2;
/// The bit that marks a job whose start takes another number of tokens than one.
const COSTLY: i16 = 8;

/// The parameters of the function that are tried in every combination; an empty value leaves one out.
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

/// The other parameters, each tried with a unique key and without, now and later.
const OTHERS: [(&str, &str); 16] = [
    ("unique_scope", "'kind'"),
    ("unique_until", "'removed'"),
    ("unique_window_ms", "60000"),
    ("on_conflict", "'replace'"),
    ("id", "NEW_ID"),
    ("key", "gen_random_uuid()::text"),
    ("parent", "gen_random_uuid()"),
    ("backoff", "'{\"fixed\": {\"delay_ms\": 5}}'"),
    ("max_crashes", "7"),
    ("max_wait_ms", "60000"),
    ("retention", "'{\"finished_ms\": 5}'"),
    ("checkpoint_bytes", "'\\x00'"),
    ("blob_bytes", "'\\x00'"),
    ("metadata_bytes", "'\\x00'"),
    ("job_group", "'acme'"),
    ("cost", "3"),
];
/// The first of them need a unique key.
const OF_UNIQUE: usize = 4;

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
    let mut calls: Vec<String> = calls.into_iter().map(text).collect();
    for (at, (name, value)) in OTHERS.into_iter().enumerate() {
        for (unique, delay) in [(false, false), (false, true), (true, false), (true, true)] {
            if at < OF_UNIQUE && !unique {
                continue;
            }
            let unique = if unique { ", unique_key => gen_random_uuid()::text" } else { "" };
            let delay = if delay { ", delay_ms => 60000" } else { "" };
            calls.push(format!("kind => 'mail', {name} => {value}{unique}{delay}"));
        }
    }
    calls
}

#[tokio::test]
async fn the_sql_function_calls_a_job_plain_exactly_if_core_does() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    let names = "SELECT proargnames FROM pg_proc
        WHERE pronamespace = $1::text::regnamespace AND proname = 'enqueue'";
    let names: Vec<String> = client.query_one(names, &[&schema.name]).await.unwrap().get(0);
    let tried = PARAMETERS.map(|(name, _)| name).into_iter().chain(OTHERS.map(|(name, _)| name));
    assert_eq!(names, Vec::from_iter(tried), "every parameter is tried");
    let calls = calls();
    assert_eq!(calls.len(), 3 * 3 * 256 + 2 * 4 + 4 * 12);
    let new_id = format!("{}.new_id((extract(epoch FROM now()) * 1000)::bigint)", schema.name);
    let each = calls.iter().map(|call| call.replace("NEW_ID", &new_id));
    let each = each.map(|call| format!("({}.enqueue({call}))", schema.name));
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
                State::Available => {
                    let plain = if job.completes_plainly(false) { PLAIN } else { 0 };
                    let costly = if job.header.cost == 1 { 0 } else { COSTLY };
                    Some(plain | costly)
                }
                _ => None,
            };
            assert_eq!(row.get::<_, Option<i16>>(0), expected, "{call}");
            seen.insert(expected);
        }
    }
    let every = [None, Some(0), Some(PLAIN), Some(COSTLY), Some(PLAIN | COSTLY)];
    assert_eq!(Vec::from_iter(seen), every, "every answer occurs");
}

//! Indexes on fields of payloads and metadata.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use crate::common::{OwnSchema, application, open, url};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::limits::LIST_EXAMINED_MAX;
use windlass_core::model::{NewJob, Part, PartEdit, State};
use windlass_postgres::{Options, PostgresEngine, index};

async fn enqueue(engine: &PostgresEngine, jobs: Vec<NewJob>) -> Vec<JobId> {
    let mut ids = Vec::new();
    for jobs in jobs.chunks(5_000) {
        let stored = engine.enqueue(Enqueue::each(jobs.iter().cloned())).await.unwrap().value;
        ids.extend(stored.into_iter().map(|it| it.unwrap().id));
    }
    ids
}

/// Large enough that PostgreSQL would build an index on 20,000 of them in parallel.
fn customer(n: usize) -> NewJob {
    let filler = "x".repeat(800);
    NewJob::new("send")
        .json(format!(r#"{{"customer": {n}, "at": [1, {n}], "filler": "{filler}"}}"#))
}

fn filter(field: &str, value: &str) -> Filter {
    Filter::default().field(field.parse().unwrap(), value)
}

async fn first(engine: &PostgresEngine, filter: Filter) -> Page<windlass_core::model::Job> {
    engine.list(List::new(filter).limit(10)).await.unwrap().value
}

fn ids(page: &Page<windlass_core::model::Job>) -> Vec<JobId> {
    page.rows.iter().map(|job| job.header.id).collect()
}

#[tokio::test]
async fn a_search_for_an_indexed_field_reads_only_its_jobs() {
    let schema = OwnSchema::new();
    let (engine, server) = (open(&schema).await, application().await);
    let many = 2 * LIST_EXAMINED_MAX;
    let rare = enqueue(&engine, vec![customer(7)]).await[0];
    enqueue(&engine, (0..many).map(|n| customer(1_000 + n)).collect()).await;
    let page = first(&engine, filter("payload.customer", "7")).await;
    assert!(page.cut_short && page.rows.is_empty(), "without an index it needs several pages");
    let options = Options::new(url()).schema(&schema.name);
    for _ in 0..2 {
        index(&options, &"payload.customer".parse().unwrap()).await.expect("built, and again");
    }
    index(&options, &"payload.at.1".parse().unwrap()).await.unwrap();
    // Names that need quoting, and that look like placeholders of our SQL texts.
    for field in ["metadata.it's", "payload.dead", "payload.s"] {
        index(&options, &field.parse().unwrap()).await.unwrap();
        assert!(ids(&first(&engine, filter(field, "7")).await).is_empty(), "{field}");
    }
    for field in ["payload.customer", "payload.at.1"] {
        let page = first(&engine, filter(field, "7")).await;
        assert_eq!((ids(&page), page.examined, page.next), (vec![rare], 1, None), "{field}");
    }
    let mut available = filter("payload.customer", "7");
    available.state = Some(State::Available);
    assert_eq!(ids(&first(&engine, available).await), [rare]);
    // The same statement that the engine runs.
    let sql = format!("SELECT {}.field_query(0::smallint, '{{customer}}', '7', 100)", schema.name);
    let sql: String = server.query_one(&sql, &[]).await.unwrap().get(0);
    server.batch_execute(&format!("ANALYZE {}.job", schema.name)).await.unwrap();
    let plan = server.query(&format!("EXPLAIN {sql}"), &[]).await.unwrap();
    let plan: String = plan.iter().map(|row| row.get::<_, String>(0) + "\n").collect();
    // A partition that is always empty is scanned at no cost.
    let scans = |line: &str| line.contains("Seq Scan") && !line.contains("job_none");
    assert!(plan.contains("_job_default") && !plan.lines().any(scans), "{plan}");
}

#[tokio::test]
async fn an_index_never_changes_what_a_search_finds() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let payloads = [
        r#"{"c": 42}"#,
        r#"{"c": "42"}"#,
        r#"{"c": 1, "c": 42}"#,
        r#"{"c": 42, "c": 1}"#,
        r#"{"c": null}"#,
        r#"{"c": "null"}"#,
        r#"{"c": {"d": 42}, "e": "\u0000"}"#,
        r#"{"c": "\u0000"}"#,
        r#"{"c": 42, "e": "\u0000"}"#,
        r#"{"c": 1e400000, "d": 42}"#,
        r#" {"c": 42"#,
        "c=42",
        "",
    ];
    let mut jobs: Vec<NewJob> = payloads.map(|it| NewJob::new("send").json(it)).into();
    let long = "é".repeat(150);
    jobs.push(NewJob::new("send").json(format!(r#"{{"c": "{long}"}}"#)));
    jobs.push(NewJob::new("send").json(format!(r#"{{"c": "{long}x"}}"#)));
    jobs.push(NewJob::new("send").payload(vec![b'{', 0xff, b'}']));
    jobs.push(NewJob::new("send"));
    let mut tagged = NewJob::new("send");
    tagged.parts.metadata = Some(Part::new(r#"{"c": 42}"#));
    jobs.push(tagged);
    let stored = enqueue(&engine, jobs).await;
    // An edited payload is stored elsewhere; the first one no longer counts.
    let mut edits = Edits::default();
    edits.payload = PartEdit::Set(Part::new(r#"{"c": "edited"}"#));
    let changes = [Change::Kill, Change::Replay(Box::new(edits))];
    engine.change(changes.map(|it| ChangeItem::new(stored[0], it)).into()).await.unwrap();
    let values = ["42", "null", "1", "edited", "\u{0}", "1e400000", "{\"d\": 42}", &long, ""];
    let mut found = Vec::new();
    let search = async || {
        let mut all = Vec::new();
        for field in ["payload.c", "payload.c.d", "payload.d", "metadata.c"] {
            for value in values {
                for state in [None, Some(State::Available)] {
                    let mut filter = filter(field, value);
                    filter.state = state;
                    all.push((field, value, state, ids(&first(&engine, filter).await)));
                }
            }
        }
        all
    };
    for round in ["without", "with"] {
        if round == "with" {
            let options = Options::new(url()).schema(&schema.name);
            for field in ["payload.c", "payload.c.d", "payload.d", "metadata.c"] {
                index(&options, &field.parse().unwrap()).await.unwrap();
            }
        }
        found.push(search().await);
    }
    assert_eq!(found[0], found[1]);
    assert!(found[0].iter().filter(|(.., ids)| !ids.is_empty()).count() > 8, "{found:?}");
}

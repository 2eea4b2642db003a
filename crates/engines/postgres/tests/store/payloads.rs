//! The configured payload limit of a schema, which its processes and SQL functions share.

use crate::common::{OwnSchema, application, open, url};
use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_core::engine::Jobs as _;
use windlass_core::limits::PAYLOAD_BYTES_MAX;
use windlass_core::time::ManualClock;
use windlass_kit::payloads::{self, LARGE_BYTES};
use windlass_kit::{Rig, START, Subject};
use windlass_postgres::{Options, PostgresEngine};

fn options(schema: &OwnSchema, clock: &Arc<ManualClock>) -> Options {
    Options::new(url()).schema(&schema.name).test_clock(clock.clone())
}

#[tokio::test]
async fn a_payload_of_10_mib_is_stored_if_configured_and_refused_if_not() {
    let (schema, clock) = (OwnSchema::new(), Arc::new(ManualClock::at(START)));
    let large = options(&schema, &clock).payload_bytes_max(LARGE_BYTES);
    let large = PostgresEngine::connect(large).await.unwrap();
    let rig = Rig::new(Subject::new(Arc::new(large), clock.clone()));
    payloads::payloads_up_to_the_configured_limit(rig).await;
    let schema = OwnSchema::new();
    let usual = PostgresEngine::connect(options(&schema, &clock)).await.unwrap();
    let rig = Rig::new(Subject::new(Arc::new(usual), clock));
    payloads::large_payloads_are_refused_by_default(rig).await;
}

#[tokio::test]
async fn processes_and_sql_functions_share_the_limit_of_the_schema() {
    let (schema, clock) = (OwnSchema::new(), Arc::new(ManualClock::at(Timestamp::EPOCH)));
    let client = application().await;
    let enqueue = |bytes: usize| {
        let sql = format!(
            "SELECT {}.enqueue(kind => 'k', payload_bytes => convert_to(repeat('x', {bytes}), 'UTF8'))",
            schema.name
        );
        let client = &client;
        async move { client.batch_execute(&sql).await }
    };
    let first = open(&schema).await;
    assert_eq!(first.capabilities().payload_bytes_max, 65_536);
    enqueue(65_536).await.unwrap();
    let refused = enqueue(65_537).await.unwrap_err();
    let message = refused.as_db_error().unwrap().message().to_owned();
    assert!(message.contains("65537 bytes") && message.contains("65536"), "{message}");
    PostgresEngine::connect(options(&schema, &clock).payload_bytes_max(LARGE_BYTES)).await.unwrap();
    enqueue(LARGE_BYTES).await.unwrap();
    assert_eq!(open(&schema).await.capabilities().payload_bytes_max, LARGE_BYTES);
}

#[tokio::test]
async fn a_limit_above_16_mib_is_refused_with_the_limit() {
    let (schema, clock) = (OwnSchema::new(), Arc::new(ManualClock::at(START)));
    let options = options(&schema, &clock).payload_bytes_max(PAYLOAD_BYTES_MAX + 1);
    let error = PostgresEngine::connect(options).await.unwrap_err();
    assert_eq!(error.field(), Some("payload_bytes_max"));
    assert!(error.to_string().contains("16777216"), "{error}");
}

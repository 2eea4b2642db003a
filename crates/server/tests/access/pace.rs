//! Rate limits with keys: each key has its own limit.

use crate::support::Site;
use serde_json::json;
use std::sync::Arc;
use windlass_memory::MemoryEngine;
use windlass_server::{Options, Server};
use windlass_services::Keys;

#[tokio::test]
async fn keys_from_one_address_have_allowances_of_their_own() {
    let engine = Arc::new(MemoryEngine::new());
    let options = Options::new(([127, 0, 0, 1], 0).into()).services(None);
    let server = Server::bind(options.jobs_per_second(Some(2))).await.unwrap();
    let server = server.serve(engine.clone()).unwrap();
    let site = Site { server, keys: Keys::new(engine) };
    let (first, second) = (site.key("enqueue:*").await, site.key("admin").await);
    let two = || json!({"jobs": [{"kind": "k"}, {"kind": "k"}]});
    assert_eq!(site.post(&first, "/v1/jobs/batch", two()).await.status, 200);
    let refused = site.post(&first, "/v1/jobs/batch", two()).await;
    assert_eq!((refused.status, refused.body["who"].as_str()), (429, Some("enqueue--")));
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(site.post(&second, "/v1/jobs/batch", two()).await.status, 200);
}

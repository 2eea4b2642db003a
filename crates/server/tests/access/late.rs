//! Authentication while the store is not open yet, or stops answering later.

use crate::support::{DEADLINE, Site};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass_core::Error;
use windlass_core::engine::*;
use windlass_memory::MemoryEngine;
use windlass_server::{Exporter, Options, Server};
use windlass_services::{Keys, NewKey};

#[tokio::test]
async fn a_store_that_comes_late_is_locked_from_its_first_answer_on() {
    let engine = Arc::new(MemoryEngine::new());
    let keys = Keys::new(engine.clone());
    let (_, secret) = keys.create(NewKey::new("k", "admin".parse().unwrap())).await.unwrap();
    let secret = secret.unwrap().expose().to_owned();
    let (is_there, found) = (Arc::new(AtomicBool::new(false)), engine.clone());
    let there = is_there.clone();
    let open = move || {
        let (there, engine) = (there.clone(), found.clone());
        async move {
            match there.load(Ordering::Relaxed) {
                true => Ok::<Arc<dyn Engine>, Error>(engine),
                false => {
                    let (store, reason) = ("the store".to_owned(), "not yet".to_owned());
                    Err(Error::Unavailable { store, reason })
                }
            }
        }
    };
    let options = Options::new(([127, 0, 0, 1], 0).into()).services(None);
    let server = Server::bind(options).await.unwrap().serve_once_open(open).unwrap();
    let site = Site { server, keys };
    let strange = async || site.send("GET", "/v1/jobs", &[], "").await.status;
    assert_eq!(strange().await, 503);
    assert_eq!(site.get(&secret, "/v1/jobs").await.status, 503);

    is_there.store(true, Ordering::Relaxed);
    let seen = tokio::time::timeout(DEADLINE, async {
        loop {
            match strange().await {
                503 => tokio::task::yield_now().await,
                status => return status,
            }
        }
    });
    assert_eq!(seen.await.expect("the store is noticed"), 401, "never open in between");
    assert_eq!(site.post(&secret, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
    assert_eq!(site.send("GET", "/v1/audit", &[], "").await.status, 401);
}

/// A store that can stop answering.
struct Unreliable {
    engine: MemoryEngine,
    is_gone: Arc<AtomicBool>,
}

impl Unreliable {
    fn away(&self) -> Option<Error> {
        let away = || Error::Unavailable { store: "the store".into(), reason: "gone".into() };
        self.is_gone.load(Ordering::Relaxed).then(away)
    }
}

impl Jobs for Unreliable {
    windlass_core::pass_on!(
        engine: capabilities, enqueue, open_session, heartbeat, close_session, take, claim, wait, settle, update
    );
}

impl Admin for Unreliable {
    windlass_core::pass_on!(engine: get, list, change, import, stats, limits, why, sessions, settings, removed, events, configure);

    fn health(&self) -> Answer<'_, ()> {
        match self.away() {
            Some(error) => Box::pin(async { Err(error) }),
            None => self.engine.health(),
        }
    }

    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        match self.away() {
            Some(error) => Box::pin(async { Err(error) }),
            None => self.engine.records(batch),
        }
    }
}

impl Maintain for Unreliable {
    windlass_core::pass_on!(engine: maintain, check);
}

#[tokio::test]
async fn metrics_are_shown_by_the_last_known_keys_while_the_store_is_away() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let engine = Arc::new(Unreliable { engine: MemoryEngine::new(), is_gone: is_gone.clone() });
    let keys = Keys::new(engine.clone());
    let (_, secret) = keys.create(NewKey::new("k", "view".parse().unwrap())).await.unwrap();
    let secret = secret.unwrap().expose().to_owned();
    let options = Options::new(([127, 0, 0, 1], 0).into()).services(None);
    let options = options.exporter(Exporter::new(|| "some 1\n".to_owned()));
    let server = Server::bind(options).await.unwrap().serve(engine).unwrap();
    let site = Site { server, keys };
    assert_eq!(site.get(&secret, "/v1/queues").await.status, 200);

    is_gone.store(true, Ordering::Relaxed);
    // This route needs nothing from the store except its keys.
    let unknown = tokio::time::timeout(DEADLINE, async {
        while site.get(&secret, "/v1/capabilities").await.status != 503 {}
    });
    unknown.await.expect("the keys are out of date");
    let metrics = site.get(&secret, "/metrics").await;
    assert_eq!((metrics.status, &*metrics.text), (200, "some 1\n"), "{metrics:?}");
    assert_eq!(site.send("GET", "/metrics", &[], "").await.status, 401);
}

#[tokio::test]
async fn strangers_learn_that_the_store_is_away_and_not_where_it_is_or_what_it_says() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let engine = Arc::new(Unreliable { engine: MemoryEngine::new(), is_gone: is_gone.clone() });
    let keys = Keys::new(engine.clone());
    let options =
        Options::new(([127, 0, 0, 1], 0).into()).services(None).store("postgres://db.internal");
    let server = Server::bind(options).await.unwrap().serve(engine).unwrap();
    let site = Site { server, keys };
    // Without keys, every request has admin permission.
    assert!(site.send("GET", "/healthz", &[], "").await.text.contains("db.internal"));
    let [viewer, producer] = [site.key("view").await, site.key("enqueue:*").await];
    let locked = async { while site.send("GET", "/v1/jobs", &[], "").await.status != 401 {} };
    tokio::time::timeout(DEADLINE, locked).await.expect("locked");
    let reported = async |key: &str, path: &str| site.get(key, path).await.text;
    for path in ["/healthz", "/readyz"] {
        assert!(reported(&viewer, path).await.contains("db.internal"), "{path}");
        for stranger in ["wl_wrong", &producer] {
            let text = reported(stranger, path).await;
            assert!(text.contains(r#""up":true"#) && !text.contains("db.internal"), "{text}");
        }
    }

    is_gone.store(true, Ordering::Relaxed);
    let noticed =
        async { while !reported("wl_wrong", "/healthz").await.contains(r#""up":false"#) {} };
    tokio::time::timeout(DEADLINE, noticed).await.expect("it is noticed");
    let [alive, ready] = [reported(&viewer, "/healthz").await, reported(&viewer, "/readyz").await];
    assert!([alive, ready].iter().all(|it| it.contains("db.internal") && it.contains("gone")));
    let away = async { while site.get(&producer, "/v1/capabilities").await.status != 503 {} };
    tokio::time::timeout(DEADLINE, away).await.expect("the keys are out of date");
    for path in ["/healthz", "/readyz", "/v1/jobs", "/v1/capabilities", "/metrics", "/"] {
        for stranger in ["wl_wrong", &producer] {
            let text = reported(stranger, path).await;
            assert!(!text.contains("db.internal") && !text.contains("gone"), "{path}: {text}");
        }
    }
}

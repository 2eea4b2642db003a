//! Keys at bad moments: processes that die between two operations, and certificates that fit several keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use windlass_core::engine::*;
use windlass_core::random::Seeded;
use windlass_core::time::{DAY_MS, ManualClock};
use windlass_core::{Error, Timestamp, pass_on};
use windlass_memory::MemoryEngine;
use windlass_services::{Denied, KeyRing, Keys, NewKey};

/// The store of a process that dies after some operations on records: those before are done, and no other.
struct DyingStore {
    engine: Arc<MemoryEngine>,
    left: AtomicUsize,
}

impl Jobs for DyingStore {
    pass_on!(engine: capabilities, enqueue, open_session, heartbeat, close_session, take, claim, wait, settle, update);
}

impl Admin for DyingStore {
    pass_on!(engine: get, list, stats, limits, why, sessions, settings, removed, events, import, health, change, configure);

    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        Box::pin(async move {
            let (mut stamp, mut replies) = (self.engine.health().await?, Vec::new());
            for op in batch {
                let left = self
                    .left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                left.map_err(|_| Error::Unavailable {
                    store: "it".into(),
                    reason: "the process is dead".into(),
                })?;
                let mut reply = self.engine.records(vec![op]).await?;
                replies.append(&mut reply.value);
                stamp = reply.map(|_| ());
            }
            Ok(stamp.map(|()| replies))
        })
    }
}

impl Maintain for DyingStore {
    pass_on!(engine: maintain, check);
}

fn viewer(name: &str) -> NewKey {
    NewKey::new(name, "view".parse().expect("a permission"))
}

/// A store all of whose keys have been worth nothing for long: the next new key removes them.
async fn with_old_keys() -> Arc<MemoryEngine> {
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_000)));
    let engine = Arc::new(MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(1))));
    let keys = Keys::new(engine.clone());
    let (old, _) = keys.create(viewer("old")).await.expect("a key");
    keys.create(viewer("brief").expires(Duration::from_millis(1))).await.expect("a key");
    keys.revoke(&old.id).await.expect("revoked");
    clock.advance(100 * DAY_MS);
    engine
}

#[tokio::test]
async fn a_crash_while_a_key_is_made_never_opens_a_store_that_has_keys() {
    for operations in 0.. {
        let engine = with_old_keys().await;
        let left = AtomicUsize::new(operations);
        let dying = DyingStore { engine: engine.clone(), left };
        let created = Keys::new(Arc::new(dying)).create(viewer("new")).await;
        let ring = KeyRing::read(&*engine, None).await.unwrap();
        assert!(!ring.is_empty(), "open after {operations} operations: {created:?}");
        if created.is_ok() && operations > 20 {
            let names = Keys::new(engine).list().await.unwrap().value;
            assert_eq!(names.iter().map(|key| &*key.name).collect::<Vec<_>>(), ["new"]);
            return;
        }
    }
}

#[tokio::test]
async fn a_store_whose_keys_are_deleted_by_hand_stays_locked() {
    let engine = Arc::new(MemoryEngine::new());
    let (key, _) = Keys::new(engine.clone()).create(viewer("only")).await.unwrap();
    let delete = RecordOp::Delete { key: format!("key/{}", key.id), expect: Expect::Any };
    engine.records(vec![delete]).await.unwrap();
    assert!(!KeyRing::read(&*engine, None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_certificate_that_fits_several_keys_is_refused() {
    let engine = Arc::new(MemoryEngine::new());
    let keys = Keys::new(engine.clone());
    let (by_name, _) = keys.create(viewer("a").certificate("CN=a")).await.unwrap();
    keys.create(NewKey::new("b", "admin".parse().unwrap()).certificate("DNS:a.local"))
        .await
        .unwrap();
    let both = ["CN=a".to_owned(), "DNS:a.local".to_owned()];
    for _ in 0..20 {
        // Maps have another order each time.
        let ring = KeyRing::read(&*engine, None).await.unwrap();
        assert_eq!(ring.by_certificate(&both, ring.now()), Err(Denied::Ambiguous));
    }
    keys.revoke(&by_name.id).await.unwrap();
    let ring = KeyRing::read(&*engine, None).await.unwrap();
    assert_eq!(ring.by_certificate(&both, ring.now()).unwrap().name(), "b");
    assert_eq!(ring.by_certificate(&both[..1], ring.now()).unwrap_err(), Denied::Revoked);
}

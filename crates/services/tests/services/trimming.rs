//! Dead letters by bytes, on engines of this process.

use crate::dead_bytes::play;
use std::sync::Arc;
use windlass_local::LocalEngine;
use windlass_memory::MemoryEngine;

#[tokio::test]
async fn dead_letters_beyond_the_bytes_of_their_queue_go_the_oldest_first_in_memory() {
    play(Arc::new(MemoryEngine::new())).await;
}

#[tokio::test]
async fn dead_letters_beyond_the_bytes_of_their_queue_go_the_oldest_first_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(windlass_local::Options::new(dir.path())).unwrap();
    play(Arc::new(engine)).await;
}

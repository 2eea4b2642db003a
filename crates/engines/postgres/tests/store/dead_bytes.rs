//! Dead letters by bytes, on this engine.

#[path = "../../../../services/tests/services/dead_bytes.rs"]
mod scene;

use crate::common::{OwnSchema, open};
use std::sync::Arc;

#[tokio::test]
async fn dead_letters_beyond_the_bytes_of_their_queue_go_the_oldest_first() {
    let schema = OwnSchema::new();
    scene::play(Arc::new(open(&schema).await)).await;
}

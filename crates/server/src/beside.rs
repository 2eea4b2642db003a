//! Runs long computations so that they do not delay health probes and heartbeats.

use crate::reply::Refusal;
use tokio::runtime::RuntimeFlavor;
use windlass_core::Error;

/// Batch size from which processing would delay other requests.
const MANY_ITEMS: usize = 500;

/// Runs long work on the blocking thread pool.
pub(crate) async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        let reason = format!("the request could not be read: {error}");
        Refusal::from(Error::Unavailable { store: "this server".to_owned(), reason })
    })
}

/// Runs work on a batch in the current task. For large batches on a multi-threaded runtime, moves
/// other tasks to another thread first.
pub(crate) fn on_items<T>(items: usize, work: impl FnOnce() -> T) -> T {
    let is_long = items >= MANY_ITEMS;
    match tokio::runtime::Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread if is_long => tokio::task::block_in_place(work),
        _ => work(),
    }
}

//! Long work beside short requests: health probes and heartbeats do not wait for somebody's batch.

use crate::reply::Refusal;
use tokio::runtime::RuntimeFlavor;
use windlass_core::Error;

/// Items of a batch that take long enough to hold up other requests.
const MANY_ITEMS: usize = 500;

/// The result of long work, done on a thread for such work.
pub(crate) async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        let reason = format!("the request could not be read: {error}");
        Refusal::from(Error::Unavailable { store: "this server".to_owned(), reason })
    })
}

/// The result of work on so many items, done here. Where they are many, other requests go on meanwhile on
/// another thread, if the runtime has several.
pub(crate) fn on_items<T>(items: usize, work: impl FnOnce() -> T) -> T {
    let is_long = items >= MANY_ITEMS;
    match tokio::runtime::Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread if is_long => tokio::task::block_in_place(work),
        _ => work(),
    }
}

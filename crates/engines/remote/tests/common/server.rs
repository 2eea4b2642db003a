//! A server of one's own, in this process.

use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::Engine;
use windlass_remote::RemoteEngine;
use windlass_server::{Options, Server, ServerHandle};

/// A server on a port of its own; the kit looks after the store, so no services run.
pub(crate) async fn serve(engine: Arc<dyn Engine>) -> (RemoteEngine, ServerHandle) {
    let options = Options::new(([127, 0, 0, 1], 0).into()).services(None);
    let server = Server::bind(options).await.expect("bind");
    let url = format!("http://{}", server.address());
    let handle = server.serve(engine).expect("serve");
    // The kit fills queues on purpose, and wants to know at once.
    let options = windlass_remote::Options::new(url).patience(Duration::ZERO);
    (RemoteEngine::open(options).await.expect("connect"), handle)
}

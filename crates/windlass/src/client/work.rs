//! Workers on the client's store. Knows nothing of how they work.

use super::Client;
use windlass_worker::{Builder, Worker};

/// Engines whose other side hosts the services.
const SERVED_ENGINE: &str = "remote";

impl Client {
    /// Begins to build a worker on this store.
    ///
    /// It hosts the services that keep the store in order (see [`services`](crate::services)): the
    /// workers of one client share one set of them, which starts with the first and ends when the last
    /// has drained. [`services(false)`](Builder::services) leaves that to another process,
    /// [`service_options`](Builder::service_options) changes them. Behind a server, the server hosts
    /// them.
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use windlass::{Ctx, Job, Stop};
    ///
    /// #[derive(Job, Serialize, Deserialize)]
    /// struct Greet {
    ///     name: String,
    /// }
    ///
    /// async fn greet(job: Greet, ctx: Ctx) -> Result<String, Stop> {
    ///     Ok(format!("hello {}, attempt {}", job.name, ctx.attempt()))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// let client = windlass::connect("memory:").await?;
    /// let worker = client.worker().handle(greet).concurrency(10).build()?.start();
    ///
    /// let job = client.enqueue(&Greet { name: "ada".into() }).await?;
    /// let greeting: String = client.wait(job.id).await?.result()?;
    /// assert_eq!(greeting, "hello ada, attempt 1");
    /// worker.drain().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn worker(&self) -> Builder {
        let store = self.inner.store.clone();
        let is_served = store.capabilities().engine == SERVED_ENGINE;
        let builder = Worker::builder(store).services_of(self.inner.services.clone());
        builder.services(!is_served)
    }
}

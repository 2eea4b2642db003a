//! Creates workers on the client's store.

use super::Client;
use windlass_worker::{Builder, Worker};

/// Name of the engine whose server already hosts the services.
const SERVED_ENGINE: &str = "remote";

impl Client {
    /// Returns a builder for a worker on this store.
    ///
    /// The worker hosts the services that maintain the store (see [`services`](crate::services)). All workers
    /// of one client share one set of services, which starts with the first worker and ends when the last one
    /// has drained. [`services(false)`](Builder::services) leaves them to another process, and
    /// [`service_options`](Builder::service_options) configures them. If the client is connected to a server,
    /// the server hosts them.
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use windlass::{Ctx, Job, Stop};
    ///
    /// #[derive(Job, Serialize, Deserialize)]
    /// #[job(output = String)]
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
    /// let job = client.enqueue(Greet { name: "ada".into() }).await?;
    /// assert_eq!(job.wait().await?, "hello ada, attempt 1");
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

//! Enqueueing inside the application's transaction with `tokio_postgres`. Never ends the transaction.

use crate::conn::Conn;
use crate::conn::error::Trouble;
use crate::engine::{PostgresEngine, lanes_of};
use crate::slow::joined::Joined;
use windlass_core::engine::{Enqueue, Enqueued, Item, Stamped};
use windlass_core::model::NewJob;
use windlass_core::{Result, Timestamp};

impl PostgresEngine {
    /// Stores jobs inside the application's transaction, on its own connection to the same database: they exist if it
    /// commits.
    /// Unique keys, ordering keys and limits are respected. An enqueue of the same key elsewhere waits for this
    /// transaction, and fails with [`busy`](windlass_core::Error::Busy) if that takes too long; so does this one if
    /// another transaction holds a key of its jobs. After an error nothing was stored, and the transaction can
    /// continue.
    ///
    /// ```no_run
    /// # async fn order(
    /// #     engine: windlass_postgres::PostgresEngine,
    /// #     client: &mut tokio_postgres::Client,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// use windlass_core::engine::Enqueue;
    /// use windlass_core::model::NewJob;
    ///
    /// let transaction = client.transaction().await?;
    /// transaction.execute("INSERT INTO orders (id) VALUES (42)", &[]).await?;
    /// let job = NewJob::new("send_invoice").json(r#"{"order":42}"#);
    /// engine.enqueue_in(&transaction, Enqueue::each([job])).await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue_in(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        request: Enqueue,
    ) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        request.check()?;
        let shared = &self.inner.shared;
        let lanes = lanes_of(request.jobs.iter());
        // Lanes are created outside of the transaction, which may be rolled back.
        let ours = shared.pool.lend().await.map_err(Trouble::into_error)?;
        let now = shared.test_now().map(Timestamp::as_millis);
        ours.lanes.intern(&ours, &lanes, now).await.map_err(Trouble::into_error)?;
        let theirs = Conn::theirs(transaction, &ours);
        ours.give_back();
        let joined = Joined {
            conn: &theirs,
            context: shared.context(),
            clock: shared.clock.as_ref(),
            lock_timeout_ms: shared.lock_timeout_ms,
            lanes: Vec::new(),
            moved: None,
        };
        let give_ids = |jobs: &mut [NewJob], now| self.give_ids(jobs, now);
        let (now, value) = joined.enqueue(request, &give_ids).await?;
        Ok(Stamped { now, epoch: theirs.epoch.clone(), value })
    }
}

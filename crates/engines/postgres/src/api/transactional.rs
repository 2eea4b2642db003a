//! Enqueueing inside the application's transaction with `tokio_postgres`. Never ends the transaction.

use crate::conn::Conn;
use crate::conn::error::Trouble;
use crate::engine::{PostgresEngine, lanes_of};
use crate::slow::perform::Run;
use windlass_core::engine::{Disposition, Enqueue, Enqueued, Item, Stamped};
use windlass_core::{JobId, Result, Timestamp};
use windlass_workset::Wants;

/// Jobs to store in the application's transaction.
struct Handed {
    request: Enqueue,
    /// Jobs with an id generated here: no stored job can have it.
    fresh: Vec<JobId>,
}

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
        let mut handed = Handed { request, fresh: Vec::new() };
        let all_stored = |answers: &Vec<_>| answers.iter().all(is_stored);
        let (now, mut lowest, mut answers) =
            self.hand_over(&theirs, &mut handed, all_stored).await?;
        let stored: Vec<usize> = (0..answers.len()).filter(|at| is_stored(&answers[*at])).collect();
        if !stored.is_empty() && stored.len() < answers.len() {
            // Stored again without the jobs whose key is held, so that its holder is not blocked.
            handed.request.jobs =
                stored.iter().map(|at| handed.request.jobs[*at].clone()).collect();
            let others;
            (_, lowest, others) = self.hand_over(&theirs, &mut handed, |_| true).await?;
            stored.iter().zip(others).for_each(|(at, answer)| answers[*at] = answer);
        }
        // Sent when the transaction commits.
        let lowest = lowest.map(|seq| format!(", '{seq}'")).unwrap_or_default();
        let wake = format!("NOTIFY {}{lowest}", self.inner.wakeups.channel());
        theirs.command(&wake).await.map_err(Trouble::into_error)?;
        Ok(Stamped { now, epoch: theirs.epoch.clone(), value: answers })
    }

    /// Stores jobs, and rolls back unless the results are to be kept.
    async fn hand_over(
        &self,
        theirs: &Conn<'_>,
        handed: &mut Handed,
        keeps: fn(&Vec<Item<Enqueued>>) -> bool,
    ) -> Result<(Timestamp, Option<i64>, Vec<Item<Enqueued>>)> {
        let wants = Wants::of_enqueue(&handed.request);
        let mut act = |run: &mut Run<'_>, now| {
            handed.fresh.extend(self.give_ids(&mut handed.request.jobs, now));
            run.rows_mut().add_fresh(handed.fresh.iter().copied());
            run.enqueue(handed.request.clone(), now)
        };
        self.inner.shared.perform_in(theirs, &wants, &mut act, keeps).await
    }
}

/// Whether a new job was stored.
fn is_stored(answer: &Item<Enqueued>) -> bool {
    let stored =
        |it: &Enqueued| matches!(it.disposition, Disposition::Created | Disposition::Replaced(_));
    answer.as_ref().is_ok_and(stored)
}

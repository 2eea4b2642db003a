//! Enqueueing with `diesel-async`.

use super::{SqlEnqueue, ids, refusal};
use diesel::result::Error as DieselError;
use diesel::sql_types::Text;
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};
use windlass_core::model::NewJob;
use windlass_core::{Error, JobId, Result};

#[derive(diesel::QueryableByName)]
struct EnqueuedRow {
    #[diesel(sql_type = Text)]
    id: String,
}

impl SqlEnqueue {
    /// Stores jobs in a transaction of `diesel-async`; the id of each, or of the job that holds its unique
    /// key.
    /// An error aborts the transaction, like that of any statement: use a nested transaction to continue after it.
    ///
    /// ```no_run
    /// # async fn order(
    /// #     enqueue: windlass_postgres::SqlEnqueue,
    /// #     connection: &mut diesel_async::AsyncPgConnection,
    /// # ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// use diesel_async::{AsyncConnection, RunQueryDsl};
    /// use windlass_core::model::NewJob;
    ///
    /// connection
    ///     .transaction::<_, Box<dyn std::error::Error + Send + Sync>, _>(async |connection| {
    ///         diesel::sql_query("INSERT INTO orders (id) VALUES (42)").execute(connection).await?;
    ///         let job = NewJob::new("send_invoice").json(r#"{"order":42}"#);
    ///         enqueue.diesel(connection, &[job]).await?;
    ///         Ok(())
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn diesel(&self, on: &mut AsyncPgConnection, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        let parameter = Self::parameter(jobs)?;
        let query = diesel::sql_query(self.statement()).bind::<Text, _>(parameter);
        let rows: Vec<EnqueuedRow> = query.load(on).await.map_err(|error| refused(&error))?;
        ids(rows.into_iter().map(|row| row.id))
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of another project")]
fn refused(error: &DieselError) -> Error {
    match error {
        DieselError::DatabaseError(_, said) => refusal(said.message()),
        other => refusal(&other.to_string()),
    }
}

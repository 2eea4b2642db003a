//! Enqueueing with `sqlx`.

use super::{SqlEnqueue, ids, refusal};
use sqlx::PgConnection;
use windlass_core::model::NewJob;
use windlass_core::{Error, JobId, Result};

impl SqlEnqueue {
    /// Stores jobs in a transaction of `sqlx`; the id of each, or of the job that holds its unique key.
    /// An error aborts the transaction, like that of any statement: use a nested transaction to continue after it.
    ///
    /// ```no_run
    /// # async fn order(
    /// #     enqueue: windlass_postgres::SqlEnqueue,
    /// #     pool: sqlx::PgPool,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// use windlass_core::model::NewJob;
    ///
    /// let mut transaction = pool.begin().await?;
    /// sqlx::query("INSERT INTO orders (id) VALUES (42)").execute(&mut *transaction).await?;
    /// let job = NewJob::new("send_invoice").json(r#"{"order":42}"#);
    /// enqueue.sqlx(&mut transaction, &[job]).await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn sqlx(&self, on: &mut PgConnection, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        let parameter = Self::parameter(jobs)?;
        // Ours: the schema's name is checked and quoted, and everything else is the parameter.
        let statement = sqlx::AssertSqlSafe(self.statement());
        let found = sqlx::query_scalar::<_, String>(statement).bind(parameter).fetch_all(on).await;
        ids(found.map_err(|error| refused(&error))?.into_iter())
    }
}

fn refused(error: &sqlx::Error) -> Error {
    match error.as_database_error() {
        Some(said) => refusal(said.message()),
        None => refusal(&error.to_string()),
    }
}

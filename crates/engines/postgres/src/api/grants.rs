//! Privileges for roles that do not own the schema: the minimum for each kind of user.

use crate::api::schema::Schema;
use crate::conn::error::Trouble;
use crate::conn::options::Options;
use crate::conn::server::Server;
use windlass_core::{Error, Result};

/// The access of a role that does not own the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Execute the functions `enqueue` and `enqueue_many`; read nothing.
    Enqueue,
    /// Everything that the library, workers and servers need, except for migrations.
    Work,
    /// Read the views.
    View,
}

/// Statements for the server's `format`, with the schema as `%1$I` and the role as `%2$I`. A worker's privileges
/// include tables of later versions.
const ENQUEUE: &str = "GRANT USAGE ON SCHEMA %1$I TO %2$I;
GRANT EXECUTE ON FUNCTION %1$I.enqueue, %1$I.enqueue_many TO %2$I";
const WORK: &str = "GRANT USAGE ON SCHEMA %1$I TO %2$I;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %1$I TO %2$I;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA %1$I TO %2$I;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %1$I TO %2$I;
ALTER DEFAULT PRIVILEGES IN SCHEMA %1$I GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %2$I;
ALTER DEFAULT PRIVILEGES IN SCHEMA %1$I GRANT USAGE ON SEQUENCES TO %2$I;
ALTER DEFAULT PRIVILEGES IN SCHEMA %1$I GRANT EXECUTE ON FUNCTIONS TO %2$I";
const VIEW: &str = "GRANT USAGE ON SCHEMA %1$I TO %2$I;
GRANT SELECT ON %1$I.jobs, %1$I.dead_jobs, %1$I.queue_stats, %1$I.removed_hourly TO %2$I";

impl Access {
    const fn statements(self) -> &'static str {
        match self {
            Self::Enqueue => ENQUEUE,
            Self::Work => WORK,
            Self::View => VIEW,
        }
    }
}

/// Grants privileges to an existing role; returns the statements. Must be run by the owner of the schema.
pub async fn grant(options: &Options, access: Access, role: &str) -> Result<String> {
    let schema = Schema::new(&options.schema)?;
    if role.is_empty() || role.contains('\0') {
        return Err(Error::invalid("role", role, "name a role of the server"));
    }
    let granted = async {
        let client = Server::at(&options.url)?.connect().await?;
        let there = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1),
            format($2, $3::text, $1::text)";
        let row = client.query_one(there, &[&role, &access.statements(), &schema.name()]).await?;
        if !row.get::<_, bool>(0) {
            let expected = "the role does not exist: create it with CREATE ROLE";
            return Err(Error::invalid("role", role, expected).into());
        }
        let sql: String = row.get(1);
        // Sent at once, and so executed completely or not at all.
        client.batch_execute(&sql).await?;
        Ok(format!("{sql};\n"))
    };
    granted.await.map_err(Trouble::into_error)
}

//! A database of a test's own on the shared server, with settings that the shared one must not have.

use super::url;
use tokio_postgres::{Client, NoTls};
use windlass_core::random::{Random as _, SystemRandom};

/// A database and a role that owns it, both dropped with their guard.
pub(crate) struct OwnDatabase {
    /// The name of both.
    name: String,
}

impl OwnDatabase {
    /// A database with these settings, as `ALTER DATABASE … SET` takes them.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        let database = Self::new().await;
        database.set("DATABASE", settings).await;
        database
    }

    /// A database whose owner has these settings, as `ALTER ROLE … SET` takes them.
    pub(crate) async fn with_role(settings: &[(&str, &str)]) -> Self {
        let database = Self::new().await;
        database.set("ROLE", settings).await;
        database
    }

    async fn new() -> Self {
        let name = format!("test_{:016x}", SystemRandom.next_u64());
        let server = connect(&url()).await;
        let sql = [
            format!("CREATE ROLE {name} LOGIN"),
            format!("GRANT pg_monitor TO {name}"),
            format!("CREATE DATABASE {name} OWNER {name}"),
        ];
        for sql in sql {
            server.batch_execute(&sql).await.expect("the test server lets us create databases");
        }
        Self { name }
    }

    async fn set(&self, what: &str, settings: &[(&str, &str)]) {
        let server = connect(&url()).await;
        for (setting, value) in settings {
            // Older servers do not have all of them.
            let known = "SELECT count(*) FROM pg_settings WHERE name = $1";
            let known: i64 = server.query_one(known, &[setting]).await.expect("answers").get(0);
            if known > 0 {
                let sql = format!("ALTER {what} {} SET {setting} = '{value}'", self.name);
                server.batch_execute(&sql).await.expect("takes this setting");
            }
        }
    }

    /// The database, as its owner reaches it.
    pub(crate) fn url(&self) -> String {
        let server = url();
        let (_, place) = server.rsplit_once('@').expect("the URL of the test server has a user");
        let (host, _) = place.split_once('/').expect("the URL of the test server has a database");
        format!("postgres://{0}@{host}/{0}", self.name)
    }

    /// A connection of the application's own, in a database whose defaults it shares.
    pub(crate) async fn connect(&self) -> Client {
        connect(&self.url()).await
    }
}

/// A plain connection.
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

impl Drop for OwnDatabase {
    fn drop(&mut self) {
        let name = self.name.clone();
        // On a thread of its own: a test may end in the middle of a runtime.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let server = connect(&url()).await;
                let _ = server.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
                let _ = server.batch_execute(&format!("DROP ROLE {name}")).await;
            });
        });
        let _ = dropped.join();
    }
}

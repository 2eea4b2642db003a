//! Roles that own nothing: what the rights in the guide let each of them do, and what not.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use crate::common::listener::Listener;
use crate::common::{OwnSchema, application, url};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, State};
use windlass_core::policy::Unique;
use windlass_postgres::{Access, Options, PostgresEngine, grant};

/// A schema with an owner, and one role for each sort of user.
struct Roles {
    schema: OwnSchema,
    server: Client,
}

const SORTS: [(&str, Access); 3] =
    [("enqueuer", Access::Enqueue), ("worker", Access::Work), ("viewer", Access::View)];

impl Roles {
    async fn new() -> Self {
        let (schema, server) = (OwnSchema::new(), application().await);
        let roles = Self { schema, server };
        for sort in ["owner", "enqueuer", "worker", "viewer"] {
            roles.server.batch_execute(&format!("CREATE ROLE {}", roles.role(sort))).await.unwrap();
            let login = format!("ALTER ROLE {} LOGIN", roles.role(sort));
            roles.server.batch_execute(&login).await.unwrap();
        }
        // An owner of the schema alone: nothing else in the database is his.
        let given =
            format!("CREATE SCHEMA {} AUTHORIZATION {}", roles.schema.name, roles.role("owner"));
        roles.server.batch_execute(&given).await.unwrap();
        PostgresEngine::connect(roles.options("owner")).await.expect("the owner migrates");
        roles
    }

    fn role(&self, sort: &str) -> String {
        format!("{sort}_{}", self.schema.name)
    }

    fn url(&self, sort: &str) -> String {
        let host = url();
        let (_, place) = host.rsplit_once('@').expect("the URL of the test server has a user");
        format!("postgres://{}@{place}", self.role(sort))
    }

    fn options(&self, sort: &str) -> Options {
        Options::new(self.url(sort)).schema(&self.schema.name)
    }

    /// Gives all of them their rights; the statements.
    async fn grant(&self) -> Vec<String> {
        let mut statements = Vec::new();
        for (sort, access) in SORTS {
            statements.push(grant(&self.options("owner"), access, &self.role(sort)).await.unwrap());
        }
        statements
    }

    /// Runs a statement with the schema's name for `{s}`; whether the server let it pass. Any other
    /// trouble than missing rights is a mistake of the test.
    async fn may(&self, sort: &str, sql: &str) -> bool {
        let (client, connection) =
            tokio_postgres::connect(&self.url(sort), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let done = client.batch_execute(&sql.replace("{s}", &self.schema.name)).await;
        let code = done.as_ref().err().map(|error| error.code().expect("a code").code().to_owned());
        assert!(code.is_none() || code.as_deref() == Some("42501"), "{sort}, {sql}: {done:?}");
        done.is_ok()
    }

    /// Removes the roles; the schema goes with its guard.
    async fn end(self) {
        for sort in ["owner", "enqueuer", "worker", "viewer"] {
            let role = self.role(sort);
            let gone = format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}");
            self.server.batch_execute(&gone).await.unwrap();
        }
    }
}

const ENQUEUE: &str = "SELECT {s}.enqueue('hello', '{\"secret\":1}', unique_key => 'u')";
const ENQUEUE_MANY: &str = "SELECT {s}.enqueue_many('[{\"kind\":\"hello\"}]')";
const ADD_DIRECTLY: &str = "INSERT INTO {s}.lane (queue, kind) VALUES ('a', 'b')";
const READ_PAYLOADS: &str = "SELECT payload FROM {s}.job";
const CHANGE: &str = "UPDATE {s}.job SET priority = 0";
const VIEWS: [&str; 3] =
    ["SELECT * FROM {s}.jobs", "SELECT * FROM {s}.dead_jobs", "SELECT * FROM {s}.queue_stats"];
const MIGRATE: [&str; 3] = [
    "ALTER TABLE {s}.job ADD COLUMN more text",
    "CREATE TABLE {s}.more (id integer)",
    "DROP TABLE {s}.life",
];

#[tokio::test]
async fn each_role_has_its_privileges_and_no_others() {
    let roles = Roles::new().await;
    // Without grants a role may do nothing, functions included.
    for (sort, _) in SORTS {
        assert!(!roles.may(sort, ENQUEUE).await);
    }
    roles.grant().await;

    assert!(roles.may("enqueuer", ENQUEUE).await && roles.may("enqueuer", ENQUEUE_MANY).await);
    for sql in [READ_PAYLOADS, ADD_DIRECTLY, CHANGE].iter().chain(&VIEWS).chain(&MIGRATE) {
        assert!(!roles.may("enqueuer", sql).await, "{sql}");
    }
    let refused = PostgresEngine::connect(roles.options("enqueuer")).await.unwrap_err();
    assert!(refused.to_string().contains("guide"), "{refused}");

    for sql in VIEWS {
        assert!(roles.may("viewer", sql).await, "{sql}");
    }
    for sql in [READ_PAYLOADS, ADD_DIRECTLY, CHANGE, ENQUEUE, ENQUEUE_MANY].iter().chain(&MIGRATE) {
        assert!(!roles.may("viewer", sql).await, "{sql}");
    }
    for sql in MIGRATE {
        assert!(!roles.may("worker", sql).await, "{sql}");
    }
    roles.end().await;
}

#[tokio::test]
async fn a_worker_s_role_runs_the_queue_and_owns_nothing() {
    let roles = Roles::new().await;
    roles.grant().await;
    // With migrations turned on: there is nothing to do, and so nothing that it may not.
    let engine = PostgresEngine::connect(roles.options("worker")).await.expect("connects");
    assert!(roles.may("enqueuer", ENQUEUE).await, "it hands one over");
    let ours = NewJob::new("hello").key("k").unique(Unique::by("v"));
    engine.enqueue(Enqueue::each([NewJob::new("hello"), ours])).await.unwrap();
    let (mut client, connection) =
        tokio_postgres::connect(&roles.url("worker"), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let transaction = client.transaction().await.unwrap();
    let in_theirs = Enqueue::each([NewJob::new("hello").unique(Unique::by("w"))]);
    engine.enqueue_in(&transaction, in_theirs).await.unwrap();
    transaction.commit().await.unwrap();

    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let by = Claimant::Session { session, claim_no: 1 };
    let jobs = engine.claim(Claim::new(by, "default", 10)).await.unwrap().value.jobs;
    assert_eq!(jobs.len(), 4);
    let ids: Vec<_> = jobs.iter().map(|job| job.header.id).collect();
    let done = jobs.into_iter().map(|it| SettleItem::new(it.header.id, it.lease, Outcome::DONE));
    engine.settle(Settle::new(done)).await.unwrap();
    for work in Work::ALL {
        engine.maintain(MaintainRequest::new(work, 100)).await.unwrap();
    }
    let found = engine.get(Get::new(ids)).await.unwrap().value;
    assert!(found.iter().flatten().all(|job| job.state == State::Completed));
    assert_eq!(engine.check(true).await.unwrap().value.findings, []);
    drop(engine);
    let owned = "SELECT count(*) FROM pg_class WHERE relowner = $1::text::regrole";
    let owned = roles.server.query_one(owned, &[&roles.role("worker")]).await.unwrap();
    assert_eq!(owned.get::<_, i64>(0), 0);
    drop(client);
    // Something to migrate is for the owner, and said so.
    assert!(roles.may("owner", "UPDATE {s}.meta SET value = 0").await);
    let refused = PostgresEngine::connect(roles.options("worker")).await.unwrap_err().to_string();
    assert!(refused.contains("version 0,") && refused.contains("windlass migrate"), "{refused}");
    roles.end().await;
}

#[tokio::test]
async fn the_guide_names_the_rights_that_are_granted() {
    let roles = Roles::new().await;
    let guide = include_str!("../../../../../docs/guides/postgres.md");
    for (statements, (sort, _)) in roles.grant().await.iter().zip(SORTS) {
        let named = statements.replace(&roles.role(sort), sort);
        let named = named.replace(&roles.schema.name, "windlass");
        assert!(guide.contains(&named), "the guide must say:\n{named}");
    }
    let missing = grant(&roles.options("owner"), Access::View, "missing; DROP ROLE x").await;
    assert_eq!(missing.unwrap_err().field(), Some("role"));
    roles.end().await;
}

/// The name of a channel that followed from the name of a schema.
fn derived_channel(schema: &str) -> String {
    let hash = schema.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("windlass_{hash:016x}")
}

#[tokio::test]
async fn roles_without_privileges_cannot_read_the_notification_channel() {
    let roles = Roles::new().await;
    roles.grant().await;
    let engine = PostgresEngine::connect(roles.options("worker")).await.unwrap();
    let secret =
        format!("SELECT replace(value::text, '-', '') FROM \"{}\".secret", roles.schema.name);
    let channel: String = roles.server.query_one(&secret, &[]).await.unwrap().get(0);
    for sort in ["enqueuer", "viewer"] {
        let derived = derived_channel(&roles.schema.name);
        let mut stranger = Listener::at(&roles.url(sort), &derived).await;
        let refused = stranger.client.query_one(&secret, &[]).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{sort}: {refused}");
        // Neither from what it can see of functions and of others' statements,
        let seen = "SELECT count(*) FROM (SELECT prosrc FROM pg_proc UNION ALL
            SELECT query FROM pg_stat_activity WHERE usename <> current_user) s (text)
            WHERE text LIKE '%' || $1::text || '%'";
        let seen: i64 = stranger.client.query_one(seen, &[&channel]).await.unwrap().get(0);
        assert_eq!(seen, 0, "{sort}");
        // nor from the name of the schema.
        let known = format!("windlass_{channel}");
        let mut owner = Listener::at(&roles.url("owner"), &known).await;
        engine.enqueue(Enqueue::each([NewJob::new("k")])).await.unwrap();
        owner.hear(|payload| payload.parse::<i64>().is_ok()).await;
        // Notifications of a database arrive in the order of their commits.
        stranger.client.batch_execute(&format!("NOTIFY {derived}, 'end'")).await.unwrap();
        assert_eq!(stranger.until("end").await, Vec::<String>::new(), "{sort}");
    }
}

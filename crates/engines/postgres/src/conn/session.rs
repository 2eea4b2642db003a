//! Settings of every connection and the isolation level of every transaction, independent of the defaults of server,
//! database and role.

use crate::conn::error::Try;
use crate::conn::unnamed::ask;
use std::borrow::Cow;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Settings of every connection. Tables grow from nothing to millions of rows under plans that are made once, so plans
/// must not depend on the number of rows. A lock that is not granted in time is held by a transaction outside of the
/// engine. The server ends the transaction of a process that falls silent for 2 seconds, because other processes may wait
/// for its locks. Statements are not limited in time: a role's limit is meant for its own statements.
const SETTINGS: [(&str, &str); 9] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    // With few rows by the statistics, a bitmap scan and a sort would seem as cheap as the order of an index.
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("statement_timeout", "0"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "2s"),
];
/// Arrives together with the settings above or not at all, and so shows whether they arrived.
const ARRIVED: &str = "windlass.session";
/// The isolation level of single statements. The options of a URL cannot change it: maintenance truncates tables, which
/// a snapshot from before sees as empty.
const PINNED: &str = r" -c default_transaction_isolation=read\ committed";

/// Whether the startup settings arrived and stay, which they do not through a pooler; and which timeouts of newer
/// versions this server has.
const PROBE: &str = "SELECT coalesce(current_setting('windlass.session', true), '') = 'on',
    ARRAY(SELECT name FROM pg_settings WHERE name IN ('idle_session_timeout', 'transaction_timeout'))";

/// Begins a transaction that names no other isolation level. Does not rely on `default_transaction_isolation`, which a
/// database, a role or a pooler may set.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Our settings as startup options, together with those of the URL.
pub(crate) fn startup_options(asked: &str) -> String {
    let ours = SETTINGS.iter().chain([&(ARRIVED, "on")]);
    let ours: String = ours.map(|(name, value)| format!("-c {name}={value} ")).collect();
    ours + asked + PINNED
}

/// Whether a pooler refused the connection because of the startup options.
pub(crate) fn refuses_options(error: &tokio_postgres::Error) -> bool {
    let refused = |db: &tokio_postgres::error::DbError| {
        *db.code() == SqlState::PROTOCOL_VIOLATION && db.message().contains("startup parameter")
    };
    error.as_db_error().is_some_and(refused)
}

/// The settings of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    /// Whether they survive from one transaction to the next.
    pub(crate) is_kept: bool,
    /// Timeouts that only newer versions have.
    newer: Vec<String>,
}

impl Session {
    /// Reads which settings arrived, and sets the missing ones if they survive.
    pub(crate) async fn establish(client: &Client) -> Try<Self> {
        // Behind a pooler, even this may exceed the role's timeouts.
        let patiently = format!("{BEGIN}; SET LOCAL statement_timeout = 0");
        client.batch_execute(&patiently).await?;
        let probed = ask(client, PROBE, &[]).await?;
        let read = |row: &tokio_postgres::Row| Self { is_kept: row.get(0), newer: row.get(1) };
        let session = probed.first().map_or(Self { is_kept: false, newer: Vec::new() }, read);
        let kept = session.newer.iter().filter(|_| session.is_kept);
        let sets: String = kept.map(|name| format!("SET {name} = 0; ")).collect();
        client.batch_execute(&(sets + "COMMIT")).await?;
        Ok(session)
    }

    /// A `BEGIN` followed by all settings, for connections that do not keep them. Not by a `SELECT set_config`, which
    /// would take the transaction's snapshot before its locks.
    pub(crate) fn begin(&self, begin: &Begin<'_>) -> String {
        let newer = self.newer.iter().map(|name| (name.as_str(), "0"));
        let settings = SETTINGS.iter().copied().chain(newer);
        let settings: String =
            settings.map(|(name, value)| format!("; SET LOCAL {name} = '{value}'")).collect();
        format!("{}{settings}{}", begin.head, begin.rest)
    }
}

/// The beginning of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Begin<'a> {
    /// `BEGIN` with its isolation level.
    head: Cow<'a, str>,
    /// The rest of the message, from the semicolon on.
    rest: &'a str,
}

impl Default for Begin<'_> {
    fn default() -> Self {
        Self { head: BEGIN.into(), rest: "" }
    }
}

impl<'a> Begin<'a> {
    /// Parses `sql` if it begins a transaction.
    pub(crate) fn of(sql: &'a str) -> Option<Self> {
        let (head, rest) = sql.split_at(sql.find(';').unwrap_or(sql.len()));
        match head.strip_prefix("BEGIN")? {
            "" => Some(Self { rest, ..Self::default() }),
            level if level.starts_with(" ISOLATION LEVEL ") => {
                Some(Self { head: head.into(), rest })
            }
            _ => None,
        }
    }

    /// The SQL for connections that keep settings.
    pub(crate) fn sql(&self) -> String {
        format!("{}{}", self.head, self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transaction_has_a_named_isolation_level() {
        let sent = |sql| Begin::of(sql).map(|begin| begin.sql());
        assert_eq!(sent("BEGIN").as_deref(), Some(BEGIN));
        let expected = format!("{BEGIN}; SET LOCAL x = 1; LOCK TABLE t");
        assert_eq!(sent("BEGIN; SET LOCAL x = 1; LOCK TABLE t"), Some(expected));
        let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;\n LOCK TABLE t";
        assert_eq!(sent(snapshot).as_deref(), Some(snapshot));
        assert_eq!((sent("COMMIT"), sent("VACUUM t")), (None, None));
    }

    #[test]
    fn settings_precede_those_of_the_transaction_and_take_no_snapshot() {
        let session = Session { is_kept: false, newer: vec!["transaction_timeout".to_owned()] };
        let begin = Begin::of("BEGIN; SET LOCAL lock_timeout = 2000").expect("begins");
        let sent = session.begin(&begin);
        assert!(sent.starts_with(BEGIN), "{sent}");
        assert!(sent.ends_with("; SET LOCAL lock_timeout = 2000"), "{sent}");
        for setting in ["statement_timeout = '0'", "transaction_timeout = '0'"] {
            assert!(sent.contains(&format!("; SET LOCAL {setting}")), "{setting} in {sent}");
        }
        assert!(!sent.contains("SELECT"), "{sent}");
    }

    #[test]
    fn the_options_of_a_url_come_after_ours_but_for_the_isolation_level() {
        let options = startup_options("-c statement_timeout=5s -c default_transaction_isolation=x");
        let after = |first: &str, then: &str| options.rfind(first) < options.rfind(then);
        assert!(after("statement_timeout=0", "statement_timeout=5s"), "{options}");
        assert!(after("isolation=x", r"isolation=read\ committed"), "{options}");
    }
}

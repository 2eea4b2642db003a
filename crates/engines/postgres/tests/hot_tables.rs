//! What the tables that turn over within seconds must not cost: every job pays for each of their indexes, and
//! a vacuum that gives their ends back locks everybody out.

mod common;

use common::{OwnSchema, url};
use windlass_postgres::{Options, PostgresEngine};

/// Those through which every job goes, or every job of a fair queue, and those that every transaction adds to.
const HOT: [&str; 6] = ["ready", "lease", "scheduled", "tally", "turn", "served"];
/// The most indexes one of them may have.
const INDEXES_MAX: i64 = 2;

#[tokio::test]
async fn hot_tables_have_two_indexes_at_most_and_no_vacuum_locks_them() {
    let schema = OwnSchema::new();
    PostgresEngine::connect(Options::new(url()).schema(&schema.name)).await.expect("connects");
    let (client, connection) =
        tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    let sql = "SELECT relname::text, (SELECT count(*) FROM pg_index WHERE indrelid = c.oid), \
                   coalesce(array_to_string(reloptions, ' '), '') \
               FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
               WHERE nspname = $1 AND relname::text = ANY ($2)";
    let tables = client.query(sql, &[&schema.name, &HOT.as_slice()]).await.expect("answers");
    assert_eq!(tables.len(), HOT.len());
    for table in tables {
        let (name, indexes, options): (String, i64, String) =
            (table.get(0), table.get(1), table.get(2));
        assert!(indexes <= INDEXES_MAX, "{name} has {indexes}");
        assert!(options.contains("vacuum_truncate=off"), "{name}: {options}");
    }
}

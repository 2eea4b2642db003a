//! How many more connections a server takes, for programs that want many of them.

use crate::conn::error::Trouble;
use crate::conn::server::Server;
use crate::conn::session::Session;
use crate::conn::unnamed::ask;
use windlass_core::Result;

/// The limit that leaves the fewest connections: what it is called, how high it is, how many it leaves. Superusers may take
/// reserved connections, and no limit of a role or a database applies to them. The connection that asks is not counted,
/// because it ends.
const ROOM: &str = "SELECT name || ' = ' || most, most - reserved - used + 1
    FROM (SELECT rolsuper, rolconnlimit, rolname FROM pg_roles WHERE rolname = current_user) me
    CROSS JOIN LATERAL (
        SELECT 'max_connections', current_setting('max_connections')::bigint,
            CASE WHEN rolsuper THEN 0 ELSE current_setting('superuser_reserved_connections')::bigint
                + coalesce(current_setting('reserved_connections', true), '0')::bigint END,
            (SELECT sum(numbackends)::bigint FROM pg_stat_database)
        UNION ALL SELECT 'the CONNECTION LIMIT of database ' || datname, datconnlimit, 0,
            (SELECT numbackends FROM pg_stat_database s WHERE s.datid = d.oid)
            FROM pg_database d WHERE datname = current_database() AND datconnlimit >= 0 AND NOT rolsuper
        UNION ALL SELECT 'the CONNECTION LIMIT of role ' || rolname, rolconnlimit, 0,
            (SELECT count(*) FROM pg_stat_activity WHERE usename = rolname)
            WHERE rolconnlimit >= 0 AND NOT rolsuper
    ) limits (name, most, reserved, used)
    ORDER BY 2 LIMIT 1";

/// Connections that a server still takes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Room {
    /// How many.
    pub free: u64,
    /// The limit that leaves no more, as in `max_connections = 100`.
    pub limit: String,
}

/// How many connections the server at this URL still takes; `None` through a pooler, which has limits of its own.
pub async fn room(url: &str) -> Result<Option<Room>> {
    let room = async {
        let client = Server::at(url)?.connect().await?;
        if !Session::establish(&client).await?.is_kept {
            return Ok(None);
        }
        let rows = ask(&client, ROOM, &[]).await?;
        let read = |row: &tokio_postgres::Row| Room {
            free: row.get::<_, i64>(1).max(0).cast_unsigned(),
            limit: row.get(0),
        };
        Ok::<_, Trouble>(rows.first().map(read))
    };
    room.await.map_err(Trouble::told)
}

//! The number of connections that a server still accepts, for programs that need many.

use crate::conn::error::Trouble;
use crate::conn::server::Server;
use crate::conn::session::Session;
use crate::conn::unnamed::ask;
use windlass_core::Result;

/// The limit with the fewest free connections: its name, its value and the free connections. Superusers may use
/// reserved connections, and limits of roles and databases do not apply to them. The connection that runs this is not
/// counted, because it ends.
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

/// Connections that a server still accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Room {
    /// Number of free connections.
    pub free: u64,
    /// The limit that decides, as in `max_connections = 100`.
    pub limit: String,
}

/// Returns how many connections the server at this URL still accepts; `None` through a pooler, which has its own
/// limits.
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
    room.await.map_err(Trouble::into_error)
}

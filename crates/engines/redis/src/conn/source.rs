//! Where the server is: at an address, or wherever sentinels say that the primary is.

use super::error::{of_server, unavailable};
use redis::{AsyncConnectionConfig, Client, cmd};
use std::time::Duration;
use windlass_core::{Error, Result};

/// The scheme of URLs that name sentinels.
const SENTINEL: &str = "redis+sentinel://";
/// How long a sentinel may take to answer before the next one is asked.
const SENTINEL_WITHIN: Duration = Duration::from_secs(1);

/// Where to connect.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// One server.
    Server(Client),
    /// The primary of this name, as these sentinels know it.
    Sentinels { sentinels: Vec<Client>, primary: String, account: String, database: String },
}

impl Source {
    /// Parses `redis://…`, `rediss://…`, or `redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/PRIMARY[/DATABASE]`. The
    /// account is that of the primary.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let Some(rest) = url.strip_prefix(SENTINEL) else { return open(url).map(Self::Server) };
        let expected =
            "name sentinels and the primary, as in redis+sentinel://a:26379,b:26379/main";
        let bad = || Error::invalid("url", "***", expected);
        let (account, rest) = match rest.rsplit_once('@') {
            Some((account, rest)) => (format!("{account}@"), rest),
            None => (String::new(), rest),
        };
        let (hosts, rest) = rest.split_once('/').ok_or_else(bad)?;
        let (primary, database) = rest.split_once('/').unwrap_or((rest, "0"));
        if primary.is_empty() || hosts.split(',').any(str::is_empty) {
            return Err(bad());
        }
        let sentinels = hosts.split(',').map(|host| open(&format!("redis://{host}")));
        Ok(Self::Sentinels {
            sentinels: sentinels.collect::<Result<_>>()?,
            primary: primary.to_owned(),
            account,
            database: database.to_owned(),
        })
    }

    /// Whether another server may take over, which may not have the latest writes.
    pub(crate) const fn fails_over(&self) -> bool {
        matches!(self, Self::Sentinels { .. })
    }

    /// The server to connect to now.
    pub(crate) async fn client(&self) -> Result<Client> {
        let (sentinels, primary, account, database) = match self {
            Self::Server(client) => return Ok(client.clone()),
            Self::Sentinels { sentinels, primary, account, database } => {
                (sentinels, primary, account, database)
            }
        };
        let mut last = unavailable("no sentinel was asked");
        for sentinel in sentinels {
            match ask(sentinel, primary).await {
                Ok(Some((host, port))) => {
                    let host = if host.contains(':') { format!("[{host}]") } else { host };
                    return open(&format!("redis://{account}{host}:{port}/{database}"));
                }
                Ok(None) => last = unavailable("a sentinel does not know a primary of this name"),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The address of a primary, if the sentinel knows it.
async fn ask(sentinel: &Client, primary: &str) -> Result<Option<(String, u16)>> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(SENTINEL_WITHIN))
        .set_response_timeout(Some(SENTINEL_WITHIN));
    let conn = sentinel.get_multiplexed_async_connection_with_config(&config).await;
    let mut conn = conn.map_err(|error| unavailable(&error))?;
    let mut command = cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(primary);
    command.query_async(&mut conn).await.map_err(|error| of_server(&error))
}

/// The error of the driver could quote the URL, which may contain a password.
fn open(url: &str) -> Result<Client> {
    Client::open(url)
        .map_err(|_| Error::invalid("url", "***", "use redis://USER:PASSWORD@HOST:PORT/DATABASE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_server_or_sentinels_and_a_primary() {
        assert!(!Source::parse("redis://db:6379/2").unwrap().fails_over());
        let source = Source::parse("redis+sentinel://ada:x@a:1,b:2/main/3").unwrap();
        let Source::Sentinels { sentinels, primary, account, database } = source else {
            panic!("it names sentinels")
        };
        assert_eq!((sentinels.len(), &*primary, &*account, &*database), (2, "main", "ada:x@", "3"));
        for bad in
            ["redis+sentinel://a:1", "redis+sentinel://a:1/", "redis+sentinel://a:1,/m", "x:"]
        {
            let error = Source::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("a:1"), "{error}");
        }
    }
}

//! The server that a URL names, and connecting to it. Errors never contain the password.

use crate::conn::error::{Try, unavailable};
use crate::conn::session::{refuses_options, startup_options};
use crate::conn::tls::{SslFiles, SslMode, Stream, Tls};
use percent_encoding::percent_decode_str;
use std::time::Duration;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{Client, Config, Connection, Socket};
use windlass_core::{Error, Result};

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connect timeout per host if the URL names several.
const HOST_TIMEOUT: Duration = Duration::from_secs(3);
/// TCP user timeout: how long sent data may stay unacknowledged.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// URL parameters that the driver reads. Parameters about TLS are read here.
const DRIVER_S: &[&str] = &[
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "sslnegotiation",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// A server and how to connect to it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server {
    config: Config,
    tls: Tls,
}

impl Server {
    /// The server at this URL, with our settings. Reads the certificate files that the URL names.
    #[expect(clippy::wildcard_enum_match_arm, reason = "an enum of another project")]
    pub(crate) fn at(url: &str) -> Result<Self> {
        let (url, mode, files) = take_ssl(url)?;
        // The parser's message may contain parts of the URL, including the password.
        let mut config: Config = url.parse().map_err(|_| bad_url())?;
        let mode = mode.unwrap_or(match config.get_ssl_mode() {
            tokio_postgres::config::SslMode::Disable => SslMode::Disable,
            tokio_postgres::config::SslMode::Require => SslMode::Require,
            _ => SslMode::Prefer,
        });
        config.ssl_mode(mode.demand());
        if config.get_application_name().is_none() {
            config.application_name("windlass");
        }
        follow(&mut config);
        Ok(Self { config, tls: crate::conn::tls::tls(mode, &files)? })
    }

    /// Opens a connection that the caller polls: with our settings, or without them if a pooler refuses them.
    #[cfg_attr(
        not(feature = "tls"),
        expect(
            clippy::clone_on_copy,
            reason = "only what stands for TLS where it is left out is Copy"
        )
    )]
    pub(crate) async fn open(&self) -> Try<(Client, Connection<Socket, Stream>)> {
        let mut with_settings = self.config.clone();
        with_settings.options(startup_options(self.config.get_options().unwrap_or_default()));
        let connecting = async {
            match with_settings.connect(self.tls.clone()).await {
                Err(error) if refuses_options(&error) => {
                    self.config.connect(self.tls.clone()).await
                }
                connected => connected,
            }
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        Ok(connected.map_err(|_| unavailable("no connection within 10 s"))??)
    }

    /// Opens a connection that a spawned task polls.
    pub(crate) async fn connect(&self) -> Try<Client> {
        let (client, connection) = self.open().await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
        });
        Ok(client)
    }
}

/// Chooses the host that accepts writes if there are several, and detects its loss.
fn follow(config: &mut Config) {
    if config.get_hosts().len().max(config.get_hostaddrs().len()) > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(HOST_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE_MAX);
    }
    if config.get_keepalives_idle() > SILENCE_MAX {
        config.keepalives_idle(SILENCE_MAX);
    }
}

fn bad_url() -> Error {
    Error::invalid("url", "postgres://***", "use postgres://user@host:port/database")
}

/// Extracts the TLS parameters of a URL and refuses unknown parameters. Connection strings in the other form (`host=…
/// user=…`) are passed to the driver.
fn take_ssl(url: &str) -> Result<(String, Option<SslMode>, SslFiles)> {
    let (mut mode, mut files) = (None, SslFiles::default());
    let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
    let Some((place, query)) = url.split_once('?').filter(|_| is_url) else {
        return Ok((url.to_owned(), mode, files));
    };
    // Probably an unencoded password: no part of it may be shown.
    if query.contains('@') {
        return Err(bad_url());
    }
    let mut others = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = percent_decode_str(value).decode_utf8().map_err(|_| bad_url())?;
        match name {
            "sslmode" => mode = Some(SslMode::named(&value)?),
            "sslrootcert" => files.root = Some(value.into_owned()),
            "sslcert" => files.cert = Some(value.into_owned()),
            "sslkey" => files.key = Some(value.into_owned()),
            _ if DRIVER_S.contains(&name) => others.push(parameter),
            _ => {
                let expected = "no such parameter is known: leave it out; the schema and migrations are \
                    options of their own here";
                return Err(Error::invalid("url parameter", name, expected));
            }
        }
    }
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    Ok((format!("{place}{query}"), mode, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parameters_are_refused_by_name_without_secrets() {
        let refused = |url: &str| Server::at(url).err().expect("it is refused").to_string();
        assert!(refused("postgres://a:s3cr3t@h/d?sslmod=require").contains("sslmod"));
        assert!(refused("postgres://a:s3cr3t@h/d?sslmode=allow").contains("sslmode"));
        for url in [
            "postgres://a:s3cr3t@h/d?sslmod=require",
            "postgres://a:x?s3cr3t=s3cr3t@h/d",
            "postgres://a:s3cr3t@h:x/d?sslmode=prefer",
            "postgres://a:s3cr3t@h/d?sslmode=disable&sslrootcert=/no/such",
        ] {
            assert!(!refused(url).contains("s3cr3t"), "{}", refused(url));
        }
        assert!(Server::at("host=h user=u sslmode=disable").is_ok());
    }
}

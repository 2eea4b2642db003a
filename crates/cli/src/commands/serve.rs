//! `windlass serve`: a store as an HTTP API. It opens the store and waits for the end; what is served,
//! and how, is the server's business.

use crate::connect::Url;
use crate::open_files;
use anyhow::{Context as _, Result, bail, ensure};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;
use windlass_core::engine::Engine;
use windlass_local::LocalEngine;
use windlass_server::{Options, Server};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The store: file:DIR keeps jobs in a directory, memory: keeps nothing
    #[arg(long, value_name = "URL", default_value = "file:./windlass-data")]
    store: Url,
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7474")]
    listen: SocketAddr,
    /// A name to answer to beside localhost, as that of a proxy in front of the server; can be repeated
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Listen beyond this machine, although whoever reaches the server may do anything with it
    #[arg(long)]
    insecure: bool,
    /// Leave the tables of a PostgreSQL store as they are, and refuse to serve old ones
    #[arg(long)]
    no_migrate: bool,
    /// How long the services rest when the server that ran them was killed, in milliseconds
    #[arg(long, hide = true, value_name = "MS")]
    lead_ttl_ms: Option<u64>,
    /// What to log to stderr: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: LevelFilter,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        tracing_subscriber::fmt().with_max_level(self.log).with_writer(std::io::stderr).init();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start the async runtime")?.block_on(self.serve())
    }

    async fn serve(self) -> Result<ExitCode> {
        open_files::raise_limit();
        ensure!(
            self.listen.ip().is_loopback() || self.insecure,
            "--listen {} can be reached from other machines, and the server asks nobody for a key yet; \
             listen on 127.0.0.1, or say --insecure if the network is yours alone",
            self.listen
        );
        // First, so that no signal is missed once somebody was told that it runs.
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for ctrl-c")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let mut options = self.hosts.iter().fold(Options::new(self.listen), Options::host);
        if let (Some(services), Some(lead_ttl_ms)) = (&mut options.services, self.lead_ttl_ms) {
            services.lead_ttl_ms = lead_ttl_ms;
        }
        let server = Server::bind(options).await?;
        let url = reachable(server.address());
        let engine = open(self.found_store()?, url.clone()).await?;
        let handle = server.serve(engine)?;
        println!("{}", greeting(&self.store, &url));
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        println!("stopping: requests under way are answered first; once more stops at once");
        tokio::select! {
            () = handle.stop() => {}
            _ = interrupt.recv() => return Ok(ExitCode::FAILURE),
            _ = terminate.recv() => return Ok(ExitCode::FAILURE),
        }
        println!("stopped");
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// The store, as it may be opened.
    fn found_store(&self) -> Result<Url> {
        match &self.store {
            Url::Postgres(at) if self.no_migrate => Ok(Url::Postgres(at.with_migrations(false))),
            other if self.no_migrate => {
                bail!("--no-migrate is for postgres:// stores, and {other} has no tables")
            }
            other => Ok(other.clone()),
        }
    }
}

/// Opens the store, with the address where others find it.
async fn open(store: Url, url: String) -> Result<Arc<dyn Engine>> {
    let Url::File(dir) = store.clone() else { return Ok(store.open().await?) };
    let options = windlass_local::Options::new(dir).address(url);
    // Reads and mends files, which blocks.
    let opened = tokio::task::spawn_blocking(|| LocalEngine::open(options)).await?;
    Ok(Arc::new(opened.with_context(|| format!("cannot open {store}"))?))
}

/// A URL under which this machine reaches `address`.
fn reachable(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        let loopback =
            if address.is_ipv4() { [127, 0, 0, 1].into() } else { [0, 0, 0, 0, 0, 0, 0, 1].into() };
        address.set_ip(loopback);
    }
    format!("http://{address}")
}

/// What is served where, and how to try it.
fn greeting(store: &Url, url: &str) -> String {
    let kept = match store {
        Url::Memory => "kept in memory only, gone when this stops",
        Url::File(_) => "durable; one process at a time owns it",
        Url::Postgres(_) => "durable; any number of processes share it",
        _ => "where it is",
    };
    format!(
        "windlass serves {store} ({kept})\n\
         listening on {url}\n\n\
         dashboard:        {url}/\n\
         hand over a job:  curl --json '{{\"kind\":\"hello\",\"payload\":{{\"name\":\"Ada\"}}}}' {url}/v1/jobs\n\
         take one:         curl --json '{{\"queues\":[\"default\"],\"wait_ms\":10000}}' {url}/v1/claim\n\
         report on it:     curl --json '{{\"items\":[{{\"id\":\"…\",\"lease\":\"…\",\"outcome\":\"complete\"}}]}}' {url}/v1/settle\n\
         look at it:       curl {url}/v1/jobs\n\n\
         stop with ctrl-c"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_means_all_of_them_is_told_as_one_that_can_be_reached() {
        assert_eq!(reachable("0.0.0.0:7474".parse().unwrap()), "http://127.0.0.1:7474");
        assert_eq!(reachable("[::]:7474".parse().unwrap()), "http://[::1]:7474");
        assert_eq!(reachable("10.0.0.1:80".parse().unwrap()), "http://10.0.0.1:80");
    }
}

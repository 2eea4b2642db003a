//! `[server]`: listen address, TLS, and limits on connections, memory and time.

use super::Section;
use crate::config::field::field;
use crate::config::value::Kind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use windlass_server::{Options, TlsFiles, ranges};

/// Default listen address.
const LISTEN_DEFAULT: SocketAddr =
    SocketAddr::V4(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7474));

pub(super) const SECTION: Section = Section {
    name: "server",
    doc: "Listen address, TLS, and limits on connections, memory and time.",
    fields: &[
        field!(
            "listen",
            Kind::TEXT,
            Restart,
            server.options.listen,
            "Address to listen on; port 0 selects a free port."
        ),
        field!(
            "hosts",
            Kind::LIST,
            Restart,
            server.options.hosts,
            "Accepted host names besides localhost, e.g. that of a proxy in front of the server."
        ),
        field!(
            "insecure",
            Kind::FLAG,
            Restart,
            server.options.insecure,
            "Listen on a non-loopback address even if the store has no keys, which gives everyone who can reach \
             the server full access."
        ),
        field!(
            "tls_cert",
            Kind::TEXT.or_none(),
            Restart,
            server.tls_cert,
            "PEM file with the TLS certificate; enables encryption."
        ),
        field!(
            "tls_key",
            Kind::TEXT.or_none(),
            Restart,
            server.tls_key,
            "PEM file with the private key of the certificate."
        ),
        field!(
            "tls_client_ca",
            Kind::TEXT.or_none(),
            Restart,
            server.tls_client_ca,
            "PEM file with the authorities whose client certificates are accepted (`windlass keys create \
             --certificate`)."
        ),
        field!(
            "metrics_by_kind",
            Kind::FLAG,
            Restart,
            server.options.metrics_by_kind,
            "Label queue metrics by kind, too; adds series to /metrics."
        ),
        field!(
            "metrics_by_priority",
            Kind::FLAG,
            Restart,
            server.options.metrics_by_priority,
            "Export the number of ready jobs and the wait of the oldest per priority at /metrics, too."
        ),
        field!(
            "strict_kinds",
            Kind::FLAG,
            Restart,
            server.options.strict_kinds,
            "Refuse jobs of kinds that are not registered."
        ),
        field!(
            "soft_depth",
            Kind::count(ranges::DEPTH),
            Restart,
            server.options.soft_depth,
            "Default depth limit per queue, for queues without a max_depth; further jobs are refused with a retry \
             delay."
        ),
        field!(
            "hard_depth",
            Kind::count(ranges::DEPTH),
            Restart,
            server.options.hard_depth,
            "Upper depth limit of any queue, even if its own max_depth is higher."
        ),
        field!(
            "jobs_per_second",
            Kind::count(ranges::JOBS_PER_SECOND).or_none(),
            Restart,
            server.options.jobs_per_second,
            "Maximum jobs per second from each client; the burst after a pause is as large."
        ),
        field!(
            "body_bytes_max",
            Kind::size(ranges::BODY_BYTES),
            Live,
            server.options.body_bytes_max,
            "Maximum size of one request body."
        ),
        field!(
            "bodies_bytes_max",
            Kind::size(ranges::BODIES_BYTES),
            Restart,
            server.options.bodies_bytes_max,
            "Maximum total size of request bodies in memory. The limit applies separately to \
             producers and operators, to results sent by workers (settle, update), and to their sessions, \
             heartbeats and claims. One client may use half of it."
        ),
        field!(
            "connections_max",
            Kind::count(ranges::CONNECTIONS),
            Restart,
            server.options.connections_max,
            "Maximum number of open connections. At the limit, a new connection replaces an idle one; if none is \
             idle, new connections serve only health probes and the sessions, heartbeats and results of workers."
        ),
        field!(
            "read_timeout",
            Kind::time(ranges::READ_TIMEOUT_MS),
            Live,
            server.options.read_timeout,
            "Timeout for receiving the head of a request, for receiving its body, and for the client to read each \
             256 KiB of a reply. Idle connections are closed after the same time."
        ),
        field!(
            "call_timeout",
            Kind::time(ranges::CALL_TIMEOUT_MS),
            Live,
            server.options.call_timeout,
            "Timeout of a call to the store; the wait time of long polls does not count."
        ),
        field!(
            "grace",
            Kind::time(ranges::GRACE_MS),
            Live,
            server.options.grace,
            "Time that requests in flight have to finish when the server stops."
        ),
    ],
};

#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Server options without services, which have their own section.
    pub(crate) options: Options,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_client_ca: Option<PathBuf>,
}

impl Server {
    /// The TLS files; `None` means plain HTTP. Validation guarantees that certificate and key are set together.
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        let mut files = TlsFiles::new(self.tls_cert.as_ref()?, self.tls_key.as_ref()?);
        files.client_ca.clone_from(&self.tls_client_ca);
        Some(files)
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            options: Options::new(LISTEN_DEFAULT).services(None),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
        }
    }
}

//! `[server]`: where the server listens, and the bound of everything it holds or waits for.

use super::Section;
use crate::config::field::field;
use crate::config::value::Kind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use windlass_server::{Options, TlsFiles, ranges};

/// Where a server listens unless somebody says otherwise.
const LISTEN_DEFAULT: SocketAddr =
    SocketAddr::V4(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7474));

pub(super) const SECTION: Section = Section {
    name: "server",
    doc: "Where the server listens, and the bound of everything it holds or waits for.",
    fields: &[
        field!(
            "listen",
            Kind::TEXT,
            Restart,
            server.options.listen,
            "Where to listen; port 0 lets the system choose."
        ),
        field!(
            "hosts",
            Kind::LIST,
            Restart,
            server.options.hosts,
            "Names to answer to beside localhost, as that of a proxy in front of the server."
        ),
        field!(
            "insecure",
            Kind::FLAG,
            Restart,
            server.options.insecure,
            "Listen beyond this machine although the store has no keys, so that whoever reaches the server may \
             do anything with it."
        ),
        field!(
            "tls_cert",
            Kind::TEXT.or_none(),
            Restart,
            server.tls_cert,
            "Encrypt connections with the certificate in this PEM file."
        ),
        field!(
            "tls_key",
            Kind::TEXT.or_none(),
            Restart,
            server.tls_key,
            "The PEM file with the private key of that certificate."
        ),
        field!(
            "tls_client_ca",
            Kind::TEXT.or_none(),
            Restart,
            server.tls_client_ca,
            "Know clients by certificates of the authorities in this PEM file (`windlass keys create \
             --certificate`)."
        ),
        field!(
            "metrics_by_kind",
            Kind::FLAG,
            Restart,
            server.options.metrics_by_kind,
            "Whether metrics of queues are told apart by kind, too: more to see at /metrics, and more to keep."
        ),
        field!(
            "metrics_by_priority",
            Kind::FLAG,
            Restart,
            server.options.metrics_by_priority,
            "Whether metrics tell the ready jobs of queues by priority, too: how many, and how long the first has \
             waited."
        ),
        field!(
            "strict_kinds",
            Kind::FLAG,
            Restart,
            server.options.strict_kinds,
            "Whether jobs of kinds that are not registered are refused."
        ),
        field!(
            "soft_depth",
            Kind::count(ranges::DEPTH),
            Restart,
            server.options.soft_depth,
            "Jobs that may wait in a queue that has no max_depth of its own; more are refused with the time to \
             come again."
        ),
        field!(
            "hard_depth",
            Kind::count(ranges::DEPTH),
            Restart,
            server.options.hard_depth,
            "Jobs that may wait in any queue, even if its own max_depth is higher."
        ),
        field!(
            "jobs_per_second",
            Kind::count(ranges::JOBS_PER_SECOND).or_none(),
            Restart,
            server.options.jobs_per_second,
            "Jobs that one client may hand over per second, and at once after a rest."
        ),
        field!(
            "body_bytes_max",
            Kind::size(ranges::BODY_BYTES),
            Live,
            server.options.body_bytes_max,
            "The size of one request."
        ),
        field!(
            "bodies_bytes_max",
            Kind::size(ranges::BODIES_BYTES),
            Restart,
            server.options.bodies_bytes_max,
            "The size of requests held at a time: for producers and operators, as much for the reports of workers, \
             and as much for their sessions, heartbeats and claims. One client has half of it."
        ),
        field!(
            "connections_max",
            Kind::count(ranges::CONNECTIONS),
            Restart,
            server.options.connections_max,
            "Connections at a time. For one more an idle one is closed; while none is idle, health probes and \
             workers' reports are still answered."
        ),
        field!(
            "read_timeout",
            Kind::time(ranges::READ_TIMEOUT_MS),
            Live,
            server.options.read_timeout_ms,
            "How long the head of a request, and then its body, may take to arrive, and how long a client may \
             take to read the next 256 KiB of a reply; idle connections are closed after it too."
        ),
        field!(
            "call_timeout",
            Kind::time(ranges::CALL_TIMEOUT_MS),
            Live,
            server.options.call_timeout_ms,
            "How long the store may take to answer, waiting on purpose not counted."
        ),
        field!(
            "grace",
            Kind::time(ranges::GRACE_MS),
            Live,
            server.options.grace_ms,
            "How long a stop waits for requests that are being answered."
        ),
    ],
};

#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Without services: they have a section of their own.
    pub(crate) options: Options,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_client_ca: Option<PathBuf>,
}

impl Server {
    /// The files of encrypted connections; `None`: plain HTTP. The configuration was checked: a certificate
    /// comes with its key.
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

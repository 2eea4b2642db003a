//! How a server is set up: where it listens, and the bound of everything it holds or waits for.

use crate::disk::DiskProbe;
use crate::metrics::Exporter;
use crate::ranges;
use std::net::SocketAddr;
use std::path::PathBuf;
use windlass_core::{Error, Result, within_range};
use windlass_services::ServiceOptions;

/// Bytes of one request, unless set otherwise: the biggest job (a state and a blob of 16 MiB) in base64.
const BODY_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// Bytes of requests held at a time for one purpose, unless set otherwise.
const BODIES_BYTES_DEFAULT: usize = 128 * 1024 * 1024;
/// Connections at a time, unless set otherwise.
const CONNECTIONS_DEFAULT: usize = 10_000;
/// For a request to arrive, unless set otherwise.
const READ_TIMEOUT_DEFAULT_MS: u64 = 30_000;
/// For the engine to answer, unless set otherwise.
const CALL_TIMEOUT_DEFAULT_MS: u64 = 30_000;
/// For a stop in good order, unless set otherwise.
const GRACE_DEFAULT_MS: u64 = 10_000;
/// Jobs that may wait in a queue that has no limit of its own, unless set otherwise.
const SOFT_DEPTH_DEFAULT: u64 = 100_000;
/// Jobs that may wait in any queue, unless set otherwise.
const HARD_DEPTH_DEFAULT: u64 = 500_000;

/// The PEM files of a server that encrypts its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// Its certificate, and those between it and the authority.
    pub cert: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
    /// The authorities whose certificates clients may show instead of a key.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// A certificate and its private key.
    pub fn new(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { cert: cert.into(), key: key.into(), client_ca: None }
    }

    /// Clients may show certificates of these authorities.
    #[must_use]
    pub fn client_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(path.into());
        self
    }
}

/// What a server is told. Only the address is needed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where it listens; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Names it answers to beside its own address and `localhost`, if it listens on this machine only:
    /// those of a proxy in front of it.
    pub hosts: Vec<String>,
    /// Whether everybody may do everything while the store has no keys, although other machines can reach
    /// the address. Without it, such a server lets nobody in before the first key is made.
    pub insecure: bool,
    /// Encrypts connections, and knows clients by their certificates; `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Bytes of one request.
    pub body_bytes_max: usize,
    /// Bytes of requests held at a time, counted as they arrive: so many for producers and operators, as
    /// many for the reports of workers, and as many for their sessions, heartbeats and claims, so that
    /// none of these can be kept out by others. One client has half of them. A request that finds no room
    /// waits for two seconds and is refused then.
    pub bodies_bytes_max: usize,
    /// Connections at a time. For one more an idle one is closed. While none is idle, 64 more connections
    /// are served health probes and workers' reports only, and another 64 health probes only.
    pub connections_max: usize,
    /// How long the head of a request, and then its body, may take to arrive, and how long a client may
    /// take to read the next 256 KiB of a reply. Idle connections are closed after it too.
    pub read_timeout_ms: u64,
    /// How long the engine may take to answer, waiting on purpose not counted.
    pub call_timeout_ms: u64,
    /// How long a stop waits for requests that are being answered.
    pub grace_ms: u64,
    /// The services it hosts; `None`: others do.
    pub services: Option<ServiceOptions>,
    /// What people call the store where they are told how it is doing: its URL without secrets. `None`: by
    /// its engine.
    pub store: Option<String>,
    /// What looks how full the store's disk is; `None`: nothing does.
    pub disk: Option<DiskProbe>,
    /// What writes the metrics of this process as text, for `/metrics`; `None`: nothing does.
    pub exporter: Option<Exporter>,
    /// Whether metrics of queues are told apart by kind, too: more to see, and more to keep.
    pub metrics_by_kind: bool,
    /// Whether requests that hand over jobs are spans of their own, for whoever makes traces of them.
    pub traces: bool,
    /// Whether metrics tell the ready jobs of queues by priority, too.
    pub metrics_by_priority: bool,
    /// Whether jobs of kinds that are not registered are refused.
    pub strict_kinds: bool,
    /// Jobs that may wait in a queue that has no `max_depth` of its own; more are refused with the time
    /// to come again.
    pub soft_depth: u64,
    /// Jobs that may wait in any queue, even if its own `max_depth` is higher.
    pub hard_depth: u64,
    /// Jobs that one principal may hand over per second, and at once after a rest; `None`: any number.
    pub jobs_per_second: Option<u32>,
}

/// The bounds that can change while a server runs ([`ServerHandle::set_limits`]). They hold for
/// requests, and connections, that come after the change.
///
/// [`ServerHandle::set_limits`]: crate::ServerHandle::set_limits
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one request.
    pub body_bytes_max: usize,
    /// How long the head of a request, and then its body, may take to arrive.
    pub read_timeout_ms: u64,
    /// How long the engine may take to answer.
    pub call_timeout_ms: u64,
    /// How long a stop waits for requests that are being answered.
    pub grace_ms: u64,
}

impl Limits {
    /// Whether every bound can be kept.
    pub fn check(self) -> Result<()> {
        within_range("body_bytes_max", self.body_bytes_max as u64, ranges::BODY_BYTES)?;
        within_range("read_timeout_ms", self.read_timeout_ms, ranges::READ_TIMEOUT_MS)?;
        within_range("call_timeout_ms", self.call_timeout_ms, ranges::CALL_TIMEOUT_MS)?;
        within_range("grace_ms", self.grace_ms, ranges::GRACE_MS)
    }
}

impl Options {
    /// Listens there, with every default.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            hosts: Vec::new(),
            insecure: false,
            tls: None,
            body_bytes_max: BODY_BYTES_DEFAULT,
            bodies_bytes_max: BODIES_BYTES_DEFAULT,
            connections_max: CONNECTIONS_DEFAULT,
            read_timeout_ms: READ_TIMEOUT_DEFAULT_MS,
            call_timeout_ms: CALL_TIMEOUT_DEFAULT_MS,
            grace_ms: GRACE_DEFAULT_MS,
            services: Some(ServiceOptions::default()),
            store: None,
            disk: None,
            exporter: None,
            metrics_by_kind: false,
            traces: false,
            metrics_by_priority: false,
            strict_kinds: false,
            soft_depth: SOFT_DEPTH_DEFAULT,
            hard_depth: HARD_DEPTH_DEFAULT,
            jobs_per_second: None,
        }
    }

    /// Calls the store so in health and readiness. Whoever reaches the server sees it: no secrets.
    #[must_use]
    pub fn store(mut self, name: impl Into<String>) -> Self {
        self.store = Some(name.into());
        self
    }

    /// Watches the store's disk by this, and warns at 80 %.
    #[must_use]
    pub fn disk(mut self, probe: Option<DiskProbe>) -> Self {
        self.disk = probe;
        self
    }

    /// Serves at `/metrics` what this writes.
    #[must_use]
    pub fn exporter(mut self, exporter: Exporter) -> Self {
        self.exporter = Some(exporter);
        self
    }

    /// Tells metrics of queues apart by kind, or not.
    #[must_use]
    pub const fn metrics_by_kind(mut self, by_kind: bool) -> Self {
        self.metrics_by_kind = by_kind;
        self
    }

    /// Makes spans of requests that hand over jobs, or none.
    #[must_use]
    pub const fn traces(mut self, traces: bool) -> Self {
        self.traces = traces;
        self
    }

    /// Tells ready jobs in metrics by priority, or not.
    #[must_use]
    pub const fn metrics_by_priority(mut self, by_priority: bool) -> Self {
        self.metrics_by_priority = by_priority;
        self
    }

    /// Refuses kinds that are not registered, or takes any.
    #[must_use]
    pub const fn strict_kinds(mut self, strict: bool) -> Self {
        self.strict_kinds = strict;
        self
    }

    /// Lets so many jobs wait in a queue without a limit of its own, and so many in any.
    #[must_use]
    pub const fn depths(mut self, soft: u64, hard: u64) -> Self {
        (self.soft_depth, self.hard_depth) = (soft, hard);
        self
    }

    /// Takes so many jobs per second from each principal, or any number.
    #[must_use]
    pub const fn jobs_per_second(mut self, per_second: Option<u32>) -> Self {
        self.jobs_per_second = per_second;
        self
    }

    /// Answers to this name, too.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Lets everybody in while the store has no keys, wherever it listens.
    #[must_use]
    pub const fn insecure(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// Encrypts connections with these files.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// Whether everybody may do everything while the store has no keys. Whoever set up certificates for
    /// clients does not mean that.
    pub(crate) fn is_open(&self) -> bool {
        let certificates = self.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
        (self.listen.ip().is_loopback() && !certificates) || self.insecure
    }

    /// Whether connections are encrypted.
    pub(crate) const fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Hosts these services, or none.
    #[must_use]
    pub fn services(mut self, services: Option<ServiceOptions>) -> Self {
        self.services = services;
        self
    }

    /// Those of the bounds that can change later.
    pub const fn limits(&self) -> Limits {
        Limits {
            body_bytes_max: self.body_bytes_max,
            read_timeout_ms: self.read_timeout_ms,
            call_timeout_ms: self.call_timeout_ms,
            grace_ms: self.grace_ms,
        }
    }

    /// Whether every bound can be kept.
    pub fn check(&self) -> Result<()> {
        self.limits().check()?;
        let (bodies, connections) = (self.bodies_bytes_max as u64, self.connections_max as u64);
        within_range("bodies_bytes_max", bodies, ranges::BODIES_BYTES)?;
        within_range("connections_max", connections, ranges::CONNECTIONS)?;
        if self.bodies_bytes_max < self.body_bytes_max {
            let expected = "it must have room for one request of body_bytes_max";
            return Err(Error::invalid("bodies_bytes_max", self.bodies_bytes_max, expected));
        }
        within_range("soft_depth", self.soft_depth, ranges::DEPTH)?;
        within_range("hard_depth", self.hard_depth, ranges::DEPTH)?;
        if let Some(per_second) = self.jobs_per_second {
            within_range("jobs_per_second", per_second.into(), ranges::JOBS_PER_SECOND)?;
        }
        if self.hard_depth < self.soft_depth {
            let expected = "it must be at most hard_depth";
            return Err(Error::invalid("soft_depth", self.soft_depth, expected));
        }
        self.services
            .as_ref()
            .map_or(Ok(()), |services| services.check().map_err(|error| error.within("services")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_cannot_be_kept_is_refused_by_name() {
        let options = || Options::new(([127, 0, 0, 1], 0).into());
        options().check().unwrap();
        type Spoil = fn(&mut Options);
        let bad: [(Spoil, &str); 6] = [
            (|options| options.soft_depth = 0, "soft_depth"),
            (|options| options.hard_depth = 1, "soft_depth"),
            (|options| options.body_bytes_max = 0, "body_bytes_max"),
            (|options| options.connections_max = 0, "connections_max"),
            (|options| options.bodies_bytes_max = 1, "bodies_bytes_max"),
            (|options| options.read_timeout_ms = u64::MAX, "read_timeout_ms"),
        ];
        for (spoil, field) in bad {
            let mut options = options();
            spoil(&mut options);
            assert_eq!(options.check().unwrap_err().field(), Some(field));
        }
    }
}

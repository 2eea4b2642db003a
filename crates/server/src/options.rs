//! Server options: the listen address, and a limit for each resource and timeout.

use crate::disk::DiskProbe;
use crate::metrics::Exporter;
use crate::ranges;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use windlass_core::limits::{CLAIM_BATCH_MAX, PAYLOAD_BYTES_DEFAULT};
use windlass_core::{Error, Result, within_range, within_time};
use windlass_services::ServiceOptions;

/// Default for `body_bytes_max`: fits the largest job (a payload, a checkpoint and a blob of 16 MiB each)
/// in base64.
const BODY_BYTES_DEFAULT: usize = 72 * 1024 * 1024;
/// Default for `bodies_bytes_max`.
const BODIES_BYTES_DEFAULT: usize = 144 * 1024 * 1024;
/// Room in a body for everything but the payload of a single job.
const BESIDES_PAYLOAD_BYTES: usize = 128 * 1024;
/// Default for `connections_max`.
const CONNECTIONS_DEFAULT: usize = 10_000;
/// Default for `read_timeout`.
const READ_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default for `call_timeout`.
const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default for `grace`.
const GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// Default for `soft_depth`.
const SOFT_DEPTH_DEFAULT: u64 = 100_000;
/// Default for `hard_depth`.
const HARD_DEPTH_DEFAULT: u64 = 500_000;

/// PEM files for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The server's certificate, followed by intermediate certificates.
    pub cert: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
    /// CA certificates for client authentication. A client certificate signed by one of them
    /// replaces a key.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// TLS with this certificate and private key, without client certificates.
    pub fn new(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { cert: cert.into(), key: key.into(), client_ca: None }
    }

    /// Accepts client certificates signed by these authorities.
    #[must_use]
    pub fn client_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(path.into());
        self
    }
}

/// Configuration of a server. Only `listen` is required.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Address to listen on; port 0 lets the operating system choose.
    pub listen: SocketAddr,
    /// Additional accepted host names, e.g. of a reverse proxy. A server on a loopback address
    /// accepts only its own address, `localhost` and these.
    pub hosts: Vec<String>,
    /// Accepts unauthenticated requests while the store has no keys, even if `listen` is reachable
    /// from other machines. If false, such a server refuses API requests and pages until the first
    /// key is created.
    pub insecure: bool,
    /// TLS, optionally with client certificates; `None` serves plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Maximum bytes of one request body.
    pub body_bytes_max: usize,
    /// Maximum bytes of request bodies in memory, counted as they arrive. Applies separately to three
    /// purposes: producers and operators; reports of workers; sessions, heartbeats and claims.
    /// Traffic for one purpose therefore cannot starve another. One client may use half of it, or
    /// all of it for sessions, heartbeats and claims. A request that finds no memory waits up to 2
    /// seconds and is then refused.
    pub bodies_bytes_max: usize,
    /// Maximum number of connections. At the limit, a new connection replaces an idle one. If none
    /// is idle, 64 extra connections are accepted for health probes and worker reports, and another
    /// 64 for health probes only.
    pub connections_max: usize,
    /// Time for the head of a request to arrive, then for its body, and for the client to read each
    /// 256 KiB of a reply. Also the timeout of idle connections.
    pub read_timeout: Duration,
    /// Time for the engine to answer, excluding the wait that a claim asks for.
    pub call_timeout: Duration,
    /// Time that a shutdown waits for requests in progress.
    pub grace: Duration,
    /// Options of the hosted services; `None` hosts no services.
    pub services: Option<ServiceOptions>,
    /// Display name of the store in health reports: its URL without secrets. `None` uses the
    /// engine's name.
    pub store: Option<String>,
    /// Measures the usage of the store's disk; `None` disables the check.
    pub disk: Option<DiskProbe>,
    /// Renders the metrics of this process for `/metrics`; `None` renders none.
    pub exporter: Option<Exporter>,
    /// Adds a kind label to the metrics of queues, at the cost of more time series.
    pub metrics_by_kind: bool,
    /// Creates a tracing span for each request that enqueues jobs.
    pub traces: bool,
    /// Adds a metric of ready jobs per queue and priority.
    pub metrics_by_priority: bool,
    /// Refuses jobs of unregistered kinds.
    pub strict_kinds: bool,
    /// Maximum number of waiting jobs in a queue without its own `max_depth`. Further jobs are
    /// refused with a retry time.
    pub soft_depth: u64,
    /// Maximum number of waiting jobs in any queue, even if its own `max_depth` is higher.
    pub hard_depth: u64,
    /// Jobs that one principal may enqueue per second, which is also the burst size; `None` is
    /// unlimited.
    pub jobs_per_second: Option<u32>,
}

/// Limits that can change while a server runs ([`ServerHandle::set_limits`]). A change applies to
/// later requests and connections.
///
/// [`ServerHandle::set_limits`]: crate::ServerHandle::set_limits
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum bytes of one request body.
    pub body_bytes_max: usize,
    /// Time for the head of a request to arrive, then for its body.
    pub read_timeout: Duration,
    /// Time for the engine to answer.
    pub call_timeout: Duration,
    /// Time that a shutdown waits for requests in progress.
    pub grace: Duration,
}

impl Limits {
    /// Checks that every limit is within its allowed range.
    pub fn check(self) -> Result<()> {
        within_range("body_bytes_max", self.body_bytes_max as u64, ranges::BODY_BYTES)?;
        within_time("read_timeout", self.read_timeout, ranges::READ_TIMEOUT_MS)?;
        within_time("call_timeout", self.call_timeout, ranges::CALL_TIMEOUT_MS)?;
        within_time("grace", self.grace, ranges::GRACE_MS)
    }
}

impl Options {
    /// Default options for a server on this address.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            hosts: Vec::new(),
            insecure: false,
            tls: None,
            body_bytes_max: BODY_BYTES_DEFAULT,
            bodies_bytes_max: BODIES_BYTES_DEFAULT,
            connections_max: CONNECTIONS_DEFAULT,
            read_timeout: READ_TIMEOUT_DEFAULT,
            call_timeout: CALL_TIMEOUT_DEFAULT,
            grace: GRACE_DEFAULT,
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

    /// Sets the display name of the store in health reports. Every caller can see it, so it must
    /// not contain secrets.
    #[must_use]
    pub fn store(mut self, name: impl Into<String>) -> Self {
        self.store = Some(name.into());
        self
    }

    /// Monitors the store's disk with this probe and warns at 80 % usage.
    #[must_use]
    pub fn disk(mut self, probe: Option<DiskProbe>) -> Self {
        self.disk = probe;
        self
    }

    /// Serves the output of this exporter at `/metrics`.
    #[must_use]
    pub fn exporter(mut self, exporter: Exporter) -> Self {
        self.exporter = Some(exporter);
        self
    }

    /// Adds or omits a kind label on the metrics of queues.
    #[must_use]
    pub const fn metrics_by_kind(mut self, by_kind: bool) -> Self {
        self.metrics_by_kind = by_kind;
        self
    }

    /// Enables or disables spans for requests that enqueue jobs.
    #[must_use]
    pub const fn traces(mut self, traces: bool) -> Self {
        self.traces = traces;
        self
    }

    /// Adds or omits the metric of ready jobs by priority.
    #[must_use]
    pub const fn metrics_by_priority(mut self, by_priority: bool) -> Self {
        self.metrics_by_priority = by_priority;
        self
    }

    /// Refuses or accepts unregistered kinds.
    #[must_use]
    pub const fn strict_kinds(mut self, strict: bool) -> Self {
        self.strict_kinds = strict;
        self
    }

    /// Sets the depth limits: `soft` for queues without their own limit, `hard` for every queue.
    #[must_use]
    pub const fn depths(mut self, soft: u64, hard: u64) -> Self {
        (self.soft_depth, self.hard_depth) = (soft, hard);
        self
    }

    /// Sets the number of jobs per second for each principal; `None` is unlimited.
    #[must_use]
    pub const fn jobs_per_second(mut self, per_second: Option<u32>) -> Self {
        self.jobs_per_second = per_second;
        self
    }

    /// Accepts this host name too.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Accepts unauthenticated requests while the store has no keys, on any listen address.
    #[must_use]
    pub const fn insecure(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// Serves TLS with these files.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// Whether unauthenticated requests are accepted while the store has no keys. Client
    /// certificates turn this off on loopback addresses: they show that authentication is wanted.
    pub(crate) fn is_open(&self) -> bool {
        let certificates = self.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
        (self.listen.ip().is_loopback() && !certificates) || self.insecure
    }

    /// Whether the server uses TLS.
    pub(crate) const fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Sets the options of the hosted services; `None` hosts no services.
    #[must_use]
    pub fn services(mut self, services: Option<ServiceOptions>) -> Self {
        self.services = services;
        self
    }

    /// Checks that a job with the largest payload of a store fits into one request. A server with a
    /// tight limit on bodies may refuse payloads below the default limit.
    pub fn check_payloads(&self, payload_bytes_max: usize) -> Result<()> {
        let needed = base64_bytes(payload_bytes_max) + BESIDES_PAYLOAD_BYTES;
        if payload_bytes_max <= PAYLOAD_BYTES_DEFAULT || self.body_bytes_max >= needed {
            return Ok(());
        }
        let expected = format!(
            "a payload of the store may have {payload_bytes_max} bytes (payload_bytes_max), which needs \
             a body of {needed}; raise body_bytes_max or lower payload_bytes_max"
        );
        Err(Error::invalid("body_bytes_max", self.body_bytes_max, expected))
    }

    /// The number of jobs that one claim may return: their payloads must fit into the memory for
    /// replies. A full claim at the default payload limit is always allowed.
    pub(crate) fn claim_jobs_max(&self, payload_bytes_max: usize) -> u32 {
        let room =
            (self.bodies_bytes_max / 2).max(PAYLOAD_BYTES_DEFAULT * CLAIM_BATCH_MAX as usize);
        let jobs = room / payload_bytes_max.max(PAYLOAD_BYTES_DEFAULT);
        u32::try_from(jobs).unwrap_or(u32::MAX).clamp(1, CLAIM_BATCH_MAX)
    }

    /// The subset of limits that can change at run time.
    pub const fn limits(&self) -> Limits {
        Limits {
            body_bytes_max: self.body_bytes_max,
            read_timeout: self.read_timeout,
            call_timeout: self.call_timeout,
            grace: self.grace,
        }
    }

    /// Checks that every limit is within its allowed range.
    pub fn check(&self) -> Result<()> {
        self.limits().check()?;
        let (bodies, connections) = (self.bodies_bytes_max as u64, self.connections_max as u64);
        within_range("bodies_bytes_max", bodies, ranges::BODIES_BYTES)?;
        within_range("connections_max", connections, ranges::CONNECTIONS)?;
        if self.bodies_bytes_max < self.body_bytes_max {
            let expected = "it must be at least body_bytes_max";
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

/// The length of bytes in base64.
const fn base64_bytes(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::limits::PAYLOAD_BYTES_MAX;

    #[test]
    fn large_payloads_need_bodies_and_claims_that_fit() {
        let mut options = Options::new(([127, 0, 0, 1], 0).into());
        options.check_payloads(PAYLOAD_BYTES_MAX).unwrap();
        assert_eq!(options.claim_jobs_max(PAYLOAD_BYTES_DEFAULT), CLAIM_BATCH_MAX);
        assert_eq!(options.claim_jobs_max(PAYLOAD_BYTES_MAX), 4);
        options.body_bytes_max = 1 << 20;
        options.check_payloads(PAYLOAD_BYTES_DEFAULT).unwrap();
        let error = options.check_payloads(1 << 20).unwrap_err();
        assert_eq!(error.field(), Some("body_bytes_max"));
        assert!(error.to_string().contains("lower payload_bytes_max"), "{error}");
    }

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
            (|options| options.read_timeout = Duration::MAX, "read_timeout"),
        ];
        for (spoil, field) in bad {
            let mut options = options();
            spoil(&mut options);
            assert_eq!(options.check().unwrap_err().field(), Some(field));
        }
    }
}

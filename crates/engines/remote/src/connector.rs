//! Connections to a server: plain, or TLS if the URL is `https`. It knows certificates but nothing
//! about the requests.

use crate::options::Options;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use std::error::Error as StdError;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower_service::Service;
use windlass_core::{Error, Result};

type BoxError = Box<dyn StdError + Send + Sync>;

/// Opens connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connector {
    http: HttpConnector,
    tls: Option<TlsConnector>,
    /// Timeout of the TLS handshake.
    limit: Duration,
}

impl Connector {
    pub(crate) fn new(options: &Options, encrypted: bool) -> Result<Self> {
        let limit = options.connect_timeout;
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.enforce_http(false);
        http.set_connect_timeout(Some(limit));
        let tls = encrypted.then(|| config(options)).transpose()?;
        Ok(Self { http, tls: tls.map(|config| TlsConnector::from(Arc::new(config))), limit })
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.http.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let (plain, tls, limit) = (self.http.call(uri), self.tls.clone(), self.limit);
        Box::pin(async move {
            let plain = plain.await?.into_inner();
            let Some(tls) = tls else { return Ok(TokioIo::new(Stream(Box::new(plain)))) };
            let shaken = tls.connect(ServerName::try_from(host)?, plain);
            let encrypted = tokio::time::timeout(limit, shaken).await??;
            Ok(TokioIo::new(Stream(Box::new(encrypted))))
        })
    }
}

/// TLS configuration: trusted CA certificates and the client certificate.
fn config(options: &Options) -> Result<ClientConfig> {
    let bad = |field: &'static str, path: &Path, error: &dyn std::fmt::Display| {
        Error::invalid(field, path.display(), format!("it cannot be used: {error}"))
    };
    let mut roots = RootCertStore::empty();
    match options.tls_ca() {
        Some(path) => {
            for certificate in certificates("tls_ca", &path)? {
                roots.add(certificate).map_err(|error| bad("tls_ca", &path, &error))?;
            }
        }
        None => {
            // The system may contain certificates that cannot be parsed; use the others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid("url", "https", error.to_string()))?
        .with_root_certificates(roots);
    let mut config = match options.tls_identity()? {
        Some((cert, key)) => {
            let chain = certificates("tls_cert", &cert)?;
            let secret = PrivateKeyDer::from_pem_file(&key)
                .map_err(|error| bad("tls_key", &key, &said(&error)))?;
            let shown = config.with_client_auth_cert(chain, secret);
            shown.map_err(|error| bad("tls_cert", &cert, &error))?
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(field: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    read.map_err(|error| {
        Error::invalid(field, path.display(), format!("it cannot be read: {}", said(&error)))
    })
}

/// Describes an error in a PEM file.
fn said(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it is not a PEM file, or contains no such item".to_owned(),
        other => format!("{other:?}"),
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A plain or encrypted connection.
pub(crate) struct Stream(Box<dyn Duplex>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

//! Encrypted connections: files to a configuration, a certificate to the names in it. It must not know who
//! stands behind a name.

use crate::access::PeerNames;
use crate::options::TlsFiles;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ServerConnection, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use windlass_core::{Error, Result};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// Names of one certificate that are looked at.
const NAMES_MAX: usize = 16;

/// Takes connections with these files.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let provider = Arc::new(ring::default_provider());
    let bad = |field: &'static str, path: &Path, error: &dyn std::fmt::Display| {
        Error::invalid(field, path.display(), format!("it cannot be used: {error}"))
    };
    let certificates = certificates("tls_cert", &files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| bad("tls_key", &files.key, &said(&error)))?;
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| bad("tls_cert", &files.cert, &error))?;
    let config = match &files.client_ca {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in self::certificates("tls_client_ca", path)? {
                roots.add(certificate).map_err(|error| bad("tls_client_ca", path, &error))?;
            }
            // Whoever shows none may still have a key, and probes have neither.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| bad("tls_client_ca", path, &error))?;
            config.with_client_cert_verifier(verifier)
        }
        None => config.with_no_client_auth(),
    };
    let mut config = config
        .with_single_cert(certificates, key)
        .map_err(|error| bad("tls_cert", &files.cert, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(field: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let bad = |why: String| Error::invalid(field, path.display(), why);
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| bad(format!("it cannot be read: {}", said(&error))))?;
    if found.is_empty() {
        return Err(bad("there is no certificate in it; name a PEM file".to_owned()));
    }
    Ok(found)
}

/// What is wrong with a PEM file.
fn said(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it is no PEM file, or holds something else".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The names in the certificate that the client showed, if it did. That the certificate is good was seen to
/// in the handshake.
pub(crate) fn peer_names(connection: &ServerConnection) -> Option<PeerNames> {
    let certificate = connection.peer_certificates()?.first()?;
    Some(PeerNames(names(certificate).into()))
}

fn names(certificate: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = parse_x509_certificate(certificate) else { return Vec::new() };
    let common = certificate.subject().iter_common_name();
    let common = common.filter_map(|name| Some(format!("CN={}", name.as_str().ok()?)));
    let others = certificate.subject_alternative_name().ok().flatten();
    let others = others.iter().flat_map(|names| &names.value.general_names);
    let others = others.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(format!("DNS:{name}")),
        GeneralName::URI(name) => Some(format!("URI:{name}")),
        GeneralName::RFC822Name(name) => Some(format!("EMAIL:{name}")),
        _ => None,
    });
    common.chain(others).take(NAMES_MAX).collect()
}

//! TLS: loads certificate files and extracts names from client certificates. It must not know the
//! principals behind the names.

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
use x509_cert::Certificate;
use x509_cert::attr::AttributeValue;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::{Ia5StringRef, ObjectIdentifier, PrintableStringRef, Utf8StringRef};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Maximum number of names to read from one certificate.
const NAMES_MAX: usize = 16;
/// The attribute type of common names.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Builds a TLS acceptor from these files.
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
            // Client certificates are optional: clients may use a key instead, and health probes
            // have neither.
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
        return Err(bad("it contains no certificate; use a PEM file".to_owned()));
    }
    Ok(found)
}

/// Describes an error in a PEM file.
fn said(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it is not a PEM file, or contains no such item".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The names in the client's certificate, if it sent one. The TLS handshake has verified the
/// certificate.
pub(crate) fn peer_names(connection: &ServerConnection) -> Option<PeerNames> {
    let certificate = connection.peer_certificates()?.first()?;
    Some(PeerNames(names(certificate).into()))
}

fn names(certificate: &[u8]) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(certificate) else { return Vec::new() };
    let certificate = certificate.tbs_certificate;
    let subject = certificate.subject.0.iter().flat_map(|names| names.0.iter());
    let common = subject.filter(|name| name.oid == COMMON_NAME);
    let common = common.filter_map(|name| Some(format!("CN={}", text(&name.value)?)));
    let others = certificate.get::<SubjectAltName>().ok().flatten();
    let others = others.iter().flat_map(|(_, names)| &names.0);
    let others = others.filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(format!("DNS:{name}")),
        GeneralName::UniformResourceIdentifier(name) => Some(format!("URI:{name}")),
        GeneralName::Rfc822Name(name) => Some(format!("EMAIL:{name}")),
        _ => None,
    });
    common.chain(others).take(NAMES_MAX).collect()
}

/// The text of a name, in any of the encodings that certificates use for text in ASCII or UTF-8.
fn text(value: &AttributeValue) -> Option<String> {
    let utf_8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
    let printable = || value.decode_as::<PrintableStringRef<'_>>().map(|text| text.to_string());
    let ascii = || value.decode_as::<Ia5StringRef<'_>>().map(|text| text.to_string());
    utf_8.or_else(|_| printable()).or_else(|_| ascii()).ok()
}

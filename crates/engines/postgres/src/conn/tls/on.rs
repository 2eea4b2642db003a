//! TLS by rustls: certificate verification per mode.

use super::{SslFiles, SslMode, check};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};
use std::fmt::Display;
use std::sync::Arc;
use tokio_postgres::Socket;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass_core::{Error, Result};

pub(crate) type Tls = MakeRustlsConnect;
pub(crate) type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

pub(crate) fn tls(mode: SslMode, files: &SslFiles) -> Result<Tls> {
    check(mode, files)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(mode, files, &provider)?;
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Error::invalid("sslmode", "tls", error.to_string()))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let config = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates("sslcert", cert)?;
            let secret = PrivateKeyDer::from_pem_file(key);
            let secret = secret.map_err(|error| unreadable("sslkey", key, &error))?;
            let with = builder.with_client_auth_cert(chain, secret);
            with.map_err(|error| unreadable("sslcert", cert, &error))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

fn verifier(
    mode: SslMode,
    files: &SslFiles,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>> {
    let checked = || -> Result<Arc<WebPkiServerVerifier>> {
        let roots = Arc::new(roots(files.root.as_deref())?);
        let built =
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider)).build();
        built.map_err(|error| Error::invalid("sslrootcert", "roots", error.to_string()))
    };
    Ok(match mode {
        // As in libpq: a named root certificate is verified.
        SslMode::Require if files.root.is_some() => Arc::new(AnyName(checked()?)),
        SslMode::Disable | SslMode::Prefer | SslMode::Require => {
            Arc::new(AnyCertificate(Arc::clone(provider)))
        }
        SslMode::VerifyCa => Arc::new(AnyName(checked()?)),
        SslMode::VerifyFull => checked()?,
    })
}

/// The root certificates in a file, or those of the system.
fn roots(file: Option<&str>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for root in certificates("sslrootcert", file)? {
                roots.add(root).map_err(|error| unreadable("sslrootcert", file, &error))?;
            }
        }
        None => {
            // Unusable certificates of the system are skipped.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        let from = file.unwrap_or("the system's");
        return Err(Error::invalid(
            "sslrootcert",
            from,
            "there is no certificate: name a PEM file",
        ));
    }
    Ok(roots)
}

fn certificates(field: &'static str, file: &str) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    read.map_err(|error| unreadable(field, file, &error))
}

fn unreadable(field: &'static str, file: &str, why: &dyn Display) -> Error {
    Error::invalid(field, file, format!("it cannot be used ({why}): name a PEM file"))
}

/// Accepts every certificate: protects against passive listeners only.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Verifies everything except the host name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        cert: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        // The name is verified last: if it is wrong, everything else is right.
        match self.0.verify_server_cert(cert, chain, name, ocsp, now) {
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

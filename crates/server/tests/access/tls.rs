//! TLS and client certificates, all created here.

use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use windlass_core::engine::{Admin as _, Enqueue, Jobs as _, StatsRequest};
use windlass_core::model::NewJob;
use windlass_core::{Error, Result};
use windlass_memory::MemoryEngine;
use windlass_remote::{Options as RemoteOptions, RemoteEngine};
use windlass_server::{Options, Server, ServerHandle, TlsFiles};
use windlass_services::{Keys, NewKey};

/// A test CA.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate and its private key, with a common name and a subject alternative name.
    fn certify(&self, common: &str, other: SanType) -> (String, String) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.subject_alt_names.push(other);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

struct Site {
    dir: TempDir,
    authority: Authority,
    server: ServerHandle,
    keys: Keys,
}

impl Site {
    async fn start() -> Self {
        let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let (cert, key) = authority.certify("server", SanType::IpAddress([127, 0, 0, 1].into()));
        write("ca.pem", &authority.pem);
        write("server.pem", &cert);
        write("server.key", &key);
        let file = |name: &str| dir.path().join(name);
        let files = TlsFiles::new(file("server.pem"), file("server.key")).client_ca(file("ca.pem"));
        let options = Options::new(([127, 0, 0, 1], 0).into()).services(None).tls(files);
        let engine = Arc::new(MemoryEngine::new());
        let server = Server::bind(options).await.unwrap().serve(engine.clone()).unwrap();
        Self { dir, authority, server, keys: Keys::new(engine) }
    }

    fn options(&self) -> RemoteOptions {
        let mut options = RemoteOptions::new(format!("https://{}", self.server.address()));
        options.tls_ca = Some(self.dir.path().join("ca.pem"));
        options
    }

    /// A client with a certificate signed by this CA.
    fn shown(&self, by: &Authority, common: &str, other: SanType) -> RemoteOptions {
        let (cert, key) = by.certify(common, other);
        let file = |name: String, text: String| -> PathBuf {
            let path = self.dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mut options = self.options();
        options.tls_cert = Some(file(format!("{common}.pem"), cert));
        options.tls_key = Some(file(format!("{common}.key"), key));
        options
    }
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

async fn enqueue(engine: &RemoteEngine, kind: &str) -> Result<()> {
    engine.enqueue(Enqueue::each([NewJob::new(kind)])).await?.value.remove(0).map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_as_good_as_the_key_that_names_it() {
    let site = Site::start().await;
    let new = NewKey::new("billing", "enqueue:invoice".parse().unwrap()).certificate("CN=billing");
    let (key, secret) = site.keys.create(new).await.unwrap();
    assert!(secret.is_none(), "the certificate is the proof");
    let new = NewKey::new("reports", "view".parse().unwrap()).certificate("DNS:reports.internal");
    site.keys.create(new).await.unwrap();

    let options = site.shown(&site.authority, "billing", dns("x.internal"));
    let billing = RemoteEngine::open(options).await.unwrap();
    enqueue(&billing, "invoice").await.unwrap();
    let refused = enqueue(&billing, "mail").await.unwrap_err();
    assert!(
        matches!(&refused, Error::Forbidden { needs, .. } if needs == "enqueue:mail"),
        "{refused}"
    );
    let reports = site.shown(&site.authority, "r", dns("reports.internal"));
    let reports = RemoteEngine::open(reports).await.unwrap();
    assert_eq!(reports.stats(StatsRequest::default()).await.unwrap().value.len(), 1);

    site.keys.revoke(&key.id).await.unwrap();
    let gone = async { while enqueue(&billing, "invoice").await.is_ok() {} };
    tokio::time::timeout(crate::support::DEADLINE, gone).await.expect("revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unnamed_certificate_or_one_of_another_authority_is_refused() {
    let site = Site::start().await;
    // With client certificates configured, requests are refused while there are no keys, even on
    // loopback.
    let open = RemoteEngine::open(site.options()).await.unwrap_err();
    assert!(matches!(open, Error::Unauthenticated { .. }), "{open}");
    let new = NewKey::new("billing", "admin".parse().unwrap()).certificate("CN=billing");
    site.keys.create(new).await.unwrap();
    let (_, secret) = site.keys.create(NewKey::new("k", "admin".parse().unwrap())).await.unwrap();
    let unnamed = site.shown(&site.authority, "mallory", dns("billing"));
    let mut unnamed_answer = RemoteEngine::open(unnamed).await.unwrap_err();
    // The server's cached keys may be a second old.
    let named = async {
        while !unnamed_answer.to_string().contains("CN=mallory") {
            let again = site.shown(&site.authority, "mallory", dns("billing"));
            unnamed_answer = RemoteEngine::open(again).await.unwrap_err();
        }
    };
    tokio::time::timeout(crate::support::DEADLINE, named).await.expect("it is named");
    assert!(matches!(unnamed_answer, Error::Unauthenticated { .. }), "{unnamed_answer}");
    let forged = site.shown(&Authority::new(), "billing", dns("x"));
    let forged = RemoteEngine::open(forged).await.unwrap_err();
    assert!(matches!(forged, Error::Unavailable { .. }), "no connection at all: {forged}");
    let nothing = RemoteEngine::open(site.options()).await.unwrap_err();
    assert!(matches!(nothing, Error::Unauthenticated { .. }), "{nothing}");
    let by_key = site.options().key(secret.unwrap().expose());
    enqueue(&RemoteEngine::open(by_key).await.unwrap(), "k").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_clients_do_not_trust_and_plain_http_get_no_answer() {
    let site = Site::start().await;
    let mut options = site.options();
    let other = site.dir.path().join("other.pem");
    std::fs::write(&other, Authority::new().pem).unwrap();
    options.tls_ca = Some(other);
    let error = RemoteEngine::open(options).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    let plain = RemoteOptions::new(format!("http://{}", site.server.address()));
    assert!(RemoteEngine::open(plain).await.is_err());
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    std::fs::write(file("empty.pem"), "").unwrap();
    let (cert, key) = Authority::new().certify("server", dns("x"));
    std::fs::write(file("cert.pem"), cert).unwrap();
    std::fs::write(file("key.pem"), key).unwrap();
    let good = || TlsFiles::new(file("cert.pem"), file("key.pem"));
    for (files, field) in [
        (TlsFiles::new(file("none.pem"), file("key.pem")), "tls_cert"),
        (TlsFiles::new(file("empty.pem"), file("key.pem")), "tls_cert"),
        (TlsFiles::new(file("cert.pem"), file("cert.pem")), "tls_key"),
        (good().client_ca(file("empty.pem")), "tls_client_ca"),
    ] {
        let error =
            Server::bind(Options::new(([127, 0, 0, 1], 0).into()).tls(files)).await.unwrap_err();
        assert_eq!(error.field(), Some(field), "{error}");
    }
    Server::bind(Options::new(([127, 0, 0, 1], 0).into()).tls(good())).await.unwrap();
}

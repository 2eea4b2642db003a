//! TLS against a server of the test's own, with certificates made here: what each `sslmode` lets pass.

#![cfg(feature = "tls")]
#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use crate::common::private::PrivateServer;
use crate::common::url;
use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::Path;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_postgres::{Options, PostgresEngine};

/// An authority of our own.
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

    /// A certificate and its key: for these hosts, or for a user by his common name.
    fn certify(&self, hosts: &[&str], user: &str) -> (String, String) {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, user);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A server with TLS, whose certificate is made out to 127.0.0.1 and to no name.
struct Tls {
    server: PrivateServer,
    authority: Authority,
}

const RULES: &str =
    "hostssl all certified 127.0.0.1/32 cert\nhost all postgres 127.0.0.1/32 trust\n";

impl Tls {
    fn start() -> Self {
        let authority = Authority::new();
        let mut server = PrivateServer::new();
        let (cert, key) = authority.certify(&["127.0.0.1"], "server");
        server.write("ca.pem", &authority.pem);
        server.write("server.pem", &cert);
        server.write("server.key", &key);
        server.write("data/pg_hba.conf", RULES);
        let file = |name: &str| server.path(name).display().to_string();
        let settings = [
            "ssl=on".to_owned(),
            format!("ssl_ca_file={}", file("ca.pem")),
            format!("ssl_cert_file={}", file("server.pem")),
            format!("ssl_key_file={}", file("server.key")),
        ];
        server.start(&settings);
        Self { server, authority }
    }

    fn url(&self, user: &str, host: &str, parameters: &str) -> String {
        let port = self.server.port;
        format!("postgres://{user}:s3cr3t@{host}:{port}/postgres?application_name=tls&{parameters}")
    }

    async fn open(&self, host: &str, parameters: &str) -> windlass_core::Result<PostgresEngine> {
        PostgresEngine::connect(Options::new(self.url("postgres", host, parameters))).await
    }

    /// Whether it works, and what of its connections is encrypted.
    async fn encrypted(&self, host: &str, parameters: &str) -> bool {
        let engine = self.open(host, parameters).await.expect(parameters);
        engine.enqueue(Enqueue::each([NewJob::new("hello")])).await.unwrap();
        let plain = self.url("postgres", "127.0.0.1", "").replace("application_name=tls&", "");
        let (client, connection) =
            tokio_postgres::connect(&plain, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let sql = "SELECT bool_and(s.ssl), bool_or(s.ssl) FROM pg_stat_ssl s
            JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'tls'";
        let row = client.query_one(sql, &[]).await.unwrap();
        assert_eq!(row.get::<_, bool>(0), row.get::<_, bool>(1), "all of them alike");
        row.get(0)
    }

    async fn refusal(&self, host: &str, parameters: &str) -> String {
        let error = self.open(host, parameters).await.expect_err(parameters);
        assert_eq!(error.code(), "unavailable", "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error}");
        error.to_string()
    }
}

fn named(parameter: &str, file: &Path) -> String {
    format!("{parameter}={}", file.display())
}

#[tokio::test]
async fn each_mode_verifies_what_it_promises_and_no_more() {
    let tls = Tls::start();
    let ours = named("sslrootcert", &tls.server.path("ca.pem"));
    let stranger = tls.server.path("other.pem");
    std::fs::write(&stranger, Authority::new().pem).unwrap();
    let wrong = named("sslrootcert", &stranger);
    let (host, other_name) = ("127.0.0.1", "localhost");

    assert!(!tls.encrypted(host, "sslmode=disable").await);
    assert!(tls.encrypted(host, "").await, "it is preferred");
    assert!(tls.encrypted(host, "sslmode=prefer").await);
    assert!(tls.encrypted(host, "sslmode=require").await, "any signer is accepted");
    assert!(tls.encrypted(other_name, &format!("sslmode=verify-ca&{ours}")).await);
    assert!(tls.encrypted(host, &format!("sslmode=verify-full&{ours}")).await);

    let error = tls.refusal(other_name, &format!("sslmode=verify-full&{ours}")).await;
    assert!(error.contains("not valid for name"), "{error}");
    for mode in ["require", "verify-ca", "verify-full"] {
        let error = tls.refusal(host, &format!("sslmode={mode}&{wrong}")).await;
        assert!(error.contains("invalid peer certificate"), "{mode}: {error}");
    }
    // The system's roots do not know our authority either.
    for mode in ["verify-ca", "verify-full"] {
        let error = tls.open(host, &format!("sslmode={mode}")).await.expect_err(mode);
        assert!(["unavailable", "invalid"].contains(&error.code()), "{mode}: {error}");
    }
}

#[tokio::test]
async fn a_role_is_known_by_the_certificate_it_shows() {
    let tls = Tls::start();
    let (cert, key) = tls.authority.certify(&[], "certified");
    let (cert_file, key_file) = (tls.server.path("client.pem"), tls.server.path("client.key"));
    std::fs::write(&cert_file, cert).unwrap();
    std::fs::write(&key_file, key).unwrap();
    let plain = tls.url("postgres", "127.0.0.1", "").replace("application_name=tls&", "");
    let (client, connection) =
        tokio_postgres::connect(&plain, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("CREATE ROLE certified LOGIN SUPERUSER").await.unwrap();

    let url = |parameters: &str| tls.url("certified", "127.0.0.1", parameters);
    let shown = [named("sslcert", &cert_file), named("sslkey", &key_file)].join("&");
    let with = format!("sslmode=require&{shown}");
    let engine = PostgresEngine::connect(Options::new(url(&with))).await.unwrap();
    engine.enqueue(Enqueue::each([NewJob::new("hello")])).await.unwrap();
    PostgresEngine::connect(Options::new(url("sslmode=require"))).await.expect_err("unknown");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required_with_the_way_out() {
    let joint = if url().contains('?') { '&' } else { '?' };
    let requested = format!("{}{joint}sslmode=require", url());
    let error = PostgresEngine::connect(Options::new(requested)).await.unwrap_err().to_string();
    assert!(error.contains("TLS") && error.contains("sslmode=prefer"), "{error}");
}

#[tokio::test]
async fn missing_and_unused_files_are_refused_by_name() {
    for (parameters, field) in [
        ("sslmode=verify-full&sslrootcert=/no/such.pem", "sslrootcert"),
        ("sslmode=require&sslcert=/no/such.pem&sslkey=/no/such.key", "sslcert"),
        ("sslmode=require&sslcert=/no/such.pem", "sslcert"),
        ("sslmode=require&sslkey=/no/such.key", "sslkey"),
        ("sslrootcert=/no/such.pem", "sslrootcert"),
        ("sslmode=disable&sslcert=/a&sslkey=/b", "sslcert"),
        ("sslmode=allow", "sslmode"),
        ("sslcrl=/a", "url parameter"),
    ] {
        let url = format!("postgres://ada:s3cr3t@127.0.0.1:1/jobs?{parameters}");
        let error = PostgresEngine::connect(Options::new(url)).await.unwrap_err();
        assert_eq!(error.field(), Some(field), "{parameters}: {error}");
        assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error}");
    }
}

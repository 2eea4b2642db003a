//! The engine beside operators and failures: restricted accounts, servers that stall, sentinels that promote, TLS.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

#[path = "common/server.rs"]
mod server;

use server::{Server, command, connect, enqueue, free_port, run_some, waiting};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use windlass_core::engine::*;
use windlass_redis::Options;

/// The rules of an account, as the guide gives them, with the store `default`.
const RULES: &str = "resetkeys ~windlass:{default}:* resetchannels &windlass:{default}:* -@all +@read +@write \
    +@connection +@pubsub +@scripting -@dangerous -function +function|load +info +time";

#[tokio::test]
async fn an_account_with_the_documented_rules_can_do_everything_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), free_port(), &["--appendonly", "yes"]);
    let mut rules = vec!["ACL", "SETUSER", "app", "on", ">secret"];
    rules.extend(RULES.split_whitespace());
    command(&server.url(), &rules).await.unwrap();
    command(&server.url(), &["SET", "other", "1"]).await.unwrap();
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port);
    for engine in [
        connect(Options::new(&url)).await.unwrap(),
        connect(Options::new(&url).scripts()).await.unwrap(),
    ] {
        // CONFIG is not allowed, so the weaker setting is assumed.
        assert_eq!(engine.capabilities().durability, Durability::Relaxed);
        assert_eq!(enqueue(&engine, 20).await, Ok(20));
        assert_eq!(run_some(&engine, 10).await, Ok(10));
        assert_eq!(engine.check(true).await.unwrap().value.findings, []);
        for work in [Work::Promote, Work::Expire, Work::Reclaim, Work::Retain, Work::Compact] {
            engine.maintain(MaintainRequest::new(work, 100)).await.unwrap();
        }
    }
    for words in [&["GET", "other"][..], &["FLUSHALL"], &["CONFIG", "GET", "dir"], &["KEYS", "*"]] {
        let error = command(&url, words).await.unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"), "{words:?} {error}");
    }
}

#[tokio::test]
async fn a_paused_server_delays_calls_and_a_stopped_one_fails_them_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), free_port(), &[]);
    let options = Options::new(server.url()).reply_within(Duration::from_millis(700));
    let engine = connect(options).await.unwrap();
    assert_eq!(enqueue(&engine, 1).await, Ok(1));
    command(&server.url(), &["CLIENT", "PAUSE", "300", "ALL"]).await.unwrap();
    assert_eq!(enqueue(&engine, 1).await, Ok(1));
    // A waiter blocks on a server that never answers; so do calls. All of them end, and come back with the server.
    let waiter = tokio::spawn({
        let engine = engine.clone();
        async move { engine.wait(Wait::new(["none"], 60_000)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.signal("STOP");
    #[expect(clippy::disallowed_methods, reason = "the limits of calls are of the real clock")]
    let began = Instant::now();
    assert_eq!(enqueue(&engine, 1).await.unwrap_err().code(), "unavailable");
    let waited = tokio::time::timeout(Duration::from_secs(10), waiter).await;
    assert_eq!(waited.expect("it ends").unwrap().unwrap_err().code(), "unavailable");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    server.signal("CONT");
    let stored = loop {
        match enqueue(&engine, 1).await {
            Ok(stored) => break stored,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    assert_eq!(stored, 1);
    // The call that failed may have been carried out.
    assert!((3..=4).contains(&waiting(&engine).await));
}

#[tokio::test]
async fn new_jobs_are_refused_at_the_watermark_and_work_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), free_port(), &["--maxmemory", "1gb"]);
    let engine = connect(Options::new(server.url()).memory_watermark(50)).await.unwrap();
    assert_eq!(enqueue(&engine, 100).await, Ok(100));
    // The server holds a few MB: more than half of this, and less than all of it.
    let used = used_memory(&server).await;
    command(&server.url(), &["CONFIG", "SET", "maxmemory", &(used * 3 / 2).to_string()])
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let refused = enqueue(&engine, 1).await.unwrap_err();
    assert!(refused.code() == "store_full" && refused.to_string().contains("memory_watermark"));
    assert_eq!(run_some(&engine, 100).await, Ok(100));
    command(&server.url(), &["CONFIG", "SET", "maxmemory", "1gb"]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(enqueue(&engine, 1).await, Ok(1));
    let error = connect(Options::new(server.url()).memory_watermark(0)).await.unwrap_err();
    assert_eq!(error.field(), Some("memory_watermark"));
}

async fn used_memory(server: &Server) -> u64 {
    let info = command(&server.url(), &["INFO", "memory"]).await.unwrap();
    let text: String = redis::from_redis_value(info).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_under_load_is_followed_and_leaves_nothing_stuck() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let mut primary =
        Server::start(dirs[0].path(), free_port(), &["--repl-diskless-sync-delay", "0"]);
    let port = primary.port.to_string();
    let replica = Server::start(dirs[1].path(), free_port(), &["--replicaof", "127.0.0.1", &port]);
    let file = dirs[2].path().join("sentinel.conf");
    let watched = free_port();
    let settings = format!(
        "port {watched}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {port} 1\n\
         sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n",
        dirs[2].path().display()
    );
    std::fs::write(&file, settings).unwrap();
    let sentinel = Server::sentinel(&file, watched);
    in_sync(&replica, &sentinel).await;
    let url = format!("redis+sentinel://127.0.0.1:{watched}/main");
    let engine = connect(Options::new(&url).reply_within(Duration::from_secs(1))).await.unwrap();
    // Replication is asynchronous: that is all that can be promised.
    assert_eq!(engine.capabilities().durability, Durability::Volatile);
    let before = engine.health().await.unwrap().epoch;
    let stop = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = (0..3)
        .map(|_| {
            let (engine, stop) = (engine.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    if enqueue(&engine, 5).await.is_err() || run_some(&engine, 3).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    primary.kill();
    let promoted = async {
        loop {
            if let Ok(health) = engine.health().await
                && health.epoch != before
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), promoted).await.expect("a promotion");
    // Workers and producers go on by themselves.
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, Ordering::Relaxed);
    for load in loads {
        load.await.unwrap();
    }
    // A replica has a prefix of what the primary did, so nothing disagrees.
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    while run_some(&engine, 1_000).await.unwrap() > 0 {}
    assert_eq!(waiting(&engine).await, 0);
    assert_eq!(enqueue(&engine, 7).await, Ok(7));
    assert_eq!(run_some(&engine, 10).await, Ok(7));
}

/// A section of INFO; empty while the server does not answer.
async fn info(server: &Server, section: &str) -> String {
    let reply = command(&server.url(), &["INFO", section]).await;
    reply.map_or_else(|_| String::new(), |text| redis::from_redis_value(text).unwrap())
}

/// Waits until the replica has the data, and the sentinel knows the replica.
async fn in_sync(replica: &Server, sentinel: &Server) {
    for _ in 0..300 {
        let replication = info(replica, "replication").await;
        if replication.contains("master_link_status:up")
            && info(sentinel, "sentinel").await.contains("slaves=1")
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the replica does not come up");
}

/// Runs itself again with the certificate of a private authority in the variable that the system's roots come from.
#[test]
fn a_server_with_tls_is_verified_by_the_roots_of_the_system() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let openssl = |args: &[&str]| {
        let made = Command::new("openssl").args(args).output().expect("openssl runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    let (ca, ca_key) = (path("ca.pem"), path("ca.key"));
    let request = ["req", "-x509", "-subj", "/CN=test authority", "-keyout", &ca_key, "-out", &ca];
    openssl(&[&request[..], &key].concat());
    let (cert, cert_key, csr) = (path("cert.pem"), path("cert.key"), path("cert.csr"));
    let request = ["req", "-subj", "/CN=localhost", "-keyout", &cert_key, "-out", &csr];
    openssl(&[&request[..], &key[..5]].concat());
    let names = path("names");
    std::fs::write(&names, "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
    let sign = ["x509", "-req", "-in", &csr, "-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial"];
    openssl(&[&sign[..], &["-out", &cert, "-days", "2", "-extfile", &names]].concat());
    let port = free_port();
    let tls = port.to_string();
    let settings = ["--tls-port", &tls, "--tls-cert-file", &cert, "--tls-key-file", &cert_key];
    let settings = [&settings[..], &["--tls-ca-cert-file", &ca, "--tls-auth-clients", "no"]];
    let _server = Server::start(dir.path(), 0, &settings.concat());
    let connects = |roots: &str| {
        let test = std::env::current_exe().expect("this program");
        let mut again = Command::new(test);
        again.args(["--exact", "connects_by_tls", "--ignored"]);
        again.env("SSL_CERT_FILE", roots).env("WINDLASS_TEST_TLS_PORT", &tls);
        again.output().expect("runs").status.success()
    };
    assert!(connects(&ca), "trusted");
    // The key is no certificate: then no server is trusted.
    assert!(!connects(&ca_key), "not trusted");
}

#[tokio::test]
#[ignore = "another test runs it, with a certificate"]
async fn connects_by_tls() {
    let port = std::env::var("WINDLASS_TEST_TLS_PORT").expect("the port");
    let url = format!("rediss://localhost:{port}");
    let mut tries = 0;
    let engine = loop {
        match windlass_redis::RedisEngine::connect(Options::new(&url)).await {
            Ok(engine) => break engine,
            Err(error) if tries == 20 => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        tries += 1;
    };
    assert_eq!(enqueue(&engine, 3).await, Ok(3));
    assert_eq!(run_some(&engine, 3).await, Ok(3));
}

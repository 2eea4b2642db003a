//! Clients that mean harm, all at once for a minute, against a real server process: uploads that do not go
//! on, batches of millions of tiny jobs, replies that are never read, and thousands of connections that say
//! nothing. Workers beside them keep their leases, the server stays small, and probes are answered.

use crate::serving::{Serving, serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use windlass_core::engine::*;
use windlass_core::model::{NewJob, State};
use windlass_remote::{Options, RemoteEngine};
use windlass_worker::{Raw, Stop, Worker};

/// How long the harm goes on.
const TIME: Duration = Duration::from_secs(60);
/// Connections that say nothing.
const IDLE: usize = 5_000;
/// Uploads that send a byte now and then.
const SLOW: usize = 100;
/// Clients that ask and do not read.
const UNREAD: usize = 100;
/// Clients that send bodies of 64 MB with millions of jobs.
const HUGE: usize = 4;
/// Clients that send full batches of small jobs and do not read the replies.
const BATCHES: usize = 8;
/// Open files that this process needs.
const FILES_MIN: u64 = 8_000;
/// Memory limit of the server.
const MEMORY_KB_MAX: u64 = 512 * 1024;
/// How long a probe may take, beyond what one takes at a server that has nothing else to do.
const PROBE_MAX: Duration = Duration::from_millis(100);
/// Jobs whose leases one worker holds from beginning to end, and how long they last without a heartbeat.
const HELD: u32 = 50;
const TTL_MS: u64 = 10_000;

const HEADERS: &str = "\r\nhost: localhost\r\ncontent-type: application/json\r\n";

/// How often each client did its harm, and how far it came.
#[derive(Default)]
struct Tally {
    slow: AtomicUsize,
    unread: AtomicUsize,
    huge: AtomicUsize,
    batches: AtomicUsize,
    idle: AtomicUsize,
}

/// The 99th percentile and the longest of these.
fn worst(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied();
    (at(99).unwrap_or(Duration::MAX), times.last().copied().unwrap_or(Duration::MAX))
}

/// Asks for `/healthz` again and again, on new connections; how long each took.
fn probe(address: SocketAddr, over: &AtomicBool) -> Vec<Duration> {
    let mut took = Vec::new();
    while !over.load(Ordering::Relaxed) {
        #[expect(clippy::disallowed_methods, reason = "it measures")]
        let begin = std::time::Instant::now();
        let mut stream = std::net::TcpStream::connect(address).expect("a connection");
        let ask = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(ask).expect("send");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        took.push(begin.elapsed());
        std::thread::sleep(Duration::from_millis(50));
    }
    took
}

/// A server that has nothing to do but answer probes: what the machine itself adds to them.
fn idle_server(over: Arc<AtomicBool>) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        }
    });
    address
}

async fn connect(address: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    // Replies that are not read must stay with the server.
    socket.set_recv_buffer_size(4_096).ok()?;
    socket.connect(address).await.ok()
}

/// Announces much, and sends a byte now and then.
async fn slow(address: SocketAddr, tally: Arc<Tally>) {
    loop {
        if let Some(mut stream) = connect(address).await {
            tally.slow.fetch_add(1, Ordering::Relaxed);
            let head =
                format!("POST /v1/jobs/batch HTTP/1.1{HEADERS}content-length: 67000000\r\n\r\n");
            let mut sent = stream.write_all(head.as_bytes()).await;
            while sent.is_ok() {
                sleep(Duration::from_millis(200)).await;
                sent = stream.write_all(b" ").await;
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Asks, and never reads.
async fn unread(address: SocketAddr, tally: Arc<Tally>) {
    loop {
        if let Some(mut stream) = connect(address).await {
            tally.unread.fetch_add(1, Ordering::Relaxed);
            let ask = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
            while stream.write_all(ask.as_bytes()).await.is_ok() {}
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Sends millions of jobs in one request.
async fn huge(address: SocketAddr, tally: Arc<Tally>) {
    let piece = r#"{"kind":"x"},"#.repeat(5_000);
    let count = 66_000_000 / piece.len();
    loop {
        if let Some(mut stream) = connect(address).await {
            tally.huge.fetch_add(1, Ordering::Relaxed);
            let length = count * piece.len() + r#"{"jobs":["#.len();
            let head =
                format!("POST /v1/jobs/batch HTTP/1.1{HEADERS}content-length: {length}\r\n\r\n");
            let mut sent = stream.write_all(format!("{head}{{\"jobs\":[").as_bytes()).await;
            for _ in 0..count {
                if sent.is_err() {
                    break;
                }
                sent = stream.write_all(piece.as_bytes()).await;
            }
            let _ = stream.read(&mut [0; 1024]).await;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Sends full batches, and never reads what became of each job.
async fn batches(address: SocketAddr, tally: Arc<Tally>) {
    let jobs = vec![r#"{"kind":"x","queue":"flood"}"#; 10_000].join(",");
    let body = format!(r#"{{"jobs":[{jobs}]}}"#);
    let length = body.len();
    let ask =
        format!("POST /v1/jobs/batch HTTP/1.1{HEADERS}content-length: {length}\r\n\r\n{body}");
    loop {
        if let Some(mut stream) = connect(address).await {
            while stream.write_all(ask.as_bytes()).await.is_ok() {
                tally.batches.fetch_add(1, Ordering::Relaxed);
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Says nothing, and comes again when it is closed.
async fn idle(address: SocketAddr, tally: Arc<Tally>) {
    loop {
        if let Some(mut stream) = connect(address).await {
            tally.idle.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 16]).await;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Claims jobs and holds their leases until the end; answers how many heartbeats that took.
async fn hold(engine: RemoteEngine, until: Instant) -> usize {
    let session = engine.open_session(OpenSession::new("holder").ttl_ms(TTL_MS)).await.unwrap();
    let session = session.value.id;
    let by = Claimant::Session { session: session.clone(), claim_no: 1 };
    let jobs = engine.claim(Claim::new(by, "held", HELD)).await.unwrap().value.jobs;
    assert_eq!(jobs.len(), HELD as usize);
    let held: Vec<_> =
        jobs.iter().map(|job| Held { id: job.header.id, lease: job.lease.clone() }).collect();
    let mut beats = 0;
    while Instant::now() < until {
        sleep(Duration::from_millis(TTL_MS / 5)).await;
        let beat = Heartbeat::new(session.clone(), 1, held.clone());
        let reply = engine.heartbeat(beat).await.expect("a heartbeat that arrives").value;
        assert!(reply.lost.is_empty(), "{} leases are lost", reply.lost.len());
        beats += 1;
    }
    let items = held.into_iter().map(|it| SettleItem::new(it.id, it.lease, Outcome::DONE));
    let settled = engine.settle(Settle::new(items)).await.unwrap().value;
    assert!(settled.items.iter().all(Result::is_ok), "{:?}", settled.items.first());
    beats
}

fn memory_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// As many open files as the system lets this process have, and not fewer than it needs.
fn raise_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    assert!(files >= FILES_MIN, "{files} open files are too few: raise the limit (`ulimit -Hn`)");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: a minute of hostile clients"]
async fn hostile_producers_cost_workers_no_lease_and_the_server_no_memory() {
    raise_files();
    let dir = tempfile::tempdir().unwrap();
    let mut command = serve(dir.path(), "127.0.0.1:0");
    let server = Serving::by(command.args(["--soft-depth", "20000"]));
    let address: SocketAddr = server.address.parse().unwrap();
    let engine = RemoteEngine::open(Options::new(server.url())).await.unwrap();
    let held = (0..HELD).map(|_| NewJob::new("held").queue("held"));
    engine.enqueue(Enqueue::each(held)).await.unwrap();
    let until = Instant::now() + TIME;
    let holder = tokio::spawn(hold(engine.clone(), until));
    let work = |_: Raw| async {
        sleep(Duration::from_millis(500)).await;
        Ok::<(), Stop>(())
    };
    let shared: Arc<dyn Engine> = Arc::new(engine.clone());
    let worker = Worker::builder(shared).concurrency(8).queue("work").handle_kind("k", work);
    let worker = worker.build().unwrap().start();
    let jobs = (0..400).map(|_| NewJob::new("k").queue("work"));
    let jobs = engine.enqueue(Enqueue::each(jobs)).await.unwrap().value;
    let jobs: Vec<_> = jobs.into_iter().map(|job| job.unwrap().id).collect();

    let over = Arc::new(AtomicBool::new(false));
    let probes = [address, idle_server(over.clone())].map(|address| {
        let over = over.clone();
        std::thread::spawn(move || probe(address, &over))
    });
    let (tally, mut hostile) = (Arc::new(Tally::default()), JoinSet::new());
    for _ in 0..IDLE {
        hostile.spawn(idle(address, tally.clone()));
    }
    for _ in 0..SLOW {
        hostile.spawn(slow(address, tally.clone()));
    }
    for _ in 0..UNREAD {
        hostile.spawn(unread(address, tally.clone()));
    }
    for _ in 0..HUGE {
        hostile.spawn(huge(address, tally.clone()));
    }
    for _ in 0..BATCHES {
        hostile.spawn(batches(address, tally.clone()));
    }
    let beats = holder.await.expect("no lease is lost");
    over.store(true, Ordering::Relaxed);
    hostile.shutdown().await;
    let [(p99, longest), (own_p99, own_longest)] =
        probes.map(|probe| worst(probe.join().expect("probes are answered")));
    let memory_kb = memory_kb(server.pid());
    worker.drain().await;
    let done = engine.get(Get::new(jobs)).await.unwrap().value;
    let done: Vec<_> = done.into_iter().flatten().collect();
    let completed = done.iter().filter(|job| job.state == State::Completed).count();
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    eprintln!(
        "{} idle connections, {} slow uploads, {} unread, {} huge, {} full batches; {beats} heartbeats, \
         {completed} of {} jobs done; memory {} MB; /healthz p99 {p99:?}, longest {longest:?} (idle server: {own_p99:?}, {own_longest:?})",
        count(&tally.idle),
        count(&tally.slow),
        count(&tally.unread),
        count(&tally.huge),
        count(&tally.batches),
        done.len(),
        memory_kb / 1024,
    );
    assert!(count(&tally.idle) >= IDLE, "all came in");
    let crashed = done.iter().filter(|job| job.header.counters.crashes > 0).count();
    assert_eq!(crashed, 0, "jobs whose lease was lost");
    assert!(completed > 0, "workers work on");
    assert!(memory_kb < MEMORY_KB_MAX, "{memory_kb} kB");
    assert!(p99 < PROBE_MAX + own_p99, "{p99:?} for /healthz");
}

#[test]
fn a_server_out_of_files_answers_probes_and_logs_little() {
    let dir = tempfile::tempdir().unwrap();
    let serve = serve(dir.path(), "127.0.0.1:0");
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", r#"ulimit -n 80; exec "$0" "$@""#]).arg(serve.get_program());
    let limited = limited.args(serve.get_args()).stderr(std::process::Stdio::piped());
    let mut server = Serving::by(limited);
    let mut stderr = server.stderr();
    let idle = || std::net::TcpStream::connect(&server.address).expect("a connection");
    let mut connections = Vec::new();
    for _ in 0..10 {
        connections.extend((0..30).map(|_| idle()));
        assert!(server.request("GET", "/healthz", "").starts_with("HTTP/1.1 200"));
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(server);
    let mut log = String::new();
    stderr.read_to_string(&mut log).unwrap();
    let lines = log.lines().filter(|line| line.contains("cannot accept connections")).count();
    assert!((1..=2).contains(&lines), "{lines} lines: {log}");
}

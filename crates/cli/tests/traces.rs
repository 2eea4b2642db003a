//! Traces across processes: a request, the server that takes its job and the worker that runs it, as a collector
//! sees them.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod serving;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;
use serde_json::Value;
use serving::{Serving, serve};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const PAYLOAD: &str = "4111-1111";
const JOB: &str =
    r#"{"kind":"hello","payload":{"card":"4111-1111"},"backoff":{"fixed":{"delay_ms":1}}}"#;
/// A worker and a server with little to do end within this, one after the other, even if their collector never
/// answers. It is less than they would wait for its answers, which is 10 seconds each.
const ENDS_WITHIN: Duration = Duration::from_secs(18);
/// Time within which lost spans are counted.
const COUNTED_WITHIN: Duration = Duration::from_secs(30);

/// A span as received by a collector.
#[derive(Clone, Debug)]
struct Seen {
    service: String,
    name: String,
    trace: String,
    id: String,
    parent: String,
    kind: SpanKind,
    status: StatusCode,
    attempt: i64,
}

/// A collector of traces by OTLP over HTTP.
struct Collector {
    url: String,
    taken: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let taken = Arc::new(Mutex::new(Vec::new()));
        let kept = taken.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, kept) = (stream.unwrap(), kept.clone());
                std::thread::spawn(move || take_from(stream, &kept));
            }
        });
        Self { url, taken }
    }

    fn seen(&self) -> Vec<Seen> {
        self.taken.lock().unwrap().iter().flat_map(spans).collect()
    }

    /// Everything that it received, as one text.
    fn heard(&self) -> String {
        format!("{:?}", self.taken.lock().unwrap())
    }
}

/// Takes requests until the other side is gone.
fn take_from(stream: TcpStream, taken: &Mutex<Vec<ExportTraceServiceRequest>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some((head, body)) = next_request(&mut reader) {
        assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        taken.lock().unwrap().push(ExportTraceServiceRequest::decode(&body[..]).unwrap());
        (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}

/// The head of a request, in small letters, and its body.
fn next_request(reader: &mut impl std::io::BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return None;
        }
    }
    head.make_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    Some((head, body))
}

fn spans(request: &ExportTraceServiceRequest) -> Vec<Seen> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut seen = Vec::new();
    for of_process in &request.resource_spans {
        let resource = of_process.resource.as_ref().unwrap();
        let Some(Any::StringValue(service)) = attribute(&resource.attributes, "service.name")
        else {
            panic!("unknown resource: {resource:?}")
        };
        for span in of_process.scope_spans.iter().flat_map(|it| &it.spans) {
            seen.push(Seen {
                service: service.clone(),
                name: span.name.clone(),
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                kind: span.kind(),
                status: span.status.as_ref().map(|status| status.code()).unwrap_or_default(),
                attempt: match attribute(&span.attributes, "attempt") {
                    Some(Any::IntValue(attempt)) => *attempt,
                    _ => 0,
                },
            });
        }
    }
    seen
}

fn attribute<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a Any> {
    attributes.iter().find(|it| it.key == name)?.value.as_ref()?.value.as_ref()
}

/// A server whose spans go to the collector.
fn serve_traced(dir: &Path, collector: &str, with: &[(&str, &str)]) -> Serving {
    let mut command = serve(&dir.join("store"), "127.0.0.1:0");
    command.env("WINDLASS_TRACES_ENDPOINT", collector).envs(with.iter().copied());
    Serving::by(command.stderr(File::create(dir.join("log")).unwrap()))
}

/// Enqueues a job and returns the stored one.
fn enqueue(server: &Serving, traceparent: Option<&str>) -> Value {
    let header = traceparent.map(|it| format!("traceparent: {it}\r\n")).unwrap_or_default();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{JOB}",
        JOB.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let enqueued = json(&answer);
    json(&server.request("GET", &format!("/v1/jobs/{}", enqueued["id"].as_str().unwrap()), ""))
}

#[track_caller]
fn json(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// A worker that does everything there is, with a command for `hello`, and ends.
fn worker(server: &Serving, command: &str) -> Command {
    let exec = format!("hello={command}");
    let mut worker = Command::new(env!("CARGO_BIN_EXE_windlass"));
    worker.args(["work", "--store", &server.url(), "--exec", &exec, "--until-empty"]);
    for name in ["DIR", "WINDLASS", "WINDLASS_STORE"] {
        worker.args(["--pass-env", name]);
    }
    worker.env("WINDLASS_TRACES_SERVICE", "back").stdin(Stdio::null());
    worker
}

/// Runs it. What it says at the end.
#[track_caller]
fn work(worker: &mut Command) -> String {
    let done = worker.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn one_trace_links_the_request_the_server_and_every_attempt_without_the_payload() {
    let (collector, dir) = (Collector::start(), tempfile::tempdir().unwrap());
    let server = serve_traced(dir.path(), &collector.url, &[("WINDLASS_TRACES_SERVICE", "front")]);
    enqueue(&server, Some(&format!("00-{TRACE}-{PARENT}-01")));
    // Writes its payload to its error, keeps its trace, and succeeds the second time.
    let command = "cat >&2; printf %s \"$TRACEPARENT\" > \"$DIR/$WINDLASS_JOB_ATTEMPT\"; \
                   test \"$WINDLASS_JOB_ATTEMPT\" = 2";
    let mut worker = worker(&server, command);
    worker.env("WINDLASS_TRACES_ENDPOINT", &collector.url).env("DIR", dir.path());
    let said = work(&mut worker);
    assert!(said.starts_with("1 completed, 1 failed attempts"), "{said}");
    server.terminate();

    let mut seen = collector.seen();
    seen.sort_by_key(|span| span.attempt);
    // Claims, heartbeats, settles and looks make no spans.
    let [request, first, second] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((&*request.name, &*request.service), ("POST /v1/jobs", "front"));
    assert_eq!((&*request.trace, &*request.parent), (TRACE, PARENT));
    assert_eq!((request.kind, request.status), (SpanKind::Server, StatusCode::Ok));
    assert_eq!((first.status, second.status), (StatusCode::Error, StatusCode::Ok));
    for (attempt, number) in [(first, 1), (second, 2)] {
        assert_eq!((&*attempt.name, &*attempt.service), ("job hello", "back"));
        assert_eq!((&*attempt.trace, &attempt.parent), (TRACE, &request.id));
        assert_eq!((attempt.kind, attempt.attempt), (SpanKind::Consumer, number));
        let handed_on = std::fs::read_to_string(dir.path().join(number.to_string())).unwrap();
        assert_eq!(handed_on, format!("00-{TRACE}-{}-01", attempt.id), "to go on from the attempt");
    }
    assert!(!collector.heard().contains(PAYLOAD), "{}", collector.heard());
}

#[test]
fn a_trace_leads_on_to_the_jobs_that_a_command_enqueues() {
    let (collector, dir) = (Collector::start(), tempfile::tempdir().unwrap());
    let server = Serving::start(&dir.path().join("store"));
    enqueue(&server, Some(&format!("00-{TRACE}-{PARENT}-01")));
    let mut worker = worker(&server, "\"$WINDLASS\" enqueue bye --trace \"$TRACEPARENT\"");
    worker.args(["--exec", "bye=true"]).env("WINDLASS", env!("CARGO_BIN_EXE_windlass"));
    worker.env("WINDLASS_STORE", server.url()).env("WINDLASS_TRACES_ENDPOINT", &collector.url);
    let said = work(&mut worker);
    assert!(said.starts_with("2 completed, 0 failed attempts"), "{said}");

    let mut seen = collector.seen();
    seen.sort_by(|a, b| b.name.cmp(&a.name));
    // The server makes no spans here.
    let [hello, bye] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((&*hello.name, &*hello.trace, &*hello.parent), ("job hello", TRACE, PARENT));
    assert_eq!((&*bye.name, &*bye.trace, &bye.parent), ("job bye", TRACE, &hello.id));
}

#[test]
fn of_traces_that_begin_here_as_many_are_sent_as_was_said_and_of_others_all_that_are_elsewhere() {
    let (collector, dir) = (Collector::start(), tempfile::tempdir().unwrap());
    let none = [("WINDLASS_TRACES_SAMPLE_PERCENT", "0")];
    let server = serve_traced(dir.path(), &collector.url, &none);
    let begun = enqueue(&server, None);
    let text = begun["trace"].as_str().unwrap();
    assert!(text.starts_with("00-") && text.ends_with("-00"), "handed on, not sent: {text}");
    enqueue(&server, Some(&format!("00-{TRACE}-{PARENT}-01")));
    enqueue(&server, Some(&format!("00-{TRACE}-{PARENT}-00")));
    server.terminate();
    let seen = collector.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!((&*seen[0].trace, &*seen[0].parent), (TRACE, PARENT));
}

#[test]
fn without_the_setting_no_span_is_sent_and_the_trace_is_forwarded_unchanged() {
    let (collector, dir) = (Collector::start(), tempfile::tempdir().unwrap());
    // A variable that makes other programs send spans.
    let others = [("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)];
    let server = Serving::by(serve(&dir.path().join("store"), "127.0.0.1:0").envs(others));
    assert_eq!(enqueue(&server, None)["trace"], Value::Null);
    let given = format!("00-{TRACE}-{PARENT}-01");
    assert_eq!(enqueue(&server, Some(&given))["trace"], *given);
    let command = "printf '%s\n' \"$TRACEPARENT\" >> \"$DIR/traces\"";
    work(worker(&server, command).envs(others).env("DIR", dir.path()));
    server.terminate();
    let traces = std::fs::read_to_string(dir.path().join("traces")).unwrap();
    let traces: BTreeSet<_> = traces.lines().collect();
    assert_eq!(traces, BTreeSet::from(["", &given]));
    assert_eq!(collector.heard(), "[]");
}

#[test]
fn without_a_collector_everything_runs_and_ends_and_what_is_lost_is_counted_and_said() {
    const JOBS: usize = 5;
    let dir = tempfile::tempdir().unwrap();
    // A port without a listener.
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{away}");
    let server = serve_traced(dir.path(), &url, &[]);
    for _ in 0..JOBS {
        enqueue(&server, None);
    }
    let said = work(worker(&server, "true").env("WINDLASS_TRACES_ENDPOINT", &url));
    assert!(said.starts_with(&format!("{JOBS} completed, 0 failed attempts")), "{said}");
    let counted = format!("windlass_spans_lost_total{{why=\"not_sent\"}} {JOBS}\n");
    let requested = Instant::now();
    while !server.request("GET", "/metrics", "").contains(&counted) {
        assert!(requested.elapsed() < COUNTED_WITHIN, "{}", server.request("GET", "/metrics", ""));
        std::thread::sleep(Duration::from_millis(50));
    }
    server.terminate();
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("spans are lost") && log.contains(&url), "{log}");
}

#[test]
fn a_collector_that_never_answers_delays_neither_work_nor_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    // Connections are established but never accepted.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", mute.local_addr().unwrap());
    let server = serve_traced(dir.path(), &url, &[]);
    let requested = Instant::now();
    enqueue(&server, None);
    let said = work(worker(&server, "true").env("WINDLASS_TRACES_ENDPOINT", &url));
    assert!(said.starts_with("1 completed"), "{said}");
    server.terminate();
    assert!(requested.elapsed() < ENDS_WITHIN, "{:?}", requested.elapsed());
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("spans=1") && log.contains("the process ends"), "{log}");
}

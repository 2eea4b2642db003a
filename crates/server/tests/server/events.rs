//! Events over HTTP: pages, waiting, and streams of server-sent events.

use crate::support::{Answer, DEADLINE, assert_problem, call, get, post, start, until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use windlass_server::ServerHandle;

const PATH: &str = "/v1/queues/mail/events";
const STREAM: &str = "/v1/queues/mail/events/stream";

async fn on() -> ServerHandle {
    let server = start().await;
    let set = call(&server, "PATCH", "/v1/queues/mail", json!({"events": {}})).await;
    assert_eq!(set.status, 200, "{set:?}");
    server
}

async fn enqueue(server: &ServerHandle) -> String {
    let created = post(server, "/v1/jobs", json!({"kind": "k", "queue": "mail"})).await;
    created.body["id"].as_str().expect("an id").to_owned()
}

fn text(answer: &Answer, field: &str) -> String {
    answer.body[field].as_str().expect("a text").to_owned()
}

/// An open stream, and what has arrived.
struct Stream {
    socket: TcpStream,
    text: String,
}

impl Stream {
    async fn open(server: &ServerHandle, path: &str, last_id: Option<&str>) -> Self {
        let mut socket = TcpStream::connect(server.address()).await.expect("connect");
        let resumed = last_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{resumed}\r\n");
        socket.write_all(request.as_bytes()).await.expect("send");
        Self { socket, text: String::new() }
    }

    /// Reads until this text has arrived.
    async fn until(&mut self, part: &str) {
        let mut bytes = [0; 4_096];
        while !self.text.contains(part) {
            let read = tokio::time::timeout(DEADLINE, self.socket.read(&mut bytes)).await;
            let read = read.unwrap_or_else(|_| panic!("no {part:?} in {:?}", self.text));
            let count = read.expect("readable");
            assert!(count > 0, "ended without {part:?}: {:?}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// The id of the last message.
    fn last_id(&self) -> &str {
        let (_, last) = self.text.rsplit_once("id: ").expect("an id");
        last.lines().next().unwrap_or_default()
    }
}

#[tokio::test]
async fn a_page_has_events_and_the_next_begins_after_it() {
    let server = on().await;
    let (first, second) = (enqueue(&server).await, enqueue(&server).await);
    let page = get(&server, &format!("{PATH}?limit=1")).await;
    let event = &page.body["events"][0];
    assert_eq!((&event["job"], &event["event"]), (&json!(first), &json!("enqueue")), "{page:?}");
    assert_eq!((&event["state"], &event["number"]), (&json!("available"), &json!(1)));
    assert_eq!(page.body["gap"], json!(false));
    assert!(page.header("windlass-now").is_some());
    let next = text(&page, "next");
    let page = get(&server, &format!("{PATH}?after={next}")).await;
    assert_eq!(page.body["events"][0]["job"], json!(second));
    let end = get(&server, &format!("{PATH}?after=latest")).await;
    assert_eq!((end.body["events"].clone(), &end.body["next"]), (json!([]), &page.body["next"]));
}

#[tokio::test]
async fn a_request_waits_for_an_event() {
    let server = on().await;
    let address = format!("{PATH}?after=latest&wait_ms=30000");
    let waiting = get(&server, &address);
    let (page, id) = tokio::join!(waiting, async {
        until("it waits", || server.status().waiting == 1).await;
        enqueue(&server).await
    });
    assert_eq!(page.body["events"][0]["job"], json!(id));
    let page = get(&server, &format!("{PATH}?after=latest&wait_ms=20")).await;
    assert_eq!((page.status, &page.body["events"]), (200, &json!([])));
}

#[tokio::test]
async fn bad_requests_name_their_field() {
    let server = on().await;
    let other = get(&server, "/v1/queues/other/events").await;
    assert_problem(&other, 422, "queue");
    for (query, field) in [("after=x", "after"), ("limit=0", "limit"), ("wait_ms=60001", "wait_ms")]
    {
        assert_problem(&get(&server, &format!("{PATH}?{query}")).await, 422, field);
    }
    assert_problem(&get(&server, &format!("{STREAM}?after=x")).await, 422, "after");
    assert_problem(&get(&server, "/v1/queues/other/events/stream").await, 422, "queue");
    let bounds = json!({"events": {"max": 0}});
    assert_problem(&call(&server, "PATCH", "/v1/queues/mail", bounds).await, 422, "events.max");
}

#[tokio::test]
async fn a_stream_sends_events_as_they_happen_and_resumes_after_its_last_id() {
    let server = on().await;
    let early = enqueue(&server).await;
    let mut stream = Stream::open(&server, STREAM, None).await;
    stream.until(&early).await;
    assert!(stream.text.contains("content-type: text/event-stream"), "{}", stream.text);
    let late = enqueue(&server).await;
    stream.until(&late).await;
    let id = stream.last_id().to_owned();
    drop(stream);
    let missed = enqueue(&server).await;
    let mut stream = Stream::open(&server, STREAM, Some(&id)).await;
    stream.until(&missed).await;
    assert!(!stream.text.contains(&late) && !stream.text.contains("event: gap"), "{}", stream.text);
}

#[tokio::test]
async fn a_stream_from_the_latest_event_has_an_id_before_its_first_message() {
    let server = on().await;
    let early = enqueue(&server).await;
    let mut stream = Stream::open(&server, &format!("{STREAM}?after=latest"), None).await;
    stream.until("id: ").await;
    let id = stream.last_id().to_owned();
    drop(stream);
    let missed = enqueue(&server).await;
    let mut stream = Stream::open(&server, &format!("{STREAM}?after=latest"), Some(&id)).await;
    stream.until(&missed).await;
    assert!(!stream.text.contains(&early));
}

#[tokio::test]
async fn a_stream_reports_a_gap_and_the_reason_of_its_end() {
    let server = on().await;
    let mut stream = Stream::open(&server, STREAM, None).await;
    stream.until("id: ").await;
    let id = stream.last_id().to_owned();
    call(&server, "PATCH", "/v1/queues/mail", json!({"events": {"max": 1}})).await;
    enqueue(&server).await;
    let last = enqueue(&server).await;
    let mut late = Stream::open(&server, STREAM, Some(&id)).await;
    late.until(&last).await;
    assert!(late.text.contains("event: gap"), "{}", late.text);
    call(&server, "PATCH", "/v1/queues/mail", json!({"events": Value::Null})).await;
    late.until("event: problem").await;
    assert!(late.text.contains("events are off"), "{}", late.text);
}

#[tokio::test]
async fn streams_are_bounded_and_end_with_their_clients_and_the_server() {
    let server = on().await;
    let mut streams = Vec::new();
    for _ in 0..256 {
        let mut stream = Stream::open(&server, STREAM, None).await;
        stream.until("id: ").await;
        streams.push(stream);
    }
    assert_eq!(get(&server, STREAM).await.status, 503);
    assert_eq!(get(&server, PATH).await.status, 200, "without waiting");
    assert_eq!(get(&server, &format!("{PATH}?wait_ms=1")).await.status, 503);
    drop(streams.drain(1..));
    let another = async {
        loop {
            let mut stream = Stream::open(&server, STREAM, None).await;
            let mut head = [0; 12];
            stream.socket.read_exact(&mut head).await.expect("a status");
            if head.ends_with(b"200") {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, another).await.expect("places become free");
}

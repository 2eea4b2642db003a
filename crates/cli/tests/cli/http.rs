//! `windlass work --http`: what becomes of a job by what a server answers.

use crate::support::{Store, until};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Head and body of a request.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// A server that answers every request with what `answer` makes of its path.
fn serve(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (String, Requests) {
    let answer = Arc::new(answer);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Requests::default();
    let seen = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (seen, answer) = (seen.clone(), answer.clone());
            std::thread::spawn(move || exchange(stream.unwrap(), &*answer, &seen));
        }
    });
    (address, requests)
}

fn exchange(stream: TcpStream, answer: &dyn Fn(&str) -> String, seen: &Requests) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    seen.lock().unwrap().push((head, String::from_utf8(body).unwrap()));
    reader.get_mut().write_all(answer(&path).as_bytes()).unwrap();
}

fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
}

#[test]
fn a_job_is_posted_and_the_answer_is_its_result() {
    let store = Store::new();
    let (address, requests) = serve(|_| response("200 OK", "", r#"{"ok":true}"#));
    let id = store.enqueue(&["x", r#"{"n":1}"#, "--trace", "00-aa-bb-01"]);
    store.work(&["--http", &format!("x={address}/jobs")]);
    let job = store.job(&id);
    assert_eq!((&job["state"], &job["result"]), (&json!("completed"), &json!({ "ok": true })));
    let (head, body) = requests.lock().unwrap().remove(0);
    assert!(head.starts_with("POST /jobs HTTP/1.1"), "{head}");
    let expected = [
        format!("windlass-job-id: {id}"),
        "windlass-job-attempt: 1".into(),
        "traceparent: 00-aa".into(),
    ];
    assert!(expected.iter().all(|line| head.contains(line)), "{head}");
    assert_eq!(body, r#"{"n":1}"#);
}

#[test]
fn answers_say_never_or_later() {
    let store = Store::new();
    let (address, requests) = serve(|path| match path {
        "/bad" => response("422 Unprocessable Entity", "", "no such user"),
        "/moved" => response("301 Moved Permanently", "location: /ok\r\n", ""),
        "/busy" => response("429 Too Many Requests", "", ""),
        "/broken" => response("503 Service Unavailable", "retry-after: 3600\r\n", "oops"),
        _ => response("204 No Content", "", ""),
    });
    let handlers: Vec<_> = ["bad", "moved", "busy", "broken", "ok"]
        .into_iter()
        .map(|kind| format!("--http={kind}={address}/{kind}"))
        .collect();
    let ids = ["bad", "moved", "busy", "broken", "ok"]
        .map(|kind| store.enqueue(&[kind, "--backoff", "50m"]));
    let handlers: Vec<_> = handlers.iter().map(String::as_str).collect();
    let worker = store.start_work(&handlers);
    // A drain lets running handlers finish and answers open requests.
    until("all were asked", || requests.lock().unwrap().len() == 5);
    worker.drain().ok();
    let of = |id: &str| {
        let job = store.job(id);
        (job["state"].clone(), job["error"]["code"].clone())
    };
    assert_eq!(of(&ids[0]), (json!("dead"), json!("http_422")));
    assert_eq!(of(&ids[1]), (json!("dead"), json!("http_301")));
    assert_eq!(of(&ids[2]), (json!("scheduled"), json!("http_429")));
    assert_eq!(of(&ids[3]), (json!("scheduled"), json!("http_503")));
    assert_eq!(of(&ids[4]), (json!("completed"), json!(null)));
}

#[test]
fn a_server_that_is_away_is_tried_again() {
    let store = Store::new();
    let id = store.enqueue(&["x", "--max-attempts", "2", "--backoff", "10ms"]);
    // A port that was free an instant ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    store.work(&["--http", &format!("x=http://127.0.0.1:{port}/")]);
    let job = store.job(&id);
    assert_eq!((&job["state"], &job["failures"]), (&json!("dead"), &json!(2)));
    let error = job["error"]["message"].as_str().unwrap();
    assert!(error.to_lowercase().contains("refused"), "{error}");
}

/// The times at which each path was asked for.
type Asked = Arc<Mutex<Vec<(String, Instant)>>>;

#[expect(clippy::disallowed_methods, reason = "the worker waits by the real clock")]
fn now() -> (Instant, SystemTime) {
    (Instant::now(), SystemTime::now())
}

/// A server that first refuses one request for `/busy`, with the header that `retry_after` writes at that time.
fn refuse_once(retry_after: fn() -> String) -> (String, Asked) {
    let asked = Asked::default();
    let (seen, refused) = (asked.clone(), AtomicBool::new(false));
    let (address, _) = serve(move |path| {
        seen.lock().unwrap().push((path.to_owned(), now().0));
        if path == "/busy" && !refused.swap(true, Ordering::SeqCst) {
            let header = format!("retry-after: {}\r\n", retry_after());
            return response("429 Too Many Requests", &header, "slow down");
        }
        response("204 No Content", "", "")
    });
    (address, asked)
}

/// Runs jobs of two kinds and two queues against that server. Returns the time between the refused request and the next
/// one for `/busy`, and between it and the one for `/free`, and checks that no job has failed.
fn ask_busy(store: &Store, retry_after: fn() -> String) -> (Duration, Duration) {
    let (address, asked) = refuse_once(retry_after);
    let first = store.enqueue(&["busy"]);
    let second = store.enqueue(&["busy"]);
    let free = store.enqueue(&["free", "--queue", "other"]);
    let handlers = [format!("busy={address}/busy"), format!("free={address}/free")];
    let mut work = vec!["--concurrency", "1", "--queue", "default", "--queue", "other"];
    work.extend(handlers.iter().flat_map(|handler| ["--http", handler]));
    store.work(&work);
    for id in [&first, &second, &free] {
        let job = store.job(id);
        assert_eq!((&job["state"], &job["failures"]), (&json!("completed"), &json!(0)), "{job}");
    }
    let job = store.job(&first);
    assert_eq!(job["attempt"], json!(2), "{job}");
    assert!(job["log"][0]["text"].as_str().unwrap().contains("429"), "{job}");
    let asked = asked.lock().unwrap();
    let times = |of: &str| -> Vec<Instant> {
        asked.iter().filter(|(path, _)| path == of).map(|(_, at)| *at).collect()
    };
    let busy = times("/busy");
    assert_eq!(busy.len(), 3, "{asked:?}");
    (busy[1] - busy[0], times("/free")[0] - busy[0])
}

#[test]
fn a_service_that_asks_for_fewer_requests_holds_the_limit_of_the_job() {
    let store = Store::new();
    store.run(&["limits", "set", "api", "--max-running", "9"]).ok();
    store.run(&["kinds", "set", "busy", "--limit", "api"]).ok();
    let (busy, free) = ask_busy(&store, || "1".to_owned());
    assert!(busy >= Duration::from_secs(1), "{busy:?}");
    assert!(free < busy, "other jobs go on: {free:?}");
}

#[test]
fn without_a_limit_the_queue_is_held_until_the_date_that_the_service_names() {
    let date = || {
        let at: chrono::DateTime<chrono::Utc> = (now().1 + Duration::from_secs(2)).into();
        at.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
    };
    let (busy, free) = ask_busy(&Store::new(), date);
    // A date has whole seconds: it is one to two seconds away.
    assert!(busy > Duration::from_secs(1), "{busy:?}");
    assert!(free < busy, "another queue goes on: {free:?}");
}

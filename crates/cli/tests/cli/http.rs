//! `windlass work --http`: what becomes of a job by what a server answers.

use crate::support::{Store, until};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Head and body of a request.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// A server that answers every request with what `answer` makes of its path.
fn serve(answer: fn(&str) -> String) -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Requests::default();
    let seen = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let seen = seen.clone();
            std::thread::spawn(move || exchange(stream.unwrap(), answer, &seen));
        }
    });
    (address, requests)
}

fn exchange(stream: TcpStream, answer: fn(&str) -> String, seen: &Requests) {
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
        "/busy" => response("429 Too Many Requests", "retry-after: 3600\r\n", ""),
        "/broken" => response("500 Internal Server Error", "", "oops"),
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
    assert_eq!(of(&ids[3]), (json!("scheduled"), json!("http_500")));
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

//! The payload limit of a store, as it is configured and as clients of a server meet it.

use crate::serving::Serving;
use crate::{stderr, windlass};
use std::path::Path;

const LARGE_BYTES: usize = 10 << 20;

fn serve(dir: &Path, arguments: &[&str]) -> Serving {
    let always = ["serve", "--listen", "127.0.0.1:0", "--store", "file:store"];
    Serving::by(&mut windlass(dir, &[&always[..], arguments].concat()))
}

/// Enqueues a job with a JSON payload of this size; returns the reply.
fn enqueue(server: &Serving, bytes: usize) -> String {
    let text = "x".repeat(bytes - 2);
    server.request("POST", "/v1/jobs", &format!(r#"{{"kind":"k","payload":"{text}"}}"#))
}

#[test]
fn a_payload_of_10_mib_passes_through_a_server_that_allows_it_and_is_refused_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &[]);
    let refused = enqueue(&server, LARGE_BYTES);
    assert!(refused.starts_with("HTTP/1.1 413"), "{refused}");
    assert!(refused.contains("payload") && refused.contains("65536"), "{refused}");
    drop(server);

    let server = serve(dir.path(), &["--payload-max", "10M"]);
    let stored = enqueue(&server, LARGE_BYTES);
    assert!(stored.starts_with("HTTP/1.1 201"), "{stored}");
    let refused = enqueue(&server, LARGE_BYTES + 1);
    assert!(refused.starts_with("HTTP/1.1 413"), "{refused}");
    let claimed = server.request("POST", "/v1/claim", r#"{"queues":["default"]}"#);
    assert!(claimed.len() > LARGE_BYTES, "with its payload");
    let reply = server.request("GET", "/v1/capabilities", "");
    assert!(reply.contains(r#""payload_bytes_max":10485760"#), "{reply}");
    drop(server);

    // The directory keeps its limit.
    let server = serve(dir.path(), &[]);
    assert!(enqueue(&server, LARGE_BYTES).starts_with("HTTP/1.1 201"));
}

#[test]
fn a_limit_that_cannot_hold_is_refused_at_the_start_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        (["--payload-max", "17M"], ["--payload-max", "16M"]),
        (["--set", "store.payload_bytes_max=0"], ["store.payload_bytes_max", "16M"]),
    ] {
        let serve = [&["serve", "--listen", "127.0.0.1:0"][..], &arguments].concat();
        let output = windlass(dir.path(), &serve).output().unwrap();
        assert!(!output.status.success());
        let text = stderr(&output);
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    let file = "[server]\nbody_bytes_max = \"1M\"\n\n[store]\npayload_bytes_max = \"1M\"\n";
    std::fs::write(dir.path().join("windlass.toml"), file).unwrap();
    let output = windlass(dir.path(), &["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    let text = stderr(&output);
    assert!(!output.status.success());
    assert!(
        text.contains("server.body_bytes_max") && text.contains("store.payload_bytes_max"),
        "{text}"
    );
}

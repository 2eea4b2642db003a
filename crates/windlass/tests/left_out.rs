//! A program built without an engine says how to get it.
//!
//! `cargo test -p windlass --no-default-features --test left_out`

#![cfg(not(all(
    feature = "local",
    feature = "memory",
    feature = "postgres",
    feature = "redis",
    feature = "remote"
)))]

/// The URL of an engine and the feature that brings it.
const ENGINES: [(&str, &str, bool); 5] = [
    ("memory:", "memory", cfg!(feature = "memory")),
    ("file:./jobs", "local", cfg!(feature = "local")),
    ("postgres://127.0.0.1/jobs", "postgres", cfg!(feature = "postgres")),
    ("redis://127.0.0.1:6379", "redis", cfg!(feature = "redis")),
    ("http://127.0.0.1:7474", "remote", cfg!(feature = "remote")),
];

#[tokio::test]
async fn an_engine_that_was_left_out_is_named_with_its_feature() {
    for (url, feature, _) in ENGINES.iter().filter(|(.., is_in)| !is_in) {
        let error = windlass::connect(url).await.unwrap_err().to_string();
        assert!(error.contains(url) && error.contains(&format!("feature {feature:?}")), "{error}");
    }
}

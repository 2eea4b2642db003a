//! From a URL to a store.

use crate::support::*;
use std::path::Path;
use std::sync::Arc;
use windlass::engine::{Capabilities, Durability};
use windlass::{Client, Url, connect};

fn file(dir: &Path) -> String {
    format!("file:{}", dir.display())
}

fn capabilities(client: &Client) -> &Capabilities {
    client.engine().capabilities()
}

#[tokio::test]
async fn memory_is_a_store_of_its_own_each_time_and_clones_share_it() {
    let one = connect("memory:").await.unwrap();
    let other = connect("memory:").await.unwrap();
    assert_eq!(capabilities(&one).engine, "memory");
    let id = one.enqueue(email("ada")).await.unwrap().id();
    assert!(one.clone().get(id).await.unwrap().is_some());
    assert!(other.get(id).await.unwrap().is_none());
}

#[tokio::test]
async fn jobs_in_a_directory_remain_when_it_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let url = file(&dir.path().join("jobs"));
    let client = connect(&url).await.unwrap();
    assert_eq!(capabilities(&client).durability, Durability::Host);
    let ids = futures_util::future::join_all((0..50).map(|n| {
        let client = client.clone();
        async move { client.enqueue(email(&n.to_string())).await.unwrap().id() }
    }))
    .await;
    drop(client);
    let client = connect(&url).await.unwrap();
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(client.job::<SendEmail>(id).payload().await.unwrap(), email(&n.to_string()));
    }
}

#[tokio::test]
async fn a_directory_in_use_and_a_file_in_its_place_are_reported_with_their_url() {
    let dir = tempfile::tempdir().unwrap();
    let url = file(&dir.path().join("jobs"));
    let _owner = connect(&url).await.unwrap();
    let error = connect(&url).await.unwrap_err();
    assert_eq!(error.code(), "in_use");
    assert!(error.to_string().contains(&url), "{error}");

    let taken = dir.path().join("a_file");
    std::fs::write(&taken, "not a directory").unwrap();
    let error = connect(file(&taken)).await.unwrap_err();
    assert!(error.to_string().contains("a_file") && error.as_engine().is_some(), "{error}");
}

#[tokio::test]
async fn a_store_that_is_not_there_yet_says_so_without_the_password() {
    for url in ["redis+cluster://:s3cr3t@db", "rediss+cluster://x:s3cr3t@db"] {
        let error = connect(url).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains("not available in this version"), "{text}");
        assert!(text.contains("@db") && !text.contains("s3cr3t"), "{text}");
        assert_eq!(error.code(), "connect");
    }
}

#[tokio::test]
async fn an_unreachable_database_is_reported_without_the_password() {
    // A port without a listener: it was free a moment ago, and is released.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = connect(format!("postgres://ada:s3cr3t@127.0.0.1:{port}/jobs")).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains(&port.to_string()) && !text.contains("s3cr3t"), "{text}");
}

#[tokio::test]
async fn an_unreachable_server_is_reported_by_its_url_without_the_key() {
    // A port without a listener: it was free a moment ago, and is released.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let error = connect(&url).await.unwrap_err();
    assert_eq!(error.code(), "unavailable");
    assert!(error.to_string().contains(&url), "{error}");
    let error = connect(&format!("http://ada:s3cr3t@127.0.0.1:{port}")).await.unwrap_err();
    assert_eq!(error.code(), "unavailable");
    assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error}");
}

#[tokio::test]
async fn any_engine_will_do() {
    let engine = "memory:".parse::<Url>().unwrap().open().await.unwrap();
    let (client, direct) = (Client::new(engine.clone()), Client::direct(engine.clone()));
    let id = client.enqueue(email("ada")).await.unwrap().id();
    assert!(direct.get(id).await.unwrap().is_some());
    assert!(Arc::ptr_eq(direct.engine(), &engine));
}

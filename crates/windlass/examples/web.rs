//! An axum application that hands work over in a request and answers before it is done.

use axum::Router;
use axum::extract::{Path, State as AppState};
use axum::http::StatusCode;
use axum::routing::post;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use windlass::{Client, Job};

#[derive(Job, Serialize, Deserialize)]
struct Welcome {
    user: String,
}

async fn welcome(job: Welcome) {
    println!("welcome, {}", job.user);
}

/// Once the client has its answer, the job is stored. Requests at the same time share one write.
async fn sign_up(
    AppState(jobs): AppState<Client>,
    Path(user): Path<String>,
) -> Result<(StatusCode, String), (StatusCode, String)> {
    let key = format!("welcome:{user}");
    let job = jobs.enqueue(Welcome { user }).unique(key).await;
    let job = job.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    Ok((StatusCode::ACCEPTED, job.id().to_string()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = windlass::connect("memory:").await?;
    let worker = client.worker().handle(welcome).build()?.start();
    let app = Router::new().route("/users/{user}", post(sign_up)).with_state(client.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    // A user signs up.
    let mut socket = tokio::net::TcpStream::connect(address).await?;
    let request = "POST /users/ada HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    socket.read_to_string(&mut response).await?;
    println!("{}", response.lines().next().unwrap_or_default());
    let id = response.lines().last().unwrap_or_default().parse()?;
    client.job::<Welcome>(id).wait().await?;

    server.abort();
    worker.drain().await;
    Ok(())
}

//! Tests the effect of each network fault on real sockets.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const REQUEST: &[u8] = b"POST /v1/claim HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a server that echoes each chunk and counts them.
async fn echo() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let counted = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 1_024];
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    counted.fetch_add(1, Ordering::SeqCst);
                    if stream.write_all(&buffer[..length]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address.to_string(), seen)
}

/// Sends a request on a new connection and returns the number of bytes received.
async fn request(proxy: &Proxy) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(proxy.address()).await?;
    stream.write_all(REQUEST).await?;
    stream.read(&mut [0; 1_024]).await
}

async fn until(mut is_so: impl FnMut() -> bool) {
    let so = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, so).await.unwrap();
}

#[tokio::test]
async fn bytes_pass_in_clear_and_in_slow_weather() {
    let (upstream, _) = echo().await;
    let proxy = Proxy::start(upstream, 1).await.unwrap();
    assert_eq!(request(&proxy).await.unwrap(), REQUEST.len());
    proxy.set(Weather::Slow { ms: 5 });
    assert_eq!(request(&proxy).await.unwrap(), REQUEST.len());
}

#[tokio::test]
async fn replies_are_lost_after_the_request_has_arrived() {
    let (upstream, seen) = echo().await;
    let proxy = Proxy::start(upstream, 1).await.unwrap();
    proxy.set(Weather::LostReplies);
    let mut lost = 0;
    for _ in 0..60 {
        lost += usize::from(request(&proxy).await.unwrap() == 0);
    }
    assert!((1..60).contains(&lost), "{lost}");
    assert_eq!(seen.load(Ordering::SeqCst), 60);
}

#[tokio::test]
async fn connections_are_reset() {
    let (upstream, _) = echo().await;
    let proxy = Proxy::start(upstream, 1).await.unwrap();
    proxy.set(Weather::Resets);
    let mut errors = Vec::new();
    for _ in 0..60 {
        errors.extend(request(&proxy).await.err());
    }
    assert!((1..60).contains(&errors.len()), "{errors:?}");
}

#[tokio::test]
async fn bytes_sent_while_the_network_is_cut_arrive_later() {
    let (upstream, seen) = echo().await;
    let proxy = Proxy::start(upstream, 1).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    until(|| seen.load(Ordering::SeqCst) == 1).await;
    proxy.set(Weather::Cut);
    stream.write_all(REQUEST).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(50), async {
        until(|| seen.load(Ordering::SeqCst) == 2).await;
    });
    assert!(early.await.is_err(), "it got through");
    proxy.set(Weather::Clear);
    until(|| seen.load(Ordering::SeqCst) == 2).await;
}

#[tokio::test]
async fn requests_arrive_twice_and_are_waited_for() {
    let (upstream, seen) = echo().await;
    let proxy = Proxy::start(upstream, 1).await.unwrap();
    proxy.set(Weather::Repeats);
    for _ in 0..20 {
        assert_eq!(request(&proxy).await.unwrap(), REQUEST.len());
    }
    proxy.calm_down().await;
    assert!((21..=40).contains(&seen.load(Ordering::SeqCst)), "{seen:?}");
}

#[tokio::test]
async fn an_unavailable_store_breaks_connections_and_may_return_at_another_address() {
    let proxy = Proxy::start("127.0.0.1:1".to_owned(), 1).await.unwrap();
    assert!(!matches!(request(&proxy).await, Ok(1..)));
    proxy.toward(echo().await.0);
    assert_eq!(request(&proxy).await.unwrap(), REQUEST.len());
}

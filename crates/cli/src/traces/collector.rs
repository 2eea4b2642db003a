//! Sends batches of spans to a collector by OTLP over HTTP, with a timeout. It must not know what the spans
//! describe, nor how they were batched.

use anyhow::{Context as _, Error, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message as _;
use std::time::Duration;
use tokio::time::timeout;

/// Timeout of a request including its response.
const SEND_MAX: Duration = Duration::from_secs(10);
/// Maximum size of a response, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A client of one collector.
pub(super) struct Collector {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
    /// The resource that all spans belong to.
    resource: ResourceAttributesWithSchema,
}

/// Spans that were not delivered.
pub(super) struct Lost {
    pub(super) spans: u64,
    pub(super) why: String,
}

impl Collector {
    /// A client for the collector at this URL; all spans belong to `resource`.
    pub(super) fn new(url: String, resource: &Resource) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { url, client, resource: resource.into() }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Sends spans once, without retries: spans that do not arrive are lost.
    pub(super) async fn send(&self, spans: Vec<SpanData>) -> Result<(), Lost> {
        let count = spans.len() as u64;
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let answer = timeout(SEND_MAX, self.post(body)).await;
        let answer = answer.with_context(|| format!("no answer within {SEND_MAX:?}")).flatten();
        let answer = answer.map_err(|error| Lost { spans: count, why: format!("{error:#}") })?;
        match answer.partial_success {
            Some(part) if part.rejected_spans > 0 => {
                Err(Lost { spans: part.rejected_spans.unsigned_abs(), why: part.error_message })
            }
            _ => Ok(()),
        }
    }

    async fn post(&self, body: Vec<u8>) -> Result<ExportTraceServiceResponse> {
        let request = Request::post(&self.url)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::from(body))?;
        let answer = self.client.request(request).await?;
        let status = answer.status();
        ensure!(status.is_success(), "HTTP status {status}");
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(Error::from_boxed).context("the response was cut off")?.to_bytes();
        // The status decides; the body is used only if it can be decoded.
        Ok(ExportTraceServiceResponse::decode(body).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// The result of sending an empty batch to a collector that answers like this.
    async fn answered(status: &str, body: &[u8]) -> Result<(), (u64, String)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let collector = Collector::new(url, &Resource::builder_empty().build());
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0, "a request");
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        };
        let (sent, ()) = tokio::join!(collector.send(Vec::new()), answer);
        sent.map_err(|lost| (lost.spans, lost.why))
    }

    #[tokio::test]
    async fn spans_that_a_collector_refuses_are_lost_for_its_reason() {
        let some = ExportTracePartialSuccess { rejected_spans: 3, error_message: "old".to_owned() };
        let some = ExportTraceServiceResponse { partial_success: Some(some) }.encode_to_vec();
        assert_eq!(answered("200 OK", &some).await, Err((3, "old".to_owned())));
        let all = "HTTP status 503 Service Unavailable".to_owned();
        assert_eq!(answered("503 Service Unavailable", b"").await, Err((0, all)));
        assert_eq!(answered("200 OK", b"").await, Ok(()));
        assert_eq!(answered("200 OK", b"what is said in passing").await, Ok(()));
        let long = vec![0; ANSWER_BYTES_MAX + 1];
        let (_, why) = answered("200 OK", &long).await.unwrap_err();
        assert!(why.contains("length limit exceeded"), "{why}");
    }
}

//! A handler that posts the payload to a URL; the HTTP status decides the outcome.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::time::Duration;
use windlass_core::Timestamp;
use windlass_core::engine::Hold;
use windlass_core::limits::{HOLD_MAX_MS, RESULT_BYTES_MAX};
use windlass_core::time::{Clock as _, SystemClock, millis, rough_span};
use windlass_worker::{Ctx, Done, Ended, FromJob as _, Handler, Need, Raw, Stop};

/// Timeout for connecting; the response may take as long as the job's timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of characters of an error response that become the error of the job.
const ERROR_CHARS_MAX: usize = 2_000;
/// Maximum delay that a `Retry-After` header can request.
const RETRY_AFTER_MAX: Duration = Duration::from_millis(HOLD_MAX_MS);

/// Posts each job to a URL.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    uri: Uri,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Http {
    /// A handler that posts to this URL.
    pub(crate) fn new(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("invalid URL {url:?}: {error}"))?;
        match uri.scheme_str() {
            Some("http") if uri.host().is_some() => {}
            Some("https") => {
                return Err(format!("{url:?}: https is not supported; use http to a local proxy"));
            }
            _ => {
                return Err(format!(
                    "unsupported URL {url:?}; write it like http://host:port/path"
                ));
            }
        }
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        Ok(Self { uri, client: Client::builder(TokioExecutor::new()).build(connector) })
    }
}

impl Handler<Raw, ()> for Http {
    type Output = Bytes;

    async fn call(self, ctx: Ctx) -> Ended {
        let Raw(payload) = Raw::from_job(&ctx)?;
        let request = self.request(&ctx, payload)?;
        let response = tokio::select! {
            response = self.client.request(request) => response?,
            cause = ctx.cancelled() => return Err(Stop::retry(format!("stopped: {cause}"))),
        };
        outcome_of(&ctx, response).await
    }

    fn needs() -> Vec<Need> {
        Vec::new()
    }
}

impl Http {
    fn request(&self, ctx: &Ctx, payload: Bytes) -> Result<Request<Full<Bytes>>, Stop> {
        let mut request = Request::post(&self.uri)
            .header(CONTENT_TYPE, "application/json")
            .header("windlass-job-id", ctx.id().to_string())
            .header("windlass-job-kind", ctx.kind())
            .header("windlass-job-queue", ctx.queue())
            .header("windlass-job-attempt", ctx.attempt());
        if let Some(trace) = ctx.trace() {
            request = request.header("traceparent", trace);
        }
        let request = request.body(Full::new(payload));
        request.map_err(|error| Stop::fatal(format!("cannot build the request: {error}")))
    }
}

async fn outcome_of(ctx: &Ctx, response: Response<Incoming>) -> Ended {
    let status = response.status();
    let after = retry_after(response.headers(), SystemClock.now());
    let body = Limited::new(response.into_body(), RESULT_BYTES_MAX).collect().await;
    if status.is_success() {
        return match body {
            Ok(body) => Ok(Some(body.to_bytes())
                .filter(|it| !it.is_empty())
                .map_or(Done::NOTHING, Done::bytes)),
            Err(error) if error.is::<LengthLimitError>() => {
                ctx.log(format!(
                    "the response has more than {RESULT_BYTES_MAX} bytes and is not stored as the result"
                ));
                Ok(Done::NOTHING)
            }
            Err(error) => Err(Stop::retry(format!("the response was cut off: {error}"))),
        };
    }
    let said =
        body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
    let said: String = said.trim().chars().take(ERROR_CHARS_MAX).collect();
    let what = if said.is_empty() {
        format!("HTTP status {status}")
    } else {
        format!("HTTP status {status}: {said}")
    };
    if let Some(after) = after.filter(|_| status == StatusCode::TOO_MANY_REQUESTS) {
        return Err(hold(ctx, &what, after));
    }
    let code = format!("http_{}", status.as_u16());
    if !may_succeed(status) {
        return Err(Stop::fatal(what).code(code));
    }
    let stop = Stop::retry(what).code(code);
    Err(match after {
        Some(after) => stop.after(after),
        None => stop,
    })
}

/// The service asks for fewer requests: postpones the job, and all jobs that run under its limits.
fn hold(ctx: &Ctx, what: &str, after: Duration) -> Stop {
    let ms = millis(after);
    let held = match ctx.hold(Hold::limits(ms)) {
        Ok(()) => "its limits, or else its queue, are held",
        // A store without limits.
        Err(_) => "the job waits",
    };
    ctx.log(format!("{held} for {}: {what}", rough_span(ms)));
    Stop::snooze(after)
}

/// Whether a retry of the same request may succeed.
fn may_succeed(status: StatusCode) -> bool {
    let later = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    status.is_server_error() || later.contains(&status)
}

/// Parses `Retry-After`: seconds, or a date. A time that is over says nothing: `None`.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = chrono::DateTime::parse_from_rfc2822(text).ok()?.timestamp_millis();
            Duration::from_millis(Timestamp::from_millis(at).since(now))
        }
    };
    Some(wait.min(RETRY_AFTER_MAX)).filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_posted_to_is_taken() {
        assert!(Http::new("http://127.0.0.1:8080/jobs").is_ok());
        assert!(Http::new("https://example.org").unwrap_err().contains("proxy"));
        for wrong in ["example.org", "ftp://x", "http://", "not a url"] {
            assert!(Http::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_can_ask_to_wait_in_seconds_or_until_an_instant() {
        let wait = |text: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, Timestamp::from_millis(1_445_412_420_000))
        };
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(wait("99999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(wait("soon"), None);
        assert_eq!((wait("0"), wait("Wed, 21 Oct 2015 07:00:00 GMT")), (None, None));
    }
}

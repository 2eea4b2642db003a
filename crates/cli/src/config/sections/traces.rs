//! `[traces]`: export of the spans of requests and jobs.

use super::Section;
use crate::config::field::field;
use crate::config::held::Held;
use crate::config::value::{Kind, Value, Wrong};
use hyper::Uri;

/// Default service name in traces.
const SERVICE_DEFAULT: &str = "windlass";
/// Default share of traces started by this process that are exported, in percent.
const SAMPLE_DEFAULT: u8 = 100;
/// Path at which an OTLP collector accepts traces.
const PATH: &str = "/v1/traces";

pub(super) const SECTION: Section = Section {
    name: "traces",
    doc: "Export of the spans of requests and jobs.",
    fields: &[
        field!(
            "endpoint",
            Kind::TEXT.or_none(),
            Restart,
            traces.endpoint,
            "Base URL of the collector, for OTLP over HTTP, e.g. \"http://127.0.0.1:4318\"; /v1/traces is \
             appended. Without it, no spans are recorded."
        ),
        field!(
            "service",
            Kind::TEXT,
            Restart,
            traces.service,
            "Service name of this process in traces."
        ),
        field!(
            "sample_percent",
            Kind::count(0..=100),
            Restart,
            traces.sample_percent,
            "Percentage of traces started by this process that are exported. Traces started elsewhere follow the \
             sampling decision of their parent."
        ),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Traces {
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) service: String,
    pub(crate) sample_percent: u8,
}

impl Default for Traces {
    fn default() -> Self {
        Self { endpoint: None, service: SERVICE_DEFAULT.to_owned(), sample_percent: SAMPLE_DEFAULT }
    }
}

/// The base URL of a collector: plain HTTP, without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint(String);

impl Endpoint {
    /// The full URL to which traces are posted.
    pub(crate) fn traces(&self) -> String {
        format!("{}{PATH}", self.0.trim_end_matches('/'))
    }
}

impl Held for Endpoint {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        let text = String::from_value(value)?;
        let expected = "write the URL of a collector, as in http://127.0.0.1:4318";
        if text.contains('@') {
            let expected = "a password does not belong in the URL; use a collector near by, which can \
                            authenticate upstream";
            return Err(Wrong { shown: Some("***".to_owned()), expected: expected.to_owned() });
        }
        let uri: Uri = text.parse().map_err(|_| Wrong::from(expected))?;
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        match uri.scheme_str() {
            Some("https") => {
                Err("https is not available; use http to a collector near by, which can forward"
                    .into())
            }
            Some("http") if uri.path().trim_end_matches('/').ends_with(PATH) => {
                Err(format!("leave out {PATH}, which is appended").into())
            }
            Some("http") if has_host && uri.query().is_none() => Ok(Self(text)),
            _ => Err(expected.into()),
        }
    }

    fn value(&self) -> Value {
        Value::Text(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Endpoint, Wrong> {
        Endpoint::from_value(&Value::Text(text.to_owned()))
    }

    #[test]
    fn traces_are_posted_below_the_url_that_was_given() {
        for (given, posted) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector:4318/", "http://collector:4318/v1/traces"),
            ("http://[::1]:4318/otlp", "http://[::1]:4318/otlp/v1/traces"),
        ] {
            assert_eq!(read(given).unwrap().traces(), posted);
        }
    }

    #[test]
    fn invalid_collector_urls_are_refused_with_a_way_out() {
        for (wrong, says) in [
            ("", "http://127.0.0.1:4318"),
            ("127.0.0.1:4318", "http://127.0.0.1:4318"),
            ("ftp://collector", "http://127.0.0.1:4318"),
            ("http://collector?key=1", "http://127.0.0.1:4318"),
            ("https://collector:4318", "https is not available"),
            ("http://collector:4318/v1/traces", "leave out /v1/traces"),
        ] {
            let wrong = read(wrong).unwrap_err();
            assert!(wrong.expected.contains(says), "{wrong:?}");
        }
    }

    #[test]
    fn a_password_in_the_url_is_refused_and_not_shown() {
        for url in ["http://ada:secret@collector:4318", "http://ada:se cret@collector:4318"] {
            let wrong = read(url).unwrap_err();
            assert_eq!(wrong.shown.as_deref(), Some("***"));
            assert!(wrong.expected.contains("collector near by"), "{wrong:?}");
        }
    }
}

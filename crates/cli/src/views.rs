//! Jobs as JSON: as in the HTTP API, with texts instead of base64 where that is possible, because the results of commands
//! are texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use windlass_core::engine::Cursor;
use windlass_core::model;
use windlass_wire::Job;

/// A job.
#[derive(Serialize)]
pub(crate) struct JobView {
    #[serde(flatten)]
    job: Job,
    /// The payload, if it is text and not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
    /// The result, if it is text and not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_text: Option<String>,
}

/// A page of jobs, as the API returns it.
#[derive(Serialize)]
pub(crate) struct PageView {
    pub(crate) jobs: Vec<JobView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<Cursor>,
    pub(crate) examined: u64,
    pub(crate) cut_short: bool,
}

impl From<model::Job> for JobView {
    fn from(job: model::Job) -> Self {
        let mut job = Job::from(job);
        let payload_text = decode(&mut job.payload_base64, &mut job.payload);
        let result_text = decode(&mut job.result_base64, &mut job.result);
        Self { job, payload_text, result_text }
    }
}

/// Moves bytes that are text out of `base64`: to `json` if they are JSON within white space, which most commands print
/// around it; otherwise to the result.
fn decode(base64: &mut Option<String>, json: &mut Option<Box<RawValue>>) -> Option<String> {
    let bytes = STANDARD.decode(base64.as_deref()?).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    *base64 = None;
    match serde_json::from_str(&text) {
        Ok(value) => {
            *json = Some(value);
            None
        }
        Err(_) => Some(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_readable_and_bytes_are_base64() {
        let shown = |bytes: &[u8]| {
            let (mut base64, mut json) = (Some(STANDARD.encode(bytes)), None);
            let text = decode(&mut base64, &mut json);
            (base64, json.map(|json| json.get().to_owned()), text)
        };
        assert_eq!(shown(b"[1e400]\n"), (None, Some("[1e400]".to_owned()), None));
        assert_eq!(shown(b"plain\n"), (None, None, Some("plain\n".to_owned())));
        assert_eq!(shown(&[0xff]), (Some("/w==".to_owned()), None, None));
    }
}

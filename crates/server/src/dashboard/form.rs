//! Parses submitted forms within limits.

use super::failure::Failure;
use crate::app::App;
use crate::body::Raw;
use crate::budget::Held;
use axum::extract::{FromRequest, Request};
use http::StatusCode;

/// Maximum bytes of a form: fits the ids of several hundred selected jobs.
const FORM_BYTES_MAX: usize = 64 * 1024;

/// The fields of a form.
#[derive(Debug)]
pub(super) struct Form {
    fields: Vec<(String, String)>,
}

impl Form {
    /// All values of a field.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// The page to return to, if it is on this server.
    pub(super) fn back(&self) -> Option<&str> {
        self.all("back").next().filter(|path| is_our_page(path))
    }
}

/// Whether it is a path on this server, and not a URL of another server.
pub(super) fn is_our_page(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

impl FromRequest<App> for Form {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let held = Held::by(app, &parts.extensions);
        let raw = Raw::receive(body, app, &held, FORM_BYTES_MAX).await;
        let raw = raw.map_err(|refusal| unreadable(refusal.status(), refusal.detail()))?;
        let fields = serde_urlencoded::from_bytes(&raw.bytes)
            .map_err(|error| unreadable(StatusCode::BAD_REQUEST, &error.to_string()))?;
        Ok(Self { fields })
    }
}

fn unreadable(status: StatusCode, why: &str) -> Failure {
    let detail =
        format!("Nothing was changed: the form cannot be read: {why}. Go back and try again.");
    Failure::new(status, "Invalid form", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_stays_on_this_server() {
        for path in ["/", "/jobs?state=dead&after=x", "/queues/a%2Fb"] {
            assert!(is_our_page(path), "{path}");
        }
        for path in
            ["", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nb", "/ü"]
        {
            assert!(!is_our_page(path), "{path}");
        }
    }
}

//! Static files, embedded in the binary. A file's URL changes with its content, so that browsers
//! can cache it indefinitely.

use super::failure::Failure;
use super::visit::Visit;
use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use http::{HeaderValue, StatusCode};
use std::hash::{DefaultHasher, Hasher as _};

/// The files by name.
const FILES: [(&str, &[u8]); 3] = [
    ("dashboard.css", include_bytes!("../../assets/dashboard.css")),
    ("dashboard.js", include_bytes!("../../assets/dashboard.js")),
    ("icon.svg", include_bytes!("../../assets/icon.svg")),
];

fn file(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, content)| *content)
}

/// The URL of a file, with its current version.
pub(super) fn url(name: &str) -> String {
    let version = file(name).map(version).unwrap_or_default();
    format!("/assets/{name}?v={version}")
}

/// Changes with the content.
fn version(content: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    format!("{:016x}", hasher.finish())
}

const fn media_type(name: &str) -> &'static str {
    match name.as_bytes() {
        [.., b'.', b'c', b's', b's'] => "text/css; charset=utf-8",
        [.., b'.', b'j', b's'] => "text/javascript; charset=utf-8",
        [.., b'.', b's', b'v', b'g'] => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// `GET /assets/{file}`
pub(super) async fn show(visit: Visit, Path(name): Path<String>) -> Result<Response, Failure> {
    let missing = || Failure::not_here(format!("There is no file {name:?}."));
    let content = file(&name).ok_or_else(missing)?;
    let version = version(content);
    let tag = format!("\"{version}\"");
    let mut response = match visit.has.as_deref() == Some(&tag) {
        true => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        false => Response::new(Body::from(content)),
    };
    let kept = match visit.param("v") == Some(&version) {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(&name)));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    Ok(response)
}

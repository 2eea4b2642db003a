//! Parts and results as raw bytes, as an alternative to JSON.

use super::{job_id, only};
use crate::app::App;
use crate::body::{Path, Query, Raw};
use crate::budget::Held;
use crate::openapi::tag;
use crate::reply::{Refusal, Reply, stamp, stamped};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue};
use windlass_core::engine::{Get, Lease, Stamped, Update, UpdateItem};
use windlass_core::model::{Envelope, Job, Part, PartEdit, PartName, PartSet};
use windlass_core::{Error, JobId, Result};
use windlass_wire::routes as paths;
use windlass_wire::{self as wire, BYTES, ENVELOPE_HEADER, JSON, LEASE_HEADER};

/// The data that is available as raw bytes.
enum RawPart {
    Part(PartName),
    Result,
}

impl RawPart {
    fn named(name: &str) -> Result<Self, Refusal> {
        let part = PartName::ALL.into_iter().find(|part| part.as_str() == name);
        match part.map(Self::Part) {
            Some(part) => Ok(part),
            None if name == "result" => Ok(Self::Result),
            None => {
                let hint = "use payload, checkpoint, blob, metadata or result";
                Err(Error::missing("part", name, hint).into())
            }
        }
    }

    const fn parts(&self) -> PartSet {
        match self {
            Self::Part(name) => PartSet::NONE.with(*name),
            Self::Result => PartSet::NONE,
        }
    }

    fn of(&self, job: &mut Job) -> Option<Part> {
        match self {
            Self::Part(name) => job.parts.slot(*name).take(),
            Self::Result => job.result.take(),
        }
    }
}

/// Get the raw bytes of a part or the result
///
/// With the JSON media type if they are valid JSON, otherwise as plain bytes.
#[utoipa::path(
    get, path = paths::JOB_PART, tag = tag::JOBS, operation_id = "get_part",
    params(
        ("id" = wire::openapi::JobId, Path, description = "The job."),
        ("part" = inline(wire::openapi::PartOrResult), Path, description = "Name of the part, or `result`."),
    ),
    responses(
        (
            status = 200,
            content(
                (wire::openapi::Json = "application/json"),
                (wire::openapi::Bytes = "application/octet-stream"),
            ),
            headers((
                "windlass-envelope" = String,
                description = "Encoding of the bytes if they are not plain: an `Envelope` as JSON."
            )),
            description = "The bytes.",
        ),
        (status = 404, description = "There is no such job, or it has no such part."),
    ),
)]
pub(super) async fn get(
    State(app): State<App>,
    Path((id, name)): Path<(String, String)>,
    _: Query<wire::Nothing>,
) -> Reply {
    let (id, which) = (job_id(&id)?, RawPart::named(&name)?);
    let reply = app.call(app.engine.get(Get::new([id]).parts(which.parts()))).await?;
    let Stamped { now, epoch, value } = reply;
    let mut job = value.into_iter().next().flatten().ok_or(Error::NotFound { id })?;
    let part = which.of(&mut job).ok_or_else(|| has_none(id, &name))?;
    raw(Stamped { now, epoch, value: part })
}

/// Write a part of a running job
///
/// Requires the job's lease. The bytes are stored unchanged.
#[utoipa::path(
    put, path = paths::JOB_PART, tag = tag::WORK, operation_id = "put_part",
    params(
        ("id" = wire::openapi::JobId, Path, description = "The job."),
        ("part" = inline(wire::openapi::WritablePart), Path, description = "Name of the part."),
        wire::openapi::RawHeaders,
    ),
    request_body(
        content(
            (wire::openapi::Bytes = "application/octet-stream"),
            (wire::openapi::Json = "application/json"),
        ),
        description = "The bytes.",
    ),
    responses(
        (status = 200, body = wire::Updated, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The lease is lost."),
    ),
)]
pub(super) async fn put(
    State(app): State<App>,
    Path((id, name)): Path<(String, String)>,
    _: Query<wire::Nothing>,
    request: Request,
) -> Reply {
    let id = job_id(&id)?;
    let part = match RawPart::named(&name)? {
        RawPart::Part(part) => part,
        RawPart::Result => return Err(read_only(&name, "`complete` reports the result")),
    };
    let (head, body) = request.into_parts();
    let (lease, envelope) = (lease(&head.headers)?, envelope(&head.headers)?);
    let item = UpdateItem::new(id, lease);
    // Check the part before reading the body, so that a client need not upload 16 MiB to be
    // refused.
    let set: fn(UpdateItem, PartEdit) -> UpdateItem = match part {
        PartName::Checkpoint => UpdateItem::checkpoint,
        PartName::Blob => UpdateItem::blob,
        PartName::Metadata => UpdateItem::metadata,
        PartName::Payload => UpdateItem::payload,
    };
    let payload_bytes_max = app.engine.capabilities().payload_bytes_max;
    let limit = part.bytes_max(payload_bytes_max).min(app.limits().body_bytes_max);
    let held = Held::by(&app, &head.extensions);
    let raw = Raw::receive(body, &app, &held, limit).await?;
    let item = set(item, PartEdit::Set(Part::sealed(envelope, raw.bytes.clone())));
    let reply = app.call(app.engine.update(Update::new([item]))).await?;
    let updated = wire::Updated::from(only(reply.value)?);
    Ok(stamped(Stamped { now: reply.now, epoch: reply.epoch, value: updated }))
}

fn has_none(id: JobId, name: &str) -> Refusal {
    Error::missing("part", format!("{name} of job {id}"), "the job was stored without it").into()
}

fn read_only(name: &str, expected: &'static str) -> Refusal {
    Error::invalid("part", name, expected).into()
}

/// The lease from the request headers.
fn lease(headers: &HeaderMap) -> Result<Lease> {
    let Some(value) = headers.get(LEASE_HEADER) else {
        let expected = "send the lease from the claim of this job in this header";
        return Err(Error::invalid(LEASE_HEADER, "missing", expected));
    };
    let text = std::str::from_utf8(value.as_bytes()).unwrap_or_default();
    let lease = Lease::new(text);
    // Leases are secret and must not appear in messages.
    lease.check().map_err(|_| Error::invalid(LEASE_HEADER, "unfit", "send the lease unchanged"))?;
    Ok(lease)
}

/// The encoding of a request's bytes.
fn envelope(headers: &HeaderMap) -> Result<Envelope> {
    let Some(value) = headers.get(ENVELOPE_HEADER) else { return Ok(Envelope::PLAIN) };
    let envelope = wire::read::<wire::Envelope>(value.as_bytes());
    let envelope = envelope.map_err(|error| match error.field() {
        Some("body") | None => {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            Error::invalid(ENVELOPE_HEADER, text, "it must be JSON, as {\"codec\": \"zstd\"}")
        }
        Some(_) => error.within(ENVELOPE_HEADER),
    })?;
    Ok(envelope.into())
}

/// A reply with raw bytes and, if needed, their encoding.
fn raw(part: Stamped<Part>) -> Reply {
    let bytes: Bytes = part.value.bytes.clone();
    let envelope = part.value.envelope().cloned();
    let is_json =
        envelope.is_none() && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
    let mut response = Response::new(Body::from(bytes));
    stamp(&mut response, &part);
    let headers = response.headers_mut();
    let media = if is_json { JSON } else { BYTES };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The bytes are from an application: browsers must not interpret them as a page of this server.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(envelope) = envelope {
        let text = wire::write(&wire::Envelope::from(envelope));
        let value = HeaderValue::from_bytes(&text).map_err(|error| Error::Corrupt {
            store: "the store".to_owned(),
            reason: format!("the envelope of a part does not fit into a header: {error}"),
        })?;
        headers.insert(ENVELOPE_HEADER, value);
    }
    Ok(response)
}

//! The result of one item of a batch: its reply with `"ok": true`, or its error with `"ok": false`.

use crate::fault::Fault;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use windlass_core::{Error, Result};

/// The result of one item.
#[derive(Debug)]
pub struct Item<T>(pub Result<T>);

/// Results in the order of the request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(serialize = "T: Serialize", deserialize = "T: DeserializeOwned"))]
pub struct Items<T> {
    /// The results.
    pub items: Vec<Item<T>>,
}

/// An empty reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Empty {}

/// An empty request or query.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

impl<T> Items<T> {
    /// Converts the results of an engine, each value with `turn`.
    pub fn new<U>(answers: Vec<Result<U>>, turn: impl Fn(U) -> T) -> Self {
        Self { items: into_items(answers, turn) }
    }

    /// Converts to the results of an engine.
    pub fn into_core<U>(self, turn: impl Fn(T) -> Result<U>) -> Vec<Result<U>> {
        self.items.into_iter().map(|item| item.0.and_then(&turn)).collect()
    }
}

/// Converts the results of an engine, each value with `turn`.
pub fn into_items<T, U>(answers: Vec<Result<U>>, turn: impl Fn(U) -> T) -> Vec<Item<T>> {
    answers.into_iter().map(|answer| Item(answer.map(&turn))).collect()
}

#[derive(Serialize)]
struct Done<'a, T> {
    ok: bool,
    #[serde(flatten)]
    value: &'a T,
}

/// The error of an item.
#[derive(Serialize)]
pub(crate) struct Failed {
    ok: bool,
    detail: String,
    #[serde(flatten)]
    fault: Fault,
}

impl Failed {
    pub(crate) fn new(error: &Error) -> Self {
        Self { ok: false, detail: error.to_string(), fault: Fault::from(error.clone()) }
    }
}

impl<T: Serialize> Serialize for Item<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(value) => Done { ok: true, value }.serialize(serializer),
            Err(error) => Failed::new(error).serialize(serializer),
        }
    }
}

#[derive(Deserialize)]
struct Verdict {
    ok: bool,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Item<T> {
    /// Parses twice, because serde cannot inspect raw JSON, as used for parts, and keep it raw.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let verdict: Verdict = serde_json::from_str(text).map_err(D::Error::custom)?;
        if verdict.ok {
            return crate::read_reply(text.as_bytes())
                .map(|value| Self(Ok(value)))
                .map_err(D::Error::custom);
        }
        let fault = serde_json::from_str::<Fault>(text);
        let error = fault.map_or_else(
            |_| Error::invalid("item", text, "this client is older than the server"),
            Fault::into_core,
        );
        Ok(Self(Err(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_says_whether_it_was_done_beside_what_it_says() {
        let id = windlass_core::JobId::from_bytes([7; 16]);
        let items = Items { items: vec![Item(Ok(Empty {})), Item(Err(Error::LeaseLost { id }))] };
        let text = crate::write(&items);
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(json["items"][0], serde_json::json!({"ok": true}));
        assert_eq!(json["items"][1]["ok"], false);
        assert_eq!(json["items"][1]["code"], "lease_lost");
        assert_eq!(json["items"][1]["id"], id.to_string());
        let back: Items<Empty> = crate::read(&text).unwrap();
        assert_eq!(back.into_core(Ok), [Ok(Empty {}), Err(Error::LeaseLost { id })]);
    }
}

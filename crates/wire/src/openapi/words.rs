//! Schemas of string enums, some with a variant that has a value.

use super::{JobId, SpanMs};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ObjectBuilder, OneOfBuilder, Ref, Schema, Type,
};
use utoipa::{PartialSchema, ToSchema};
use windlass_core::{engine, limits, model};

/// A schema for one of these strings.
fn one_of(words: impl IntoIterator<Item = String>, what: &str) -> ObjectBuilder {
    let object = ObjectBuilder::new().schema_type(Type::String).description(Some(what));
    object.enum_values(Some(words))
}

/// A schema for an object with one field.
fn only(field: &str, value: impl Into<RefOr<Schema>>) -> ObjectBuilder {
    let object = ObjectBuilder::new().schema_type(Type::Object).property(field, value);
    object.required(field).additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

/// Declares string enum schemas.
macro_rules! words {
    ($($doc:literal $name:ident: $words:expr;)+) => {$(
        #[doc = $doc]
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                one_of($words.map(|word| word.to_string()), $doc).into()
            }
        }

        impl ToSchema for $name {}
    )+};
}

words! {
    "State of a job." State: model::State::ALL;
    "A part of a job." PartName: model::PartName::ALL.map(model::PartName::as_str);
    "A part of a job, or its result." PartOrResult: ["payload", "checkpoint", "blob", "metadata", "result"];
    "A part of a job that its worker can write." WritablePart: ["payload", "checkpoint", "blob", "metadata"];
    "How to handle missed runs." Missed: ["skip", "once", "all"];
    "A type of maintenance." Work: engine::Work::ALL;
    "How an attempt ended."
        AttemptEnd: ["complete", "retry", "snooze", "fail", "release", "wait", "cancel", "lost"];
    "Jobs among which a key is unique." UniqueScope: ["lane", "queue", "kind", "global"];
    "How to handle a job whose key is held by another."
        OnConflict: ["existing", "replace", "debounce", "throttle", "reject"];
    "Why claims skip a lane."
        Gate: ["queue_paused", "kind_paused", "no_permits", "other"];
    "Type of a cause of a job's state. More may be added." CauseCode: engine::CauseCode::ALL;
    "What happens to a job if one that it depends on is not completed."
        OnFailure: model::OnFailure::ALL.map(model::OnFailure::as_str);
    "Scope of atomic batches." Atomicity: ["queue", "store"];
    "Failures that an acknowledged job survives."
        Durability: ["volatile", "relaxed", "process", "host", "replica"];
}

/// Why a job ended.
#[derive(Debug)]
pub enum Finish {}

impl PartialSchema for Finish {
    fn schema() -> RefOr<Schema> {
        let plain = [
            "completed",
            "failed",
            "attempts_spent",
            "crashes_spent",
            "cancelled",
            "expired",
            "killed",
        ];
        let replaced = only("replaced_by", Ref::from_schema_name("JobId"));
        let dependency = only("dependency", Ref::from_schema_name("JobId"));
        OneOfBuilder::new()
            .description(Some("Why a job ended."))
            .item(one_of(plain.map(str::to_owned), "Why it ended."))
            .item(replaced.description(Some("A newer job with the same unique key replaced it.")))
            .item(dependency.description(Some("A job that it depends on was not completed.")))
            .into()
    }
}

impl ToSchema for Finish {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push(("JobId".to_owned(), JobId::schema()));
    }
}

/// A dependency: an object, or the id of a job.
#[derive(Debug)]
pub enum DependencyOrId {}

impl PartialSchema for DependencyOrId {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .description(Some("A job that another one runs after."))
            .item(
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some("The id of a job; in a flow, also the name of a node.")),
            )
            .item(Ref::from_schema_name("Dependency"))
            .into()
    }
}

impl ToSchema for DependencyOrId {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push(("Dependency".to_owned(), crate::Dependency::schema()));
        <crate::Dependency as ToSchema>::schemas(schemas);
    }
}

/// Order of ready jobs within a lane.
#[derive(Debug)]
pub enum QueueOrder {}

impl PartialSchema for QueueOrder {
    fn schema() -> RefOr<Schema> {
        let plain = ["strict", "lifo", "fair"].map(str::to_owned);
        let ageing = ObjectBuilder::new()
            .schema_type(Type::Object)
            .property("quantum_ms", Ref::from_schema_name("SpanMs"))
            .required("quantum_ms")
            .additional_properties(Some(AdditionalProperties::FreeForm(true)));
        let ageing = only("ageing", ageing);
        OneOfBuilder::new()
            .description(Some("Order of ready jobs within a lane."))
            .item(one_of(plain, "By priority; newest first; round-robin over tenants."))
            .item(
                ageing.description(Some("Waiting for this time raises the priority by one step.")),
            )
            .into()
    }
}

impl ToSchema for QueueOrder {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push(("SpanMs".to_owned(), SpanMs::schema()));
    }
}

/// How long a unique key is held.
#[derive(Debug)]
pub enum UniqueUntil {}

impl PartialSchema for UniqueUntil {
    fn schema() -> RefOr<Schema> {
        let plain = ["finished", "removed"].map(str::to_owned);
        let window = only("window_ms", Ref::from_schema_name("SpanMs"));
        OneOfBuilder::new()
            .description(Some("How long a unique key is held."))
            .item(one_of(plain, "Until the job ends; until it is removed."))
            .item(window.description(Some("For this time from the enqueue.")))
            .into()
    }
}

impl ToSchema for UniqueUntil {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push(("SpanMs".to_owned(), SpanMs::schema()));
    }
}

/// A string field of an envelope.
fn envelope_field() -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
    text.max_length(Some(limits::ENVELOPE_FIELD_BYTES_MAX))
}

/// Encoding of the bytes of a part.
#[derive(Debug)]
pub enum Codec {}

impl PartialSchema for Codec {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .description(Some("Encoding of the bytes of a part."))
            .item(one_of(["plain", "zstd"].map(str::to_owned), "A built-in encoding."))
            .item(only("other", envelope_field()).description(Some("Another encoding, by name.")))
            .into()
    }
}

impl ToSchema for Codec {}

/// Location of the bytes of a part.
#[derive(Debug)]
pub enum Location {}

impl PartialSchema for Location {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .description(Some("Location of the bytes of a part."))
            .item(one_of(["inline".to_owned()], "In the part itself."))
            .item(only("at", envelope_field()).description(Some("At an address in another store.")))
            .into()
    }
}

impl ToSchema for Location {}

#[cfg(test)]
mod tests {
    use super::super::tests::schema;
    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::Value as Any;
    use windlass_core::policy;

    /// The strings that a schema allows.
    fn words(schema: &Any) -> &[Any] {
        let of = if schema["enum"].is_array() { schema } else { &schema["oneOf"][0] };
        of["enum"].as_array().map_or(&[], Vec::as_slice)
    }

    fn assert_words<S: PartialSchema, T: DeserializeOwned>() {
        let schema = schema::<S>();
        assert!(!words(&schema).is_empty(), "{schema}");
        for word in words(&schema) {
            assert!(serde_json::from_value::<T>(word.clone()).is_ok(), "{word}");
        }
    }

    #[test]
    fn every_word_is_one_that_core_knows() {
        assert_words::<State, model::State>();
        assert_words::<PartName, model::PartName>();
        assert_words::<AttemptEnd, model::AttemptEnd>();
        assert_words::<UniqueScope, policy::UniqueScope>();
        assert_words::<OnConflict, policy::OnConflict>();
        assert_words::<UniqueUntil, policy::Until>();
        assert_words::<WritablePart, model::PartName>();
        assert_words::<Missed, policy::Missed>();
        assert_words::<Finish, model::Finish>();
        assert_words::<OnFailure, model::OnFailure>();
        assert_words::<QueueOrder, model::Order>();
        assert_words::<Codec, model::Codec>();
        assert_words::<Location, model::Location>();
    }

    #[test]
    fn alternatives_with_a_value_are_described_as_core_writes_them() {
        let id = windlass_core::JobId::from_bytes([7; 16]);
        let cases = [
            (serde_json::to_value(model::Finish::ReplacedBy(id)).unwrap(), schema::<Finish>()),
            (
                serde_json::to_value(model::Order::Ageing { quantum_ms: 1 }).unwrap(),
                schema::<QueueOrder>(),
            ),
            (serde_json::to_value(policy::Until::window_ms(1)).unwrap(), schema::<UniqueUntil>()),
            (serde_json::to_value(model::Codec::Other("x".into())).unwrap(), schema::<Codec>()),
            (serde_json::to_value(model::Location::At("x".into())).unwrap(), schema::<Location>()),
        ];
        for (value, schema) in cases {
            let fields = value.as_object().unwrap().keys().collect::<Vec<_>>();
            let reported = schema["oneOf"][1]["properties"].as_object().unwrap();
            assert_eq!(fields, reported.keys().collect::<Vec<_>>());
        }
    }
}

//! Schemas of errors and of batch item results. Flat, unlike the Rust enum: clients match on `code`
//! and read the members.

use super::{JobId, State};
use crate::item::{Item, Items};
use crate::{Changed, DeadItem, Empty, Enqueued, Problem, RecordAnswer, Settled, Updated};
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AllOfBuilder, ArrayBuilder, ObjectBuilder, OneOfBuilder, Ref, Schema, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// All error codes.
const CODES: [&str; 20] = [
    "invalid",
    "too_large",
    "not_found",
    "lease_lost",
    "session_lost",
    "duplicate",
    "refused",
    "state_conflict",
    "queue_full",
    "too_fast",
    "version_conflict",
    "aborted",
    "unsupported",
    "unavailable",
    "busy",
    "store_full",
    "in_use",
    "unauthenticated",
    "forbidden",
    "corrupt",
];

/// The code of an error.
#[derive(Debug)]
pub enum Code {}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let what = "Stable error code to match on. More may be added.";
        let object = ObjectBuilder::new().schema_type(Type::String).description(Some(what));
        object.enum_values(Some(CODES)).into()
    }
}

impl ToSchema for Code {}

/// A failed item of a batch.
#[derive(Debug)]
pub enum Failure {}

impl PartialSchema for Failure {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("A failed item of a batch."))
            .property("ok", literally(false))
            .required("ok");
        with_fault(object).into()
    }
}

impl ToSchema for Failure {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        fault_schemas(schemas);
    }
}

impl PartialSchema for Problem {
    fn schema() -> RefOr<Schema> {
        let urn = text("URI of the problem type: `urn:windlass:` and the code.");
        let status = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(400));
        let object = ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("An error (RFC 9457)."))
            .property("type", urn)
            .required("type")
            .property("status", status.maximum(Some(599)).description(Some("The HTTP status.")))
            .required("status");
        with_fault(object).into()
    }
}

impl ToSchema for Problem {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        fault_schemas(schemas);
    }
}

/// Adds the members of an error to an object.
fn with_fault(object: ObjectBuilder) -> ObjectBuilder {
    let either = SchemaType::from_iter([Type::String, Type::Integer]);
    let expected = ObjectBuilder::new().schema_type(either);
    let expected =
        expected.description(Some("The allowed values; for a record, the expected version."));
    let nullable = SchemaType::from_iter([Type::String, Type::Null]);
    let address = ObjectBuilder::new().schema_type(nullable);
    let address = address.description(Some("Address of the process that owns the store."));
    object
        .property("code", Ref::from_schema_name("Code"))
        .required("code")
        .property("detail", text("Human-readable description of the problem and its solution."))
        .required("detail")
        .property("field", text("Path of the invalid field."))
        .property("value", text("The invalid value."))
        .property("expected", expected)
        .property("size", count("The actual size."))
        .property("limit", count("The maximum size."))
        .property("depth", count("Number of waiting jobs."))
        .property("retry_after_ms", count("Milliseconds to wait before a retry."))
        .property("who", text("Name of the principal."))
        .property("found", count("The actual version; 0 if the record does not exist."))
        .property("culprit", count("Index of the item that aborted the batch."))
        .property("pid", count("Id of the process that owns the store."))
        .property("hint", text("How to solve the problem."))
        .property("what", text("The type of the thing that does not exist."))
        .property("name", text("The name of the thing that does not exist."))
        .property("id", Ref::from_schema_name("JobId"))
        .property("holder", Ref::from_schema_name("JobId"))
        .property("state", Ref::from_schema_name("State"))
        .property("event", text("The refused event."))
        .property("session", text("The session that has ended."))
        .property("key", text("The unique key, or the key of the record."))
        .property("queue", text("The queue that is full."))
        .property("engine", text("The engine."))
        .property("capability", text("The missing capability."))
        .property("store", text("The store."))
        .property("reason", text("Reason reported by the store, or why authentication failed."))
        .property("who", text("Name of the principal."))
        .property("needs", text("The required permission."))
        .property("address", address)
}

fn text(what: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).description(Some(what))
}

fn count(what: &str) -> ObjectBuilder {
    let object = ObjectBuilder::new().schema_type(Type::Integer).description(Some(what));
    object.minimum(Some(0))
}

fn literally(value: bool) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([value]))
}

fn fault_schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push(("Code".to_owned(), Code::schema()));
    schemas.push(("JobId".to_owned(), JobId::schema()));
    schemas.push(("State".to_owned(), State::schema()));
}

impl<T: ToSchema> PartialSchema for Item<T> {
    fn schema() -> RefOr<Schema> {
        let done = ObjectBuilder::new()
            .schema_type(Type::Object)
            .property("ok", literally(true))
            .required("ok");
        let done = AllOfBuilder::new().item(done).item(Ref::from_schema_name(T::name()));
        let failed = Ref::from_schema_name(Failure::name());
        let what = "The reply to an item, or its error.";
        OneOfBuilder::new().description(Some(what)).item(done).item(failed).into()
    }
}

impl<T: ToSchema> ToSchema for Item<T> {
    fn name() -> Cow<'static, str> {
        format!("{}Item", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
        schemas.push((Failure::name().into_owned(), Failure::schema()));
        Failure::schemas(schemas);
    }
}

impl PartialSchema for DeadItem {
    fn schema() -> RefOr<Schema> {
        let named = || {
            let object = ObjectBuilder::new().schema_type(Type::Object);
            object.property("id", Ref::from_schema_name("JobId")).required("id")
        };
        let done = named().property("ok", literally(true)).required("ok");
        let done = done.property("state", Ref::from_schema_name("State"));
        let failed = AllOfBuilder::new().item(Ref::from_schema_name(Failure::name())).item(named());
        let what = "The new state of a dead letter, without `state` if it was deleted; or the \
                    error.";
        OneOfBuilder::new().description(Some(what)).item(done).item(failed).into()
    }
}

impl ToSchema for DeadItem {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Failure::name().into_owned(), Failure::schema()));
        Failure::schemas(schemas);
    }
}

impl<T: ToSchema> PartialSchema for Items<T> {
    fn schema() -> RefOr<Schema> {
        let items = ArrayBuilder::new().items(Ref::from_schema_name(Item::<T>::name()));
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("Results in the order of the request."))
            .property("items", items)
            .required("items")
            .into()
    }
}

impl<T: ToSchema> ToSchema for Items<T> {
    fn name() -> Cow<'static, str> {
        format!("{}Items", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Item::<T>::name().into_owned(), Item::<T>::schema()));
        Item::<T>::schemas(schemas);
    }
}

/// Result types of batch routes, as aliases without type parameters: those would become part of the
/// schema's name.
macro_rules! named {
    ($($doc:literal $name:ident = $type:ty;)+) => {$(
        #[doc = $doc]
        pub type $name = $type;
    )+};
}

named! {
    "Results of an enqueue." EnqueuedItems = Items<Enqueued>;
    "Results of changes of jobs." ChangedItems = Items<Changed>;
    "Results of updates." UpdatedItems = Items<Updated>;
    "Results of changes of settings." EmptyItems = Items<Empty>;
    "Results of record operations." RecordAnswerItems = Items<RecordAnswer>;
    "The result of a report." SettledItem = Item<Settled>;
}

#[cfg(test)]
mod tests {
    use super::super::tests::schema;
    use super::*;
    use crate::fault::tests::errors;

    #[test]
    fn every_error_has_all_its_members() {
        let schema = schema::<Problem>();
        let reported = schema["properties"].as_object().unwrap();
        for error in errors() {
            assert!(CODES.contains(&error.code()), "{error}");
            let problem = serde_json::to_value(Problem::new(error)).unwrap();
            for (member, value) in problem.as_object().unwrap() {
                let reported =
                    &reported.get(member).unwrap_or_else(|| panic!("{member} is not described"));
                let fits = reported["type"] != "integer" || value.is_u64();
                assert!(fits, "{member} is {value}, and described as {reported}");
            }
        }
    }
}

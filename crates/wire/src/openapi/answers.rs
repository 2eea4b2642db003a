//! What a reply looks like when something went wrong, and the answer to one item of a batch, which is
//! one or the other. Flat, where Rust has an enum: programs match on `code` and read the members.

use super::{JobId, State};
use crate::item::{Item, Items};
use crate::{Changed, DeadItem, Empty, Enqueued, Problem, RecordAnswer, Settled, Updated};
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AllOfBuilder, ArrayBuilder, ObjectBuilder, OneOfBuilder, Ref, Schema, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// Everything that can go wrong, by its stable name.
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

/// What went wrong, in one word.
#[derive(Debug)]
pub enum Code {}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let what = "What went wrong, in one word; match on this. More may be added.";
        let object = ObjectBuilder::new().schema_type(Type::String).description(Some(what));
        object.enum_values(Some(CODES)).into()
    }
}

impl ToSchema for Code {}

/// An item of a batch that was not done, and why.
#[derive(Debug)]
pub enum Failure {}

impl PartialSchema for Failure {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("An item that was not done, and why."))
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
        let urn = text("A name for this sort of problem: `urn:windlass:` and the code.");
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

/// The members of an error, added to what it stands in.
fn with_fault(object: ObjectBuilder) -> ObjectBuilder {
    let either = SchemaType::from_iter([Type::String, Type::Integer]);
    let expected = ObjectBuilder::new().schema_type(either);
    let expected = expected.description(Some("What it can hold; of a record, the version."));
    let nullable = SchemaType::from_iter([Type::String, Type::Null]);
    let address = ObjectBuilder::new().schema_type(nullable);
    let address = address.description(Some("Where the process that owns the store listens."));
    object
        .property("code", Ref::from_schema_name("Code"))
        .required("code")
        .property("detail", text("What happened and the way out, for a person."))
        .required("detail")
        .property("field", text("Which field is wrong, by its path."))
        .property("value", text("What it holds."))
        .property("expected", expected)
        .property("size", count("How large it is."))
        .property("limit", count("How large it may be."))
        .property("depth", count("Jobs that wait."))
        .property("retry_after_ms", count("When the same is worth another try."))
        .property("who", text("Whose jobs come too fast."))
        .property("found", count("The version it has; 0 where there is none."))
        .property("culprit", count("The item because of which none was stored."))
        .property("pid", count("The process that owns the store."))
        .property("hint", text("The way out."))
        .property("id", Ref::from_schema_name("JobId"))
        .property("holder", Ref::from_schema_name("JobId"))
        .property("state", Ref::from_schema_name("State"))
        .property("event", text("What was asked of the job."))
        .property("session", text("The session that is gone."))
        .property("key", text("The unique key or the record."))
        .property("queue", text("The queue that is full."))
        .property("engine", text("The engine."))
        .property("capability", text("What it lacks."))
        .property("store", text("Which store."))
        .property("reason", text("What it said, or why nobody is let in."))
        .property("who", text("Who asks, by name."))
        .property("needs", text("What a key must be allowed."))
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
        let what = "What an item asked for, or why it was not done.";
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
        let what = "Where a dead letter stands now, without `state` if it is gone; or why nothing \
                    became of it.";
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
            .description(Some("Answers in the order of the request."))
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

/// The answers of each route that takes a batch, by a name without parameters: those would become part
/// of the name in the document.
macro_rules! named {
    ($($doc:literal $name:ident = $type:ty;)+) => {$(
        #[doc = $doc]
        pub type $name = $type;
    )+};
}

named! {
    "Answers to new jobs." EnqueuedItems = Items<Enqueued>;
    "Answers to changes of jobs." ChangedItems = Items<Changed>;
    "Answers to updates." UpdatedItems = Items<Updated>;
    "Answers to changes of settings." EmptyItems = Items<Empty>;
    "Answers to operations on records." RecordAnswerItems = Items<RecordAnswer>;
    "The answer to a report." SettledItem = Item<Settled>;
}

#[cfg(test)]
mod tests {
    use super::super::tests::schema;
    use super::*;
    use crate::fault::tests::errors;

    #[test]
    fn every_error_is_told_with_all_its_members() {
        let schema = schema::<Problem>();
        let told = schema["properties"].as_object().unwrap();
        for error in errors() {
            assert!(CODES.contains(&error.code()), "{error}");
            let problem = serde_json::to_value(Problem::new(error)).unwrap();
            for (member, value) in problem.as_object().unwrap() {
                let told = &told.get(member).unwrap_or_else(|| panic!("{member} is not told"));
                let fits = told["type"] != "integer" || value.is_u64();
                assert!(fits, "{member} is {value}, and told as {told}");
            }
        }
    }
}

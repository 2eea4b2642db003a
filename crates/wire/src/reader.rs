//! A serde adapter that changes how requests and replies are deserialized, at every depth. Structs
//! are read from objects only: by default, serde also accepts an array with the fields in
//! declaration order. In replies from a newer peer, unknown fields are skipped, even if the type
//! refuses them in requests. The adapter wraps a deserializer, and knows neither JSON nor the
//! types.

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use std::fmt;

/// Names of fields.
type Fields = &'static [&'static str];

/// How to handle unknown fields of a struct.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The type decides; request types refuse them.
    AsTyped,
    /// Skip them.
    PassedOver,
}

/// A serde deserializer, visitor, access or seed with this behaviour.
pub(crate) struct Reader<T> {
    inner: T,
    unknown: Unknown,
    /// The fields of the struct, if unknown fields are skipped.
    known: Option<Fields>,
}

impl Unknown {
    /// Wraps `inner`.
    pub(crate) const fn reader<T>(self, inner: T) -> Reader<T> {
        Reader { inner, unknown: self, known: None }
    }

    /// Wraps `inner` for a struct with these fields.
    fn struct_reader<T>(self, fields: Fields, inner: T) -> Reader<T> {
        let known = (self == Self::PassedOver).then_some(fields);
        Reader { inner, unknown: self, known }
    }
}

/// Forwards methods for values that cannot contain a struct.
macro_rules! ask_plain {
    ($($method:ident)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(visitor)
        }
    )+};
}

/// Forwards methods for values that can contain a struct but are none.
macro_rules! ask {
    ($($method:ident($($arg:ident: $type:ty),*))+) => {$(
        fn $method<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method($($arg,)* self.unknown.reader(visitor))
        }
    )+};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Reader<D> {
    type Error = D::Error;

    ask_plain! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier deserialize_ignored_any
    }

    ask! {
        deserialize_any()
        deserialize_option()
        deserialize_seq()
        deserialize_map()
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_enum(name: &'static str, variants: Fields)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: Fields,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(self.unknown.struct_reader(fields, visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Forwards a plain value.
macro_rules! visit {
    ($($method:ident($($value:ident: $type:ty)?))+) => {$(
        fn $method<E: Error>(self, $($value: $type)?) -> Result<V::Value, E> {
            self.inner.$method($($value)?)
        }
    )+};
}

/// Forwards a value that can contain a struct.
macro_rules! visit_within {
    ($($method:ident: $trait:ident)+) => {$(
        fn $method<A: $trait<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
            self.inner.$method(self.unknown.reader(inner))
        }
    )+};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Reader<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    // Smaller numbers and characters are forwarded as one of these.
    visit! {
        visit_bool(value: bool)
        visit_i64(value: i64)
        visit_i128(value: i128)
        visit_u64(value: u64)
        visit_u128(value: u128)
        visit_f64(value: f64)
        visit_str(value: &str)
        visit_borrowed_str(value: &'de str)
        visit_string(value: String)
        visit_bytes(value: &[u8])
        visit_borrowed_bytes(value: &'de [u8])
        visit_byte_buf(value: Vec<u8>)
        visit_none()
        visit_unit()
    }

    visit_within! {
        visit_some: Deserializer
        visit_newtype_struct: Deserializer
        visit_seq: SeqAccess
        visit_enum: EnumAccess
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let Self { inner, unknown, known } = self;
        inner.visit_map(Reader { inner: fields, unknown, known })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Reader<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(self.unknown.reader(inner))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Reader<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_element_seed(self.unknown.reader(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Reader<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let Some(known) = self.known else { return self.inner.next_key_seed(seed) };
        while let Some(name) = self.inner.next_key::<String>()? {
            if known.contains(&&*name) {
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
            self.inner.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(self.unknown.reader(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Reader<A> {
    type Error = A::Error;
    type Variant = Reader<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.inner.variant_seed(seed)?;
        Ok((value, self.unknown.reader(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Reader<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(self.unknown.reader(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(len, self.unknown.reader(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: Fields,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.newtype_variant_seed(FromMap(self.unknown.struct_reader(fields, visitor)))
    }
}

/// The fields of a struct variant, requested as a map.
struct FromMap<V>(Reader<V>);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for FromMap<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        inner.deserialize_map(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Unknown;
    use crate::{Items, Job, Settings, Updated, read, read_reply};
    use serde::Deserialize as _;
    use serde_json::{Value, json};

    /// Adds an unknown field to every object of the reply, except those under `except`.
    fn with_news(value: &mut Value, except: &[&str]) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| with_news(item, except)),
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    if !except.contains(&&**name) {
                        with_news(field, except);
                    }
                }
                fields.insert("news".to_owned(), json!({"any": ["thing"]}));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn job() -> Value {
        json!({
            "id": "01a1e214-0000-7000-8000-000000000000", "kind": "k", "queue": "q",
            "state": "dead", "payload": {"as": "it  is"}, "priority": 0, "run_at": 1,
            "created_at": 1, "attempt": 1, "failures": 1, "crashes": 0, "max_attempts": 1,
            "max_crashes": 0, "backoff": {"fixed": {"delay_ms": 1, "jitter_ms": 0}},
            "unique": {"key": "k"}, "retention": {"finished_ms": 1, "dead_ms": 1, "expired_ms": 1},
            "parts": {"blob": {"base64": "AAE=", "envelope": {"codec": "zstd"}}},
            "error": {"code": "c", "message": "m"},
        })
    }

    #[test]
    fn a_reply_of_a_newer_server_is_read_without_its_news() {
        let (old, mut new) = (job(), job());
        // An enum that is serialized as an object has one field, named after the variant.
        with_news(&mut new, &["payload", "backoff"]);
        with_news(&mut new["backoff"]["fixed"], &[]);
        let core = |value: &Value| {
            let text = crate::write(value);
            read_reply::<Job>(&text).unwrap().into_core().unwrap()
        };
        assert!(read::<Job>(&crate::write(&new)).is_err(), "the plain way is strict");
        assert_eq!(core(&new), core(&old));
        assert_eq!(core(&new).parts.payload.unwrap().bytes, r#"{"as":"it  is"}"#);
    }

    #[test]
    fn items_and_settings_of_a_newer_server_are_read_too() {
        let mut items = json!({"items": [{"ok": true, "parts": {"checkpoint": {"json": [1]}}}]});
        with_news(&mut items, &["json"]);
        let items: Items<Updated> = read_reply(&crate::write(&items)).unwrap();
        let answers = items.into_core(Updated::into_core);
        let checkpoint = answers[0].as_ref().unwrap().parts.checkpoint.clone().unwrap();
        assert_eq!(checkpoint.bytes, "[1]");
        let mut settings =
            json!({"queues": [{"name": "q", "settings": {"paused": true}}], "kinds": []});
        with_news(&mut settings, &[]);
        let settings: Settings = read_reply(&crate::write(&settings)).unwrap();
        assert!(settings.queues[0].settings.paused);
    }

    #[test]
    fn a_body_that_is_no_reply_is_refused() {
        for text in ["", "{", "[]", "{}", r#"{"queues": [], "kinds": []} x"#] {
            assert!(read_reply::<Settings>(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_is_no_object_for_any_reader() {
        let lists = [r#"{"queues": [["q", {}]], "kinds": [], "news": 1}"#, "[[], []]"];
        for text in lists {
            for unknown in [Unknown::AsTyped, Unknown::PassedOver] {
                let mut json = serde_json::Deserializer::from_str(text);
                assert!(Settings::deserialize(unknown.reader(&mut json)).is_err(), "{text}");
            }
        }
    }
}

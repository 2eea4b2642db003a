//! Reads replies of a newer peer: what a struct has no field for is passed over, however strict its type
//! is in requests. It must not know the types it reads.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use std::fmt;

/// The names of fields.
type Fields = &'static [&'static str];

/// How the names of serde_json's own types begin, which are no ones to step into.
const PRIVATE: &str = "$serde_json";

/// Reads JSON, passing over unknown fields.
pub(crate) fn from_slice<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = T::deserialize(Lenient(&mut json))?;
    json.end()?;
    Ok(value)
}

/// A deserializer whose structs, and those within, take what they know.
struct Lenient<D>(D);

/// Forwards what cannot hold a struct.
macro_rules! plain {
    ($($method:ident)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(visitor)
        })+
    };
}

/// Forwards what can, and is no struct itself.
macro_rules! nested {
    ($($method:ident($($arg:ident: $type:ty),*))+) => {
        $(fn $method<V: Visitor<'de>>(
            self,
            $($arg: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.$method($($arg,)* Watched { visitor, fields: None })
        })+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Lenient<D> {
    type Error = D::Error;

    plain! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier deserialize_ignored_any
    }

    nested! {
        deserialize_any()
        deserialize_option()
        deserialize_seq()
        deserialize_map()
        deserialize_unit_struct(name: &'static str)
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_enum(name: &'static str, variants: Fields)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        // Raw JSON stays as it is, to the byte.
        if name.starts_with(PRIVATE) {
            return self.0.deserialize_newtype_struct(name, visitor);
        }
        self.0.deserialize_newtype_struct(name, Watched { visitor, fields: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: Fields,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Watched { visitor, fields: Some(fields) })
    }
}

/// A visitor of a lenient deserializer; of a struct, with its fields.
struct Watched<V> {
    visitor: V,
    fields: Option<Fields>,
}

/// Forwards a scalar.
macro_rules! scalars {
    ($($method:ident($type:ty))+) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$method(value)
        })+
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Watched<V> {
    type Value = V::Value;

    scalars! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128)
        visit_f64(f64) visit_str(&str) visit_borrowed_str(&'de str) visit_string(String)
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, some: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Lenient(some))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Lenient(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_seq(Lenient(seq))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Entries { map, fields: self.fields })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Lenient(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Lenient<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Lenient(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Lenient<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Lenient(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

/// The entries of a map, or of a struct with these fields.
struct Entries<A> {
    map: A,
    fields: Option<Fields>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(fields) = self.fields else { return self.map.next_key_seed(seed) };
        let mut seed = Some(seed);
        loop {
            match self.map.next_key_seed(Known { seed: &mut seed, fields })? {
                None => return Ok(None),
                Some(Some(key)) => return Ok(Some(key)),
                Some(None) => drop(self.map.next_value::<IgnoredAny>()?),
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.map.next_value_seed(Lenient(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.map.size_hint()
    }
}

/// A key: what `seed` makes of it, or `None` if no field has this name.
struct Known<'a, K> {
    /// Taken by the first key that is known.
    seed: &'a mut Option<K>,
    fields: Fields,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Known<'_, K> {
    type Value = Option<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for Known<'_, K> {
    type Value = Option<K::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let seed = self.fields.contains(&name).then(|| self.seed.take()).flatten();
        seed.map(|seed| seed.deserialize(StrDeserializer::new(name))).transpose()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Lenient<A> {
    type Error = A::Error;
    type Variant = Lenient<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        self.0.variant_seed(seed).map(|(value, variant)| (value, Lenient(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Lenient<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Lenient(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, Watched { visitor, fields: None })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: Fields,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Watched { visitor, fields: Some(fields) })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Items, Job, Settings, Updated, read, read_reply};
    use serde_json::{Value, json};

    /// Puts a field nobody knows into every object of the reply but those under `except`.
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
            _ => {}
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
        // An enum that is written as an object has one field; its name is the variant.
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
        let mut items = json!({"items": [{"ok": true, "parts": {"state": {"json": [1]}}}]});
        with_news(&mut items, &["json"]);
        let items: Items<Updated> = read_reply(&crate::write(&items)).unwrap();
        let answers = items.into_core(Updated::into_core);
        let state = answers[0].as_ref().unwrap().parts.state.clone().unwrap();
        assert_eq!(state.bytes, "[1]");
        let mut settings =
            json!({"queues": [{"name": "q", "settings": {"paused": true}}], "kinds": []});
        with_news(&mut settings, &[]);
        let settings: Settings = read_reply(&crate::write(&settings)).unwrap();
        assert!(settings.queues[0].settings.paused);
    }

    #[test]
    fn what_is_no_reply_at_all_is_still_refused() {
        for text in ["", "{", "[]", "{}", r#"{"queues": [], "kinds": []} x"#] {
            assert!(read_reply::<Settings>(text.as_bytes()).is_err(), "{text}");
        }
    }
}

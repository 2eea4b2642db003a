//! Lists with a size limit during deserialization. The number of items is checked only after
//! parsing, so parsing itself must not build more items than allowed: a body of 64 MB can contain
//! five million tiny jobs.
//!
//! Keeps one item more than the limit and skips the rest without storing it. The check after
//! parsing then fails with [`Error::TooLarge`](windlass_core::Error::TooLarge) and the name of the
//! field.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Deserializes a list of at most `MAX` items.
pub(crate) fn vec<'de, const MAX: usize, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    nested(deserializer, MAX, |_| 0, 0)
}

/// Deserializes a list of at most `MAX` items, or `null`.
pub(crate) fn option<'de, const MAX: usize, D, T>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let list = Option::<Bounded<T, MAX>>::deserialize(deserializer)?;
    Ok(list.map(|list| list.0))
}

/// Deserializes a list whose items contain lists: at most `max` items with `inner_max` inner items
/// in total.
pub(crate) fn nested<'de, D, T>(
    deserializer: D,
    max: usize,
    inner: fn(&T) -> usize,
    inner_max: usize,
) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(AtMost { max, inner, inner_max })
}

/// Deserializes a list of names as a set: duplicates are dropped.
pub(crate) fn distinct<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + PartialEq,
{
    Distinct::deserialize(deserializer).map(|names| names.0)
}

/// Deserializes a set of names, or `null`.
pub(crate) fn distinct_option<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + PartialEq,
{
    let names = Option::<Distinct<T>>::deserialize(deserializer)?;
    Ok(names.map(|names| names.0))
}

/// Deserializes a map of at most `MAX` texts by name.
pub(crate) fn map<'de, const MAX: usize, D>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Texts<const MAX: usize>;

    impl<'de, const MAX: usize> Visitor<'de> for Texts<MAX> {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of texts")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut texts = BTreeMap::new();
            while texts.len() <= MAX
                && let Some((name, text)) = map.next_entry()?
            {
                texts.insert(name, text);
            }
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(texts)
        }
    }

    deserializer.deserialize_map(Texts::<MAX>)
}

struct Bounded<T, const MAX: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        vec::<MAX, _, _>(deserializer).map(Self)
    }
}

struct AtMost<T> {
    max: usize,
    inner: fn(&T) -> usize,
    inner_max: usize,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let (mut items, mut inner) = (Vec::new(), 0);
        while let Some(item) = list.next_element()? {
            inner += (self.inner)(&item);
            items.push(item);
            if items.len() > self.max || inner > self.inner_max {
                break;
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(items)
    }
}

struct Distinct<T>(Vec<T>);

impl<'de, T: Deserialize<'de> + PartialEq> Deserialize<'de> for Distinct<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de> + PartialEq> Visitor<'de> for Names<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                Ok(names)
            }
        }

        deserializer.deserialize_seq(Names(std::marker::PhantomData)).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Claim, Enqueue, Get, Heartbeat, RecordBatch, Settle, UpdateItem};
    use serde::de::DeserializeOwned;
    use windlass_core::limits::{
        BATCH_MAX, CLAIM_QUEUES_MAX, DECLARED_LEASES_MAX, ENQUEUE_BATCH_MAX, FOLLOW_UPS_MAX,
        LOG_LINES_MAX, SETTLE_FOLLOW_UPS_MAX, TAGS_MAX,
    };

    const ID: &str = "01a1e214-0000-7000-8000-000000000000";

    /// Parses `begin`, then `item` repeated `count` times, then `end`.
    fn read<T: DeserializeOwned>(begin: &str, item: &str, count: usize, end: &str) -> T {
        let items = vec![item; count].join(",");
        crate::read(format!("{begin}{items}{end}").as_bytes()).unwrap()
    }

    #[test]
    fn no_list_grows_beyond_one_more_than_its_limit_while_it_is_read() {
        const MANY: usize = 3 * DECLARED_LEASES_MAX;
        let jobs: Enqueue = read(r#"{"jobs":["#, r#"{"kind":"x"}"#, MANY, "]}");
        assert_eq!(jobs.jobs.len(), ENQUEUE_BATCH_MAX + 1);
        let tags: Enqueue = read(r#"{"jobs":[{"kind":"x","tags":["#, r#""""#, MANY, "]}]}");
        assert_eq!(tags.jobs[0].tags.len(), TAGS_MAX + 1);
        let ids: Get = read(r#"{"ids":["#, &format!(r#""{ID}""#), MANY, "]}");
        assert_eq!(ids.ids.len(), BATCH_MAX + 1);
        let claim: Claim = read(r#"{"queues":["#, r#""""#, MANY, "]}");
        assert_eq!(claim.queues.len(), CLAIM_QUEUES_MAX + 1);
        let held = format!(r#"{{"id":"{ID}","lease":""}}"#);
        let beat: Heartbeat = read(r#"{"session":"s","upto":0,"held":["#, &held, MANY, "]}");
        assert_eq!(beat.held.len(), DECLARED_LEASES_MAX + 1);
        let begin = format!(r#"{{"id":"{ID}","lease":"","log":["#);
        let lines: UpdateItem = read(&begin, r#""""#, MANY, "]}");
        assert_eq!(lines.log.len(), LOG_LINES_MAX + 1);
        let parts: Get = read(r#"{"ids":[],"parts":["#, r#""blob","checkpoint""#, MANY, "]}");
        assert_eq!(parts.parts.len(), 2);
    }

    #[test]
    fn inner_lists_are_bounded_in_all_items_together() {
        let jobs = vec![r#"{"kind":"x"}"#; FOLLOW_UPS_MAX].join(",");
        let item =
            format!(r#"{{"id":"{ID}","lease":"","outcome":"complete","follow_ups":[{jobs}]}}"#);
        let settle: Settle = read(r#"{"items":["#, &item, 50, "]}");
        let kept: usize = settle.items.iter().map(|item| item.follow_ups.len()).sum();
        assert_eq!(kept, SETTLE_FOLLOW_UPS_MAX + FOLLOW_UPS_MAX);
        let entries = vec![r#"{"json":0}"#; BATCH_MAX].join(",");
        let item = format!(r#"{{"append":{{"log":"l","keep":1,"entries":[{entries}]}}}}"#);
        let records: RecordBatch = read(r#"{"items":["#, &item, 50, "]}");
        assert_eq!(records.items.len(), 2);
        assert_eq!(records.check().unwrap_err().field(), Some("entries"));
    }
}

//! Batches of dead letters to replay or discard, and their results.

use crate::bounded;
use crate::item::Failed;
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::part::absent;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use windlass_core::engine::{self, Change, Cursor, Filter, ListOrder};
use windlass_core::limits::{BATCH_MAX, PAGE_MAX};
use windlass_core::model::{Name, PartEdit, State};
use windlass_core::{Error, JobId, Result, Timestamp};

/// Selects dead letters by `ids`, or by `filter` one page at a time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DeadBatch {
    /// Ids of the jobs.
    #[serde(
        default,
        deserialize_with = "bounded::option::<BATCH_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<openapi::JobId>>, max_items = 10000))]
    pub ids: Option<Vec<JobId>>,
    /// Filter for the jobs; an empty filter matches all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<DeadFilter>,
    /// With a filter: the `next` of the previous reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub after: Option<Cursor>,
    /// With a filter: maximum number of jobs in this call; 1,000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::PageLimit>))]
    pub limit: Option<u32>,
    /// For a replay: start from the beginning, without the last checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_over: Option<bool>,
    /// For a replay: the sensitive kind that may be replayed. Jobs of other sensitive kinds are
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub confirm: Option<Name>,
}

/// Filter for dead letters; absent fields match all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DeadFilter {
    /// Queue of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub queue: Option<Name>,
    /// Kind of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub kind: Option<Name>,
    /// Tenant of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub tenant: Option<String>,
    /// Ordering key of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Key>))]
    pub key: Option<String>,
    /// A tag of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Tag>))]
    pub tag: Option<String>,
    /// The job that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub parent: Option<JobId>,
    /// Earliest time of the enqueue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub created_from: Option<Timestamp>,
    /// Time of the enqueue, exclusive upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub created_until: Option<Timestamp>,
}

impl DeadFilter {
    fn into_core(self) -> Filter {
        let mut filter = Filter::state(State::Dead);
        (filter.queue, filter.kind, filter.tenant) = (self.queue, self.kind, self.tenant);
        (filter.key, filter.tag, filter.parent) = (self.key, self.tag, self.parent);
        (filter.created_from, filter.created_until) = (self.created_from, self.created_until);
        filter
    }
}

/// A selection of dead letters in core types.
#[derive(Clone, Debug)]
pub enum DeadOnes {
    /// By id.
    Ids(Vec<JobId>),
    /// One page, oldest first.
    Page(Box<engine::List>),
}

impl DeadBatch {
    /// The selection, and the change that replays them.
    pub fn into_replay(self) -> Result<(DeadOnes, Change)> {
        let mut edits = engine::Edits::default();
        if self.start_over == Some(true) {
            edits.checkpoint = PartEdit::Unset;
        }
        edits.confirm.clone_from(&self.confirm);
        Ok((self.into_ones()?, Change::Replay(Box::new(edits))))
    }

    /// The selection, and the change that discards them.
    pub fn into_discard(self) -> Result<(DeadOnes, Change)> {
        absent(&self.start_over, "start_over", "only a replay can start over")?;
        absent(&self.confirm, "confirm", "only a replay asks for it")?;
        Ok((self.into_ones()?, Change::Discard))
    }

    fn into_ones(self) -> Result<DeadOnes> {
        let which = "give `ids`, or a `filter`; {} matches all";
        match (self.ids, self.filter) {
            (Some(ids), None) => {
                absent(&self.after, "after", "only with a `filter`")?;
                absent(&self.limit, "limit", "only with a `filter`")?;
                engine::Get::new(ids.iter().copied()).check()?;
                Ok(DeadOnes::Ids(ids))
            }
            (None, Some(filter)) => {
                let filter = filter.into_core();
                filter.check().map_err(|error| error.within("filter"))?;
                let limit = self.limit.unwrap_or(PAGE_MAX);
                let page = engine::List::new(filter).order(ListOrder::Oldest).limit(limit);
                Ok(DeadOnes::Page(Box::new(page.after(self.after))))
            }
            (Some(_), Some(_)) => Err(Error::invalid("filter", "given", which)),
            (None, None) => Err(Error::invalid("ids", "missing", which)),
        }
    }
}

/// Results of a batch of dead letters.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadReply {
    /// One result per job: in the order of the ids, or oldest first. With a filter, there may be
    /// few or none.
    pub items: Vec<DeadItem>,
    /// With a filter: cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// The result for one job. Always contains the job's id, because a request by filter does not.
#[derive(Debug)]
pub struct DeadItem {
    /// The job.
    pub id: JobId,
    /// The job's new state, `None` if it was deleted; or the error.
    pub answer: Result<Option<State>>,
}

#[derive(Serialize, Deserialize)]
struct Done {
    ok: bool,
    id: JobId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<State>,
}

impl Serialize for DeadItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.answer {
            Ok(state) => Done { ok: true, id: self.id, state: *state }.serialize(serializer),
            Err(error) => {
                // Some errors contain the id already; it is the same id.
                let failed = serde_json::to_value(Failed::new(error)).map_err(S::Error::custom)?;
                let Value::Object(mut fields) = failed else {
                    return Err(S::Error::custom("an error that is no object"));
                };
                fields.insert("id".to_owned(), Value::String(self.id.to_string()));
                fields.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for DeadItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            id: JobId,
        }
        let value = Value::deserialize(deserializer)?;
        let Named { id } = Named::deserialize(&value).map_err(D::Error::custom)?;
        let text = crate::write(&value);
        let item: crate::Item<Done> = serde_json::from_slice(&text).map_err(D::Error::custom)?;
        Ok(Self { id, answer: item.0.map(|done| done.state) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_names_its_job_and_arrives_as_it_was_sent() {
        let id = JobId::from_bytes([7; 16]);
        let answers = [
            Ok(Some(State::Available)),
            Ok(None),
            Err(Error::NotFound { id }),
            Err(Error::Duplicate { key: "k".to_owned(), holder: JobId::from_bytes([8; 16]) }),
        ];
        for answer in answers {
            let item = DeadItem { id, answer };
            let text = crate::write(&item);
            let json: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(
                (&json["id"], &json["ok"]),
                (&id.to_string().into(), &item.answer.is_ok().into())
            );
            let back: DeadItem = crate::read_reply(&text).unwrap();
            assert_eq!((back.id, back.answer), (id, item.answer));
        }
    }

    #[test]
    fn a_batch_says_which_ones_in_one_way() {
        let field = |text: &str| {
            let batch: DeadBatch = crate::read(text.as_bytes()).unwrap();
            batch.into_discard().unwrap_err().field().unwrap().to_owned()
        };
        assert_eq!(field("{}"), "ids");
        assert_eq!(field(r#"{"ids": [], "filter": {}}"#), "filter");
        assert_eq!(field(r#"{"ids": [], "limit": 5}"#), "limit");
        assert_eq!(field(r#"{"ids": [], "after": "x"}"#), "after");
        assert_eq!(field(r#"{"filter": {}, "start_over": true}"#), "start_over");
        assert_eq!(field(r#"{"filter": {"queue": "a b"}}"#), "filter.queue");
        let unknown = crate::read::<DeadBatch>(br#"{"filter": {"state": "dead"}}"#).unwrap_err();
        assert_eq!(unknown.field(), Some("filter.state"));
    }
}

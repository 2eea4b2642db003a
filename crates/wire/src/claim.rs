//! Taking ready jobs.

use crate::bounded;
use crate::job::Job;
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::part::absent;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use windlass_core::engine::{self, ClaimId, Claimant, KindWant, QueueWant, SessionId};
use windlass_core::limits::{CLAIM_KINDS_MAX, CLAIM_QUEUES_MAX, LEASE_DEFAULT_MS};
use windlass_core::model::{Name, PartName, PartSet};
use windlass_core::random::Random;
use windlass_core::{Error, Result};

/// What the worker of a claim is called that gives no name.
const NAMELESS: &str = "anonymous";

/// A request for ready jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(examples(json!({
        "queues": ["mail"],
        "kinds": ["send_email"],
        "limit": 10,
        "lease_ms": 30000,
        "worker": "w1"
    })))
)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The session it belongs to; without one, the claim gets a session of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::SessionId>))]
    pub session: Option<SessionId>,
    /// The number of this claim in its session; rises with each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Whole>))]
    pub claim_no: Option<u64>,
    /// Without a session: the caller's name for this claim. Only a claim that has one can be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::ClaimId>))]
    pub claim_id: Option<ClaimId>,
    /// Without a session: what people call the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub worker: Option<String>,
    /// Without a session: how long the leases last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::LeaseMs>))]
    pub lease_ms: Option<u64>,
    /// Queues in order of preference, by name or with a limit of their own.
    #[serde(deserialize_with = "bounded::vec::<CLAIM_QUEUES_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 64))]
    pub queues: Vec<Want>,
    /// The kinds it can handle; all unless named.
    #[serde(
        default,
        deserialize_with = "bounded::option::<CLAIM_KINDS_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 256))]
    pub kinds: Option<Vec<Want>>,
    /// At most so many jobs.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::ClaimLimit))]
    pub limit: u32,
    /// Which parts to bring along; the payload unless named.
    #[serde(
        default,
        deserialize_with = "bounded::distinct_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<openapi::PartName>>))]
    pub parts: Option<Vec<PartName>>,
    /// Waits so long for something to claim, if there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::WaitMs>))]
    pub wait_ms: Option<u64>,
}

const fn one() -> u32 {
    1
}

/// A queue or a kind, by its name or with a limit.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Want {
    /// As many as there are.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    Any(Name),
    /// At most so many.
    AtMost(Limited),
}

/// A name with a limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Limited {
    /// Which.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub name: Name,
    /// At most so many of it.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Whole32))]
    pub limit: u32,
}

impl<'de> Deserialize<'de> for Want {
    /// By hand: serde's way would take a list for an object, and would not say what is wrong with one.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrLimited;

        impl<'de> Visitor<'de> for NameOrLimited {
            type Value = Want;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(r#"a name, or {"name": …, "limit": …}"#)
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Want, E> {
                Ok(Want::Any(name.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Want, A::Error> {
                Limited::deserialize(MapAccessDeserializer::new(fields)).map(Want::AtMost)
            }
        }

        deserializer.deserialize_any(NameOrLimited)
    }
}

impl Want {
    fn new(name: Name, limit: u32) -> Self {
        match limit {
            u32::MAX => Self::Any(name),
            limit => Self::AtMost(Limited { name, limit }),
        }
    }

    fn into_parts(self) -> (Name, u32) {
        match self {
            Self::Any(name) => (name, u32::MAX),
            Self::AtMost(Limited { name, limit }) => (name, limit),
        }
    }
}

impl Claim {
    /// The request as core knows it. A claim without a name of its own gets one from `random`.
    pub fn into_core(self, random: &dyn Random) -> Result<engine::Claim> {
        let by = match self.session {
            Some(session) => {
                absent(&self.claim_id, "claim_id", "with a session, `claim_no` names the claim")?;
                absent(&self.worker, "worker", "the session has a worker")?;
                absent(&self.lease_ms, "lease_ms", "leases last as long as the session")?;
                let claim_no = self.claim_no.ok_or_else(|| {
                    Error::invalid("claim_no", "missing", "number the claims of a session, rising")
                })?;
                Claimant::Session { session, claim_no }
            }
            None => {
                absent(
                    &self.claim_no,
                    "claim_no",
                    "without a session, `claim_id` names the claim",
                )?;
                Claimant::Alone {
                    claim_id: self.claim_id.unwrap_or_else(|| ClaimId::random(random)),
                    worker: self.worker.unwrap_or_else(|| NAMELESS.to_owned()),
                    lease_ms: self.lease_ms.unwrap_or(LEASE_DEFAULT_MS),
                }
            }
        };
        let mut claim = engine::Claim::new(by, "", self.limit);
        let queues = self.queues.into_iter().map(Want::into_parts);
        claim.queues = queues.map(|(queue, limit)| QueueWant { queue, limit }).collect();
        claim.kinds = self.kinds.map(|kinds| {
            let kinds = kinds.into_iter().map(Want::into_parts);
            kinds.map(|(kind, limit)| KindWant { kind, limit }).collect()
        });
        claim.parts = self.parts.map_or(PartSet::PAYLOAD, |parts| part_set(&parts));
        Ok(claim)
    }
}

impl From<engine::Claim> for Claim {
    fn from(claim: engine::Claim) -> Self {
        let mut request = Self {
            session: None,
            claim_no: None,
            claim_id: None,
            worker: None,
            lease_ms: None,
            queues: claim
                .queues
                .into_iter()
                .map(|want| Want::new(want.queue, want.limit))
                .collect(),
            kinds: claim.kinds.map(|kinds| {
                kinds.into_iter().map(|want| Want::new(want.kind, want.limit)).collect()
            }),
            limit: claim.limit,
            parts: (claim.parts != PartSet::PAYLOAD).then(|| part_names(claim.parts)),
            wait_ms: None,
        };
        match claim.by {
            Claimant::Session { session, claim_no } => {
                request.session = Some(session);
                request.claim_no = Some(claim_no);
            }
            Claimant::Alone { claim_id, worker, lease_ms } => {
                request.claim_id = Some(claim_id);
                request.worker = Some(worker);
                request.lease_ms = Some(lease_ms);
            }
        }
        request
    }
}

/// The names in a set.
pub(crate) fn part_names(parts: PartSet) -> Vec<PartName> {
    PartName::ALL.into_iter().filter(|name| parts.has(*name)).collect()
}

/// The set of these names.
pub(crate) fn part_set(names: &[PartName]) -> PartSet {
    names.iter().fold(PartSet::NONE, |set, name| set.with(*name))
}

/// What a claim got, in the order to start them. None is a hint, not proof of an empty queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Claimed {
    /// The jobs.
    pub jobs: Vec<Job>,
}

impl From<engine::Claimed> for Claimed {
    fn from(claimed: engine::Claimed) -> Self {
        Self { jobs: claimed.jobs.into_iter().map(Into::into).collect() }
    }
}

impl Claimed {
    /// The reply as core knows it.
    pub fn into_core(self) -> Result<engine::Claimed> {
        let jobs = self.jobs.into_iter().map(Job::into_claimed).collect::<Result<_>>()?;
        Ok(engine::Claimed::new(jobs))
    }
}

/// A wait for something to claim.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// In any of these queues.
    #[serde(deserialize_with = "bounded::vec::<CLAIM_QUEUES_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Name>, max_items = 64))]
    pub queues: Vec<Name>,
    /// Of these kinds; any unless named.
    #[serde(
        default,
        deserialize_with = "bounded::option::<CLAIM_KINDS_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<openapi::Name>>, max_items = 256))]
    pub kinds: Option<Vec<Name>>,
    /// For how long.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::WaitMs))]
    pub wait_ms: u64,
}

impl From<Wait> for engine::Wait {
    fn from(wait: Wait) -> Self {
        let mut request = Self::new(wait.queues, wait.wait_ms);
        request.kinds = wait.kinds;
        request
    }
}

impl From<engine::Wait> for Wait {
    fn from(wait: engine::Wait) -> Self {
        Self { queues: wait.queues, kinds: wait.kinds, wait_ms: wait.wait_ms }
    }
}

/// The answer to a wait.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ready {
    /// Whether something may be claimable.
    pub ready: bool,
}

//! Claims of ready jobs, and waits for them.

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

/// Default worker name of a claim.
const NAMELESS: &str = "anonymous";

/// A claim of ready jobs.
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
    /// The session that holds the leases; without one, the claim creates its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::SessionId>))]
    pub session: Option<SessionId>,
    /// Number of this claim in its session; increases with each claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Whole>))]
    pub claim_no: Option<u64>,
    /// Without a session: the caller's id for this claim. Required to repeat the claim after a lost
    /// reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::ClaimId>))]
    pub claim_id: Option<ClaimId>,
    /// Without a session: display name of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub worker: Option<String>,
    /// Without a session: duration of the leases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::LeaseMs>))]
    pub lease_ms: Option<u64>,
    /// Queues in order of preference, as names or with a limit each.
    #[serde(deserialize_with = "bounded::vec::<CLAIM_QUEUES_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 64))]
    pub queues: Vec<Want>,
    /// Kinds that the worker can handle; all by default.
    #[serde(
        default,
        deserialize_with = "bounded::option::<CLAIM_KINDS_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 256))]
    pub kinds: Option<Vec<Want>>,
    /// Maximum number of jobs.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::ClaimLimit))]
    pub limit: u32,
    /// Only jobs with this priority or a higher number, that is, as urgent as this or less. All queues must be in strict
    /// order. Not together with `wait_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_priority: Option<i32>,
    /// Parts to include; the payload by default.
    #[serde(
        default,
        deserialize_with = "bounded::distinct_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<openapi::PartName>>))]
    pub parts: Option<Vec<PartName>>,
    /// Maximum time to wait for jobs if none are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::WaitMs>))]
    pub wait_ms: Option<u64>,
}

const fn one() -> u32 {
    1
}

/// A queue or a kind, as a name or with a limit.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Want {
    /// Without a limit.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    Any(Name),
    /// With a limit.
    AtMost(Limited),
}

/// A name with a limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Limited {
    /// Name of the queue or kind.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub name: Name,
    /// Maximum number of jobs from this queue or of this kind.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Whole32))]
    pub limit: u32,
}

impl<'de> Deserialize<'de> for Want {
    /// Written by hand: serde's untagged enum would accept an array for an object, and has
    /// unspecific errors.
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
    /// Converts to the core request. A claim without `claim_id` gets a random one.
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
        if self.from_priority.is_some() {
            let expected = "a claim from a priority on does not wait: wait for any job, then claim";
            absent(&self.wait_ms, "wait_ms", expected)?;
        }
        let mut claim = engine::Claim::new(by, "", self.limit);
        claim.from_priority = self.from_priority;
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
            from_priority: claim.from_priority,
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
            // A claimant of a newer core: the server refuses a claim that names none.
            _ => {}
        }
        request
    }
}

/// The names in a set of parts.
pub(crate) fn part_names(parts: PartSet) -> Vec<PartName> {
    PartName::ALL.into_iter().filter(|name| parts.has(*name)).collect()
}

/// The set of these parts.
pub(crate) fn part_set(names: &[PartName]) -> PartSet {
    names.iter().fold(PartSet::NONE, |set, name| set.with(*name))
}

/// The claimed jobs in the order to start them. An empty list is a hint, not proof of an empty
/// queue.
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
    /// Converts to the core reply.
    pub fn into_core(self) -> Result<engine::Claimed> {
        let jobs = self.jobs.into_iter().map(Job::into_claimed).collect::<Result<_>>()?;
        Ok(engine::Claimed::new(jobs))
    }
}

/// A wait for claimable jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Queues to wait for.
    #[serde(deserialize_with = "bounded::vec::<CLAIM_QUEUES_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Name>, max_items = 64))]
    pub queues: Vec<Name>,
    /// Kinds to wait for; all by default.
    #[serde(
        default,
        deserialize_with = "bounded::option::<CLAIM_KINDS_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<openapi::Name>>, max_items = 256))]
    pub kinds: Option<Vec<Name>>,
    /// Maximum time to wait.
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

/// The result of a wait.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ready {
    /// Whether jobs may be claimable.
    pub ready: bool,
}

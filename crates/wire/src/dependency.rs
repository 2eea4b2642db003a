//! Dependencies: the jobs that a job runs after, and what it received from them.

#[cfg(feature = "openapi")]
use crate::openapi;
use crate::part::{Part, gather, spread};
use crate::{is_default, present};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::fmt;
use windlass_core::model::{self, InputFields, OnFailure, State};
use windlass_core::{Error, JobId, Result};

/// A job that another one runs after: its id, or an object. In a flow, also the name of a node.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(examples(json!({"job": "01890a5d-ac96-774b-bcce-b302099a8057", "name": "resize"})))
)]
pub struct Dependency {
    /// The job to wait for: its id, or in a flow the name of a node.
    pub job: String,
    /// The name under which the handler finds its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub name: Option<String>,
    /// What happens to the job if the other one is not completed; by default, it is dead.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::OnFailure>))]
    pub on_failure: OnFailure,
}

/// The object form of [`Dependency`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    job: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    on_failure: OnFailure,
}

impl<'de> Deserialize<'de> for Dependency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Dependency;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the id of a job, or an object with `job`, `name` and `on_failure`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Dependency, E> {
                Ok(Dependency { job: text.to_owned(), name: None, on_failure: OnFailure::Fail })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Dependency, A::Error> {
                let Object { job, name, on_failure } =
                    Object::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Dependency { job, name, on_failure })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl Dependency {
    /// Converts to the core type.
    pub fn into_core(self) -> Result<model::Dependency> {
        let Self { job, name, on_failure } = self;
        let id = job.parse().map_err(|_| Error::invalid("after", job, "use the id of a job"))?;
        let mut core = model::Dependency::on(id).on_failure(on_failure);
        core.name = name;
        Ok(core)
    }
}

impl From<model::Dependency> for Dependency {
    fn from(dependency: model::Dependency) -> Self {
        Self {
            job: dependency.job.to_string(),
            name: dependency.name,
            on_failure: dependency.on_failure,
        }
    }
}

/// Makes a new job a dependency of one that waits already, or of the job that reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(examples(json!({"name": "small"})))
)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// A job that still waits for other jobs; by default the job that reports, with the outcome `wait_for_jobs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub job: Option<JobId>,
    /// The name under which the handler of that job finds the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub name: Option<String>,
    /// What happens to that job if the new one is not completed; by default, it runs and sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::OnFailure>))]
    pub on_failure: Option<OnFailure>,
}

impl From<Join> for model::Join {
    fn from(join: Join) -> Self {
        let mut core = Self::SELF;
        (core.to, core.name, core.on_failure) = (join.job, join.name, join.on_failure);
        core
    }
}

impl From<model::Join> for Join {
    fn from(join: model::Join) -> Self {
        let model::Join { to, name, on_failure, .. } = join;
        Self { job: to, name, on_failure }
    }
}

/// A dependency of a stored job, and how it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Input {
    /// The job that this one runs after.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub job: JobId,
    /// The name under which the handler finds its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub name: Option<String>,
    /// What happens to the job if the other one is not completed; by default, it is dead.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::OnFailure>))]
    pub on_failure: OnFailure,
    /// The state in which the other job ended; absent: it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub outcome: Option<State>,
    /// The result of the other job, if it is JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Json))]
    pub result: Option<Box<RawValue>>,
    /// The result in base64, if it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Base64>))]
    pub result_base64: Option<String>,
    /// The result with its envelope, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_result: Option<Part>,
    /// Whether the other job has a result that was not copied, because all results together are too large.
    #[serde(default, skip_serializing_if = "is_default")]
    pub omitted: bool,
}

impl From<model::Input> for Input {
    fn from(input: model::Input) -> Self {
        // `kept` is between the store and its retention.
        let InputFields { job, name, on_failure, outcome, result, omitted, kept: _ } = input.into();
        let (result, result_base64, sealed_result) = spread(result);
        Self { job, name, on_failure, outcome, result, result_base64, sealed_result, omitted }
    }
}

impl Input {
    /// Converts to the core type.
    pub fn into_core(self) -> Result<model::Input> {
        let Self { job, name, on_failure, outcome, omitted, .. } = self;
        let result = gather((self.result, self.result_base64, self.sealed_result), "after.result")?;
        Ok(InputFields { job, name, on_failure, outcome, result, omitted, kept: false }.into())
    }
}

/// The dependencies of a job, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dependencies {
    /// All dependencies.
    pub total: u32,
    /// Those on jobs that have not ended.
    pub open: u32,
    /// Bytes of the results that were copied.
    #[serde(default, skip_serializing_if = "is_default")]
    pub result_bytes: u32,
}

impl From<model::DependencyCounts> for Dependencies {
    fn from(counts: model::DependencyCounts) -> Self {
        // What retention passes over is between it and the store.
        let model::DependencyCounts {
            total,
            open,
            result_bytes,
            kept: _,
            kept_from: _,
            readers: _,
        } = counts;
        Self { total, open, result_bytes }
    }
}

impl From<Dependencies> for model::DependencyCounts {
    fn from(counts: Dependencies) -> Self {
        let Dependencies { total, open, result_bytes } = counts;
        Self { total, open, result_bytes, ..Self::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_an_id_or_an_object() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        let short: Dependency = serde_json::from_str(&format!("{id:?}")).unwrap();
        let long = format!(r#"{{"job":{id:?},"name":"a","on_failure":"run"}}"#);
        let long: Dependency = serde_json::from_str(&long).unwrap();
        assert_eq!(
            (&short.job, &short.name, short.on_failure),
            (&long.job, &None, OnFailure::Fail)
        );
        assert_eq!(short.into_core().unwrap().job.to_string(), id);
        assert_eq!((long.name.as_deref(), long.on_failure), (Some("a"), OnFailure::Run));
        let named: Dependency = serde_json::from_str(r#""x""#).unwrap();
        assert_eq!(named.into_core().unwrap_err().field(), Some("after"));
        for bad in ["1", "{}", &format!(r#"{{"job":{id:?},"policy":"run"}}"#)] {
            assert!(serde_json::from_str::<Dependency>(bad).is_err(), "{bad}");
        }
    }
}

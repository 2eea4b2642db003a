//! Flows: a graph of named jobs, and its results.

use crate::enqueue::Enqueued;
use crate::job::Job;
use crate::new_job::NewJob;
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::page::PageQuery;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use windlass_core::engine::Cursor;
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::model::{self, Name};
use windlass_core::{Error, JobId, Result, check_name};

/// A graph of jobs to store, all or nothing.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(examples(json!({
        "flow": "order-789",
        "nodes": {
            "resize": {"kind": "resize_image", "payload": {"image": 7}},
            "notify": {"kind": "notify", "after": ["resize"]}
        }
    })))
)]
#[serde(deny_unknown_fields)]
pub struct NewFlow {
    /// The name of the flow; by default, a new id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub flow: Option<Name>,
    /// The jobs by name. `after` of a job names others of this graph, or ids of jobs that exist.
    #[serde(deserialize_with = "nodes")]
    pub nodes: BTreeMap<String, NewJob>,
}

/// Deserializes named jobs, each name once, within the limit of an enqueue.
fn nodes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, NewJob>, D::Error> {
    struct Nodes;

    impl<'de> Visitor<'de> for Nodes {
        type Value = BTreeMap<String, NewJob>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of jobs by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut nodes = BTreeMap::new();
            while let Some((name, job)) = map.next_entry::<String, NewJob>()? {
                if nodes.len() == ENQUEUE_BATCH_MAX {
                    let text = format!("more than {ENQUEUE_BATCH_MAX} nodes: split the flow");
                    return Err(A::Error::custom(text));
                }
                if nodes.contains_key(&name) {
                    return Err(A::Error::custom(format!("node {name:?} is defined twice")));
                }
                nodes.insert(name, job);
            }
            Ok(nodes)
        }
    }

    deserializer.deserialize_map(Nodes)
}

impl NewFlow {
    /// Converts to core jobs: the name of the flow, and the name of each job with it. `new_id` generates the ids of jobs
    /// without one.
    pub fn into_core(
        self,
        mut new_id: impl FnMut() -> JobId,
    ) -> Result<(Name, Vec<(String, model::NewJob)>)> {
        let flow = self.flow.unwrap_or_else(|| new_id().to_string().into());
        check_name("flow", &flow)?;
        let mut ids = BTreeMap::new();
        for (name, job) in &self.nodes {
            check_name("nodes", name)?;
            ids.insert(name.clone(), job.id.unwrap_or_else(&mut new_id));
        }
        let node = |(name, mut job): (String, NewJob)| {
            for dependency in &mut job.after {
                if let Some(id) = ids.get(&dependency.job) {
                    dependency.name.get_or_insert_with(|| dependency.job.clone());
                    dependency.job = id.to_string();
                } else if dependency.job.parse::<JobId>().is_err() {
                    let expected = "it is neither a node of this flow nor the id of a job";
                    let error = Error::invalid("after", &dependency.job, expected);
                    return Err(error.within(format_args!("nodes.{name}")));
                }
            }
            let core = job.into_core();
            let mut core = core.map_err(|error| error.within(format_args!("nodes.{name}")))?;
            core.id = ids.get(&name).copied();
            core.flow.get_or_insert_with(|| flow.clone());
            Ok((name, core))
        };
        let jobs = self.nodes.into_iter().map(node).collect::<Result<_>>()?;
        Ok((flow, jobs))
    }
}

/// A graph that was stored.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredFlow {
    /// The name of the flow.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub flow: Name,
    /// The result of each job, by its name.
    pub nodes: BTreeMap<String, Enqueued>,
}

/// The jobs of a flow.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Flow {
    /// The name of the flow.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub flow: Name,
    /// Number of jobs by state.
    pub states: BTreeMap<String, u64>,
    /// The jobs with what they run `after`, without parts: each after those that it depends on.
    pub jobs: Vec<Job>,
    /// Cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

impl Flow {
    /// The view of a flow.
    pub fn new(flow: Name, jobs: Vec<model::Job>) -> Self {
        let states = Self::states(&jobs);
        Self { flow, states, jobs: jobs.into_iter().map(Into::into).collect(), next: None }
    }

    /// A page of a flow, with the states of all its jobs. The cursor is a position: the order of the jobs changes if
    /// jobs are added.
    pub fn page(flow: Name, mut jobs: Vec<model::Job>, page: &PageQuery) -> Result<Self> {
        let states = Self::states(&jobs);
        let first = page.position()?.min(jobs.len());
        let last = first.saturating_add(page.limit()?);
        let next = (last < jobs.len()).then(|| Cursor::new(last.to_string()));
        jobs.truncate(last);
        let jobs = jobs.into_iter().skip(first).map(Into::into).collect();
        Ok(Self { flow, states, jobs, next })
    }

    fn states(jobs: &[model::Job]) -> BTreeMap<String, u64> {
        let mut states = BTreeMap::new();
        for job in jobs {
            *states.entry(job.state.as_str().to_owned()).or_default() += 1;
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_id() -> impl FnMut() -> JobId {
        let mut last = 0_u8;
        move || {
            last += 1;
            JobId::from_bytes([last; 16])
        }
    }

    fn read(text: &str) -> Result<(Name, Vec<(String, model::NewJob)>)> {
        let flow: NewFlow = crate::read(text.as_bytes())?;
        flow.into_core(new_id())
    }

    #[test]
    fn nodes_depend_on_each_other_by_name_and_on_other_jobs_by_id() {
        let other = JobId::from_bytes([0xab; 16]);
        let text = format!(
            r#"{{"flow":"f","nodes":{{
                "a":{{"kind":"k"}},
                "b":{{"kind":"k","after":["a",{{"job":"{other}","name":"x","on_failure":"run"}}]}}}}}}"#
        );
        let (flow, jobs) = read(&text).unwrap();
        assert_eq!(&*flow, "f");
        let [(_, a), (_, b)] = &jobs[..] else { panic!("{jobs:?}") };
        assert_eq!((b.after[0].job, b.after[0].name.as_deref()), (a.id.unwrap(), Some("a")));
        assert_eq!((b.after[1].job, b.after[1].name.as_deref()), (other, Some("x")));
        assert!(jobs.iter().all(|(_, job)| job.flow.as_deref() == Some("f")));
    }

    #[test]
    fn bad_graphs_are_refused_by_node() {
        for (text, hint) in [
            (r#"{"nodes":{"a":{"kind":"k","after":["b"]}}}"#, "nodes.a.after"),
            (r#"{"nodes":{"a b":{"kind":"k"}}}"#, "nodes"),
            (r#"{"nodes":{"a":{"kind":"k"},"a":{"kind":"k"}}}"#, "twice"),
            (
                r#"{"nodes":{"a":{"kind":"k","delay_ms":1,"run_at":"2027-01-01T00:00:00Z"}}}"#,
                "nodes.a",
            ),
            (r#"{"flow":"a b","nodes":{}}"#, "flow"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(hint), "{text}: {error}");
        }
    }
}

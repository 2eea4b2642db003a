//! Graphs of flows as text: Graphviz and Mermaid.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use windlass_core::JobId;
use windlass_core::model::{Job, OnFailure};

/// The flow in the language of Graphviz.
pub(super) fn dot(jobs: &[Job]) -> String {
    let mut text = String::from("digraph flow {\n");
    let numbers = numbers(jobs);
    for (job, number) in jobs.iter().zip(1_usize..) {
        line(&mut text, &format!("  n{number} [label=\"{}\\n{}\"];", job.header.kind, job.state));
    }
    for (from, to, policy) in edges(jobs, &numbers) {
        let label = label(policy).map(|label| format!(" [label=\"{label}\"]")).unwrap_or_default();
        line(&mut text, &format!("  n{from} -> n{to}{label};"));
    }
    text.push_str("}\n");
    text
}

/// The flow as a Mermaid flowchart.
pub(super) fn mermaid(jobs: &[Job]) -> String {
    let mut text = String::from("flowchart TD\n");
    let numbers = numbers(jobs);
    for (job, number) in jobs.iter().zip(1_usize..) {
        line(&mut text, &format!("    n{number}[\"{}<br>{}\"]", job.header.kind, job.state));
    }
    for (from, to, policy) in edges(jobs, &numbers) {
        let arrow = label(policy).map_or_else(|| "-->".to_owned(), |label| format!("-->|{label}|"));
        line(&mut text, &format!("    n{from} {arrow} n{to}"));
    }
    text
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

/// Short names for the jobs, because ids are long.
fn numbers(jobs: &[Job]) -> BTreeMap<JobId, usize> {
    jobs.iter().zip(1..).map(|(job, number)| (job.header.id, number)).collect()
}

/// The edges between jobs of the flow. Jobs outside of it are left out.
fn edges<'a>(
    jobs: &'a [Job],
    numbers: &'a BTreeMap<JobId, usize>,
) -> impl Iterator<Item = (usize, usize, OnFailure)> + 'a {
    jobs.iter().zip(1_usize..).flat_map(move |(job, to)| {
        let inputs = job.inputs.iter();
        inputs.filter_map(move |input| Some((*numbers.get(&input.job)?, to, input.on_failure)))
    })
}

/// The label of an edge whose policy is not the usual one.
fn label(policy: OnFailure) -> Option<&'static str> {
    (policy != OnFailure::Fail).then(|| policy.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Timestamp;
    use windlass_core::model::{Dependency, Header, Input, Parts, State};

    #[test]
    fn edges_lead_from_a_job_to_its_dependents() {
        let job = |byte, kind: &str| {
            let id = JobId::from_bytes([byte; 16]);
            Job::new(Header::new(id, "q", kind, Timestamp::EPOCH), State::Blocked, Parts::default())
        };
        let (first, mut second) = (job(1, "resize"), job(2, "notify"));
        let on = Dependency::on(first.header.id).on_failure(OnFailure::Run);
        second.inputs.push(Input::open(&on));
        let jobs = [first, second];
        assert!(dot(&jobs).contains("n1 -> n2 [label=\"run\"];"), "{}", dot(&jobs));
        assert!(dot(&jobs).contains("n1 [label=\"resize\\nblocked\"];"), "{}", dot(&jobs));
        assert!(mermaid(&jobs).contains("n1 -->|run| n2"), "{}", mermaid(&jobs));
    }
}

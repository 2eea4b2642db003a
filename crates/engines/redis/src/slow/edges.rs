//! Dependencies: the open edges of jobs that may end, and all dependencies of single jobs.
//!
//! A job has its dependencies in a hash of its own, by position; a job that others wait for has its open edges in a sorted
//! set, by dependent and position.

use crate::conn::error::Try;
use crate::conn::script::{Commands, Reads, Replies};
use crate::keys::Keys;
use crate::slow::transaction::{Loaded, Transaction, WorkingSet};
use std::collections::BTreeMap;
use windlass_core::JobId;
use windlass_core::model::Input;
use windlass_workset::codec::{Decoded, StoredInput};
use windlass_workset::pack::Unpack;
use windlass_workset::{ChangedInput, Wants, edges_loaded_max};

/// Reads of one call.
const READS_MAX: usize = 1_000;
/// Ended jobs that one maintenance step continues to resolve. Each may have a wide fan.
pub(crate) const UNRESOLVED_MAX: u32 = 16;

/// The dependencies of a job, by position.
pub(crate) type Inputs = BTreeMap<u32, Input>;

impl Transaction<'_> {
    /// Loads the wanted edges. A new edge changes what is read here or, if it is the first, the record of its job.
    pub(super) async fn load_edges(&self, wants: &Wants, loaded: &mut Loaded) -> Try<()> {
        let upstream: Vec<JobId> = loaded.edges_to_load(wants).collect();
        let mut whole: Vec<JobId> = loaded.inputs_to_load(wants).collect();
        // A hash has no order to begin in the middle of.
        let spans = loaded.spans_to_load(wants).map(|(id, _)| id);
        let known = |id: &JobId| loaded.edges.whole.contains_key(id) || wants.inputs.contains(id);
        whole.extend(spans.filter(|id| !known(id)).collect::<Vec<_>>());
        for (id, inputs) in self.read_inputs(&whole, true, loaded).await? {
            loaded.edges.whole.entry(id).or_default();
            inputs.into_values().for_each(|input| loaded.edges.add_next(id, input));
        }
        let (most, mut edges) = (edges_loaded_max(upstream.len()), Vec::new());
        for some in upstream.chunks(READS_MAX) {
            let (mut reads, last) = (Reads::default(), most.to_string());
            for id in some {
                reads.expect("ZRANGE", &self.keys.edges(*id), &[b"0", last.as_bytes()]);
            }
            let replies = self.read(reads, loaded).await?;
            for (at, id) in some.iter().enumerate() {
                loaded.edges.open.entry(*id).or_default();
                for member in replies.members(at)? {
                    edges.push((*id, read_edge(member)?));
                }
            }
        }
        for some in edges.chunks(READS_MAX) {
            let mut reads = Reads::default();
            for (_, (dependent, position)) in some {
                // Verified by the edge, which is gone once the dependency has an outcome.
                let field = position.to_be_bytes();
                reads.peek("HGET", &self.keys.inputs(*dependent), &[&field]);
            }
            let replies = self.read(reads, loaded).await?;
            for (at, (upstream, key)) in some.iter().enumerate() {
                if let Some(stored) = replies.bytes(at)? {
                    loaded.edges.add_open(*upstream, *key, read_input(stored)?, most);
                }
            }
        }
        Ok(())
    }

    /// All dependencies of these jobs; `verified`: a commit notices if one has changed.
    pub(crate) async fn read_inputs(
        &self,
        ids: &[JobId],
        verified: bool,
        loaded: &mut Loaded,
    ) -> Try<Vec<(JobId, Inputs)>> {
        let mut all = Vec::with_capacity(ids.len());
        for some in ids.chunks(READS_MAX) {
            let mut reads = Reads::default();
            for id in some {
                let key = self.keys.inputs(*id);
                match verified {
                    true => reads.expect("HGETALL", &key, &[]),
                    false => reads.peek("HGETALL", &key, &[]),
                };
            }
            let replies = self.read(reads, loaded).await?;
            for (at, id) in some.iter().enumerate() {
                all.push((*id, inputs(&replies, at)?));
            }
        }
        Ok(all)
    }
}

fn inputs(replies: &Replies, at: usize) -> Try<Inputs> {
    let mut inputs = Inputs::new();
    for (position, stored) in replies.pairs(at)? {
        inputs.insert(read_position(position)?, read_input(stored)?);
    }
    Ok(inputs)
}

/// Writes the changed dependencies, and removes those of jobs that were removed.
pub(super) fn save_edges(keys: &Keys, set: &WorkingSet<'_>, writes: &mut Commands) -> Try<()> {
    for ChangedInput { dependent, position, input } in set.changed_inputs() {
        let text = StoredInput::text(input)?.unwrap_or_default();
        let value = [input.job.as_bytes().as_slice(), text.as_bytes()].concat();
        writes.push("HSET", &keys.inputs(dependent), &[&position.to_be_bytes(), &value]);
        let (key, member) = (keys.edges(input.job), edge(dependent, position));
        match input.is_open() {
            true => writes.push("ZADD", &key, &[b"0", &member]),
            false => writes.push("ZREM", &key, &[&member]),
        };
    }
    let edges = &set.base().edges;
    for found in set.changed().filter(|changed| changed.after.is_none()) {
        let Some(entry) = found.before.map(|found| &found.entry) else { continue };
        let (id, counts) = (entry.id(), entry.job.dependencies);
        if counts.total > 0 {
            writes.push("UNLINK", &keys.inputs(id), &[]);
        }
        // It ended before the jobs that it depended on.
        for position in 0..edges.whole.get(&id).copied().unwrap_or(0) {
            if let Some(input) = edges.inputs.get(&(id, position)).filter(|input| input.is_open()) {
                writes.push("ZREM", &keys.edges(input.job), &[&edge(id, position)]);
            }
        }
    }
    Ok(())
}

/// A member of the open edges of a job.
pub(crate) fn edge(dependent: JobId, position: u32) -> Vec<u8> {
    [dependent.as_bytes().as_slice(), &position.to_be_bytes()].concat()
}

/// Reads [`edge`].
pub(crate) fn read_edge(member: &[u8]) -> Decoded<(JobId, u32)> {
    let mut list = Unpack(member);
    Ok((list.id()?, read_position(list.0)?))
}

fn read_position(bytes: &[u8]) -> Decoded<u32> {
    let mut list = Unpack(bytes);
    Ok(u32::from_be_bytes(list.raw(4)?.try_into().unwrap_or_default()))
}

/// Reads a dependency: the job that it is on, and the rest as text.
pub(crate) fn read_input(stored: &[u8]) -> Decoded<Input> {
    let mut list = Unpack(stored);
    let upstream = list.id()?;
    let text = crate::rows::small::text(list.0)?;
    StoredInput::read(upstream, Some(text).filter(|text| !text.is_empty()))
}

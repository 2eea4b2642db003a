//! Checks that every index follows from the jobs, and repairs it.
//!
//! The check reads the store in steps while others write. Whatever seems wrong is therefore verified: an entry of an index
//! together with its job at one instant, and a count by a second pass. A repair is a commit that verifies the same again.

use super::facts::{Facts, Wrong};
use crate::conn::error::{Trouble, Try};
use crate::conn::library::Function;
use crate::conn::script::{Commands, Reads};
use crate::engine::RedisEngine;
use crate::keys::Keys;
use crate::rows::places::places;
use crate::rows::{record, small};
use crate::slow::edges::{read_edge, read_input};
use crate::slow::transaction::{Loaded, Transaction};
use windlass_core::engine::{CheckReport, Finding, Stamped};
use windlass_core::{JobId, Result};

/// Entries that are verified in one transaction.
const VERIFIED_MAX: usize = 200;

impl RedisEngine {
    pub(crate) async fn check_all(&self, repair: bool) -> Result<Stamped<CheckReport>> {
        let first = self.gather().await.map_err(Trouble::into_error)?;
        let mut report = CheckReport::default();
        report.jobs = first.jobs;
        let mut wrong = first.wrong();
        let contradictions = first.contradictions;
        if !wrong.is_empty() || !contradictions.is_empty() {
            let again = self.gather().await.map_err(Trouble::into_error)?;
            let still = again.wrong();
            wrong.retain(|it| still.contains(it));
            let both = contradictions.into_iter().filter(|it| again.contradictions.contains(it));
            report.findings.extend(both.map(|what| Finding::new(what, false)));
        }
        for some in wrong.chunks(VERIFIED_MAX) {
            let found = self.verify(some, repair).await.map_err(Trouble::into_error)?;
            report.findings.extend(found.into_iter().map(|what| Finding::new(what, repair)));
        }
        Ok(self.answers().await?.map(|()| report))
    }

    /// Reads the whole store, step by step.
    async fn gather(&self) -> Try<Facts> {
        let (transaction, mut loaded) = self.inner.shared.look().await?;
        Facts::read(&transaction, &mut loaded).await
    }

    /// Verifies what seems wrong at one instant, and corrects it with `repair`; returns what is wrong.
    async fn verify(&self, wrong: &[Wrong], repair: bool) -> Try<Vec<String>> {
        let (transaction, mut loaded) = self.inner.shared.look().await?;
        let mut reads = Reads::default();
        for it in wrong {
            match it {
                Wrong::Entry { key, member, id, .. } => {
                    match is_edge(transaction.keys, key) {
                        true => {
                            let position = &read_edge(member)?.1.to_be_bytes();
                            reads.expect("HGET", &transaction.keys.inputs(*id), &[position])
                        }
                        false => {
                            reads.expect("HGET", &transaction.keys.one("job"), &[id.as_bytes()])
                        }
                    };
                    reads.expect("ZSCORE", key, &[member]);
                }
                Wrong::Derived(entry) => entry.ask(transaction.keys, &mut reads),
                Wrong::Inputs { key, id } => {
                    reads.expect("HGET", &transaction.keys.one("job"), &[id.as_bytes()]);
                    reads.expect("HLEN", key, &[]);
                }
                Wrong::Field { key, field, .. } => {
                    reads.expect("HGET", key, &[field]);
                    reads.expect("HGET", key, &[field]);
                }
            }
        }
        let replies = transaction.read(reads, &mut loaded).await?;
        let (mut found, mut writes) = (Vec::new(), Commands::default());
        for (at, it) in wrong.iter().enumerate().map(|(at, it)| (2 * at, it)) {
            match it {
                Wrong::Entry { key, member, id, .. } => {
                    let wanted = match is_edge(transaction.keys, key) {
                        true => {
                            let input = replies.bytes(at)?.map(read_input).transpose()?;
                            let input = input.filter(|it| it.is_open());
                            let on = input.map(|it| transaction.keys.edges(it.job));
                            on.filter(|on| on == key).map(|_| 0)
                        }
                        false => wanted(&transaction, *id, replies.bytes(at)?, key, member)?,
                    };
                    let stored = replies.score(at + 1)?.map(|score| score as i64);
                    if wanted == stored {
                        continue;
                    }
                    match wanted {
                        Some(score) => {
                            writes.push("ZADD", key, &[score.to_string().as_bytes(), member]);
                        }
                        None => drop(writes.push("ZREM", key, &[member])),
                    }
                }
                Wrong::Derived(entry) => {
                    if !entry.judge(transaction.keys, &replies, at, &mut writes)? {
                        continue;
                    }
                }
                Wrong::Inputs { key, .. } => {
                    if replies.bytes(at)?.is_some() || replies.int(at + 1)? == 0 {
                        continue;
                    }
                    writes.push("UNLINK", key, &[]);
                }
                Wrong::Field { key, field, wanted, .. } => {
                    if replies.bytes(at)? == wanted.as_deref() {
                        continue;
                    }
                    match wanted {
                        Some(value) => drop(writes.push("HSET", key, &[field, value])),
                        None => drop(writes.push("HDEL", key, &[field])),
                    }
                }
            }
            found.push(it.to_string());
        }
        if repair {
            transaction.commit(Function::Drain, writes).await?;
        }
        Ok(found)
    }
}

/// Whether a key lists open dependencies.
fn is_edge(keys: &Keys, key: &[u8]) -> bool {
    key.get(keys.prefix().len()..).is_some_and(|name| name.starts_with(b"edge:"))
}

/// The score that an entry of an index should have; `None`: it should not exist.
fn wanted(
    transaction: &Transaction<'_>,
    id: JobId,
    stored: Option<&[u8]>,
    key: &[u8],
    member: &[u8],
) -> Try<Option<i64>> {
    let Some(stored) = stored else { return Ok(None) };
    let entry = record::decode(id, stored)?.entry;
    let ages = transaction.settings.ages(&entry.job.header.queue);
    let places = places(transaction.keys, &entry, ages);
    Ok(places.get(&(key.to_vec(), member.to_vec())).copied())
}

/// The job of a member of an index with this name.
pub(super) fn id_of(index: &str, member: &[u8]) -> Try<JobId> {
    let at = match index {
        "ready" | "due" | "held" | "line" => 8,
        "group_line" => 24,
        _ => 0,
    };
    Ok(small::id(member.get(at..).unwrap_or_default())?)
}

/// Reads all members of a sorted set with their scores.
pub(super) async fn members(
    transaction: &Transaction<'_>,
    key: &[u8],
    loaded: &mut Loaded,
) -> Try<Vec<(Vec<u8>, i64)>> {
    let mut all: Vec<(Vec<u8>, i64)> = Vec::new();
    loop {
        let (score, member) = all.last().map_or_else(Default::default, |(member, score)| {
            (score.to_string().into_bytes(), member.clone())
        });
        let mut reads = Reads::default();
        reads.peek("PAGE", key, &[&score, &member, b"2000", b""]);
        let replies = transaction.read(reads, loaded).await?;
        let page = replies.scores(0)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page.into_iter().map(|(member, score)| (member.to_vec(), score as i64)));
    }
}

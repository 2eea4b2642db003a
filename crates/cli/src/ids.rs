//! Job ids on the command line: whole, or their first digits.

use anyhow::Result;
use std::fmt::Write as _;
use std::str::FromStr;
use windlass::Client;
use windlass_core::engine::{Filter, List};
use windlass_core::{IdPrefix, JobId};

/// Number of candidates that an ambiguous prefix lists.
const CANDIDATES_MAX: u32 = 5;
/// Maximum number of pages that are read to find a job.
const PAGES_MAX: usize = 100;

/// A job id, or its first hex digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum IdArg {
    Whole(JobId),
    Start(IdPrefix),
}

impl FromStr for IdArg {
    type Err = windlass_core::Error;

    fn from_str(text: &str) -> windlass_core::Result<Self> {
        match text.parse() {
            Ok(id) => Ok(Self::Whole(id)),
            Err(_) => text.parse().map(Self::Start),
        }
    }
}

/// The id names no job, or several.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unresolved {
    #[error("no job has an id that starts with {0}; `windlass jobs` lists jobs")]
    NotFound(IdPrefix),
    #[error("several jobs have an id that starts with {0}; give more digits:{1}")]
    Ambiguous(IdPrefix, String),
}

impl Unresolved {
    /// The stable code of this error.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not_found",
            Self::Ambiguous(..) => "ambiguous",
        }
    }
}

/// The whole ids.
pub(crate) async fn all(client: &Client, ids: &[IdArg]) -> Result<Vec<JobId>> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.push(one(client, *id).await?);
    }
    Ok(found)
}

/// The whole id. A prefix must belong to exactly one job.
pub(crate) async fn one(client: &Client, id: IdArg) -> Result<JobId> {
    let prefix = match id {
        IdArg::Whole(id) => return Ok(id),
        IdArg::Start(prefix) => prefix,
    };
    let mut filter = Filter::default();
    filter.id = Some(prefix);
    let (mut jobs, mut after) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let request = List::new(filter.clone()).after(after).limit(CANDIDATES_MAX + 1);
        let page = client.engine().list(request).await?.value;
        jobs.extend(page.rows);
        after = page.next;
        if after.is_none() || jobs.len() > CANDIDATES_MAX as usize {
            break;
        }
    }
    match jobs.as_slice() {
        [] => Err(Unresolved::NotFound(prefix).into()),
        [job] => Ok(job.header.id),
        jobs => {
            let mut candidates = String::new();
            for job in jobs.iter().take(CANDIDATES_MAX as usize) {
                let header = &job.header;
                let (id, kind, queue) = (header.id, &header.kind, &header.queue);
                write!(candidates, "\n  {id}  {kind} in {queue}, {}", job.state)?;
            }
            if jobs.len() > CANDIDATES_MAX as usize {
                candidates += "\n  and more";
            }
            Err(Unresolved::Ambiguous(prefix, candidates).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_whole_or_a_prefix() {
        let id = "0199b2c8-0000-7000-8000-000000000001";
        assert_eq!(id.parse(), Ok(IdArg::Whole(id.parse().unwrap())));
        assert_eq!("0199B2".parse(), Ok(IdArg::Start("0199b2".parse().unwrap())));
        for wrong in ["", "mail", "0199b2c8-0000-7000-8000-0000000000012"] {
            assert!(wrong.parse::<IdArg>().is_err(), "{wrong}");
        }
    }
}

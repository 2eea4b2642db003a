//! A write-ahead log with a torn or damaged tail: the store opens at the last valid commit.

use crate::child::{Role, Running, say, stay};
use crate::support::{
    assert_sound, copy, database, enqueue as enqueue_one, get, ids, job, log_end, open, runtime,
    still, wal,
};
use std::fs::OpenOptions;
use std::path::Path;
use windlass_core::JobId;
use windlass_core::model::State;

/// Number of jobs, enqueued one by one: enough for the log to be filled with zeros, and too few for a checkpoint.
const JOBS: u32 = 40;
/// Seed of the ids.
const SEED: u64 = 11;

/// The child: reports the length of the log after each acknowledged job.
pub(crate) fn enqueue(dir: &Path, jobs: u32) {
    let clock = still();
    let engine = open(dir, clock).expect("open");
    runtime().block_on(async {
        for id in ids(SEED, windlass_kit::START, jobs as usize) {
            enqueue_one(&engine, job(id)).await.expect("enqueue");
            say(&format!("{}", log_end(dir)));
        }
    });
    stay();
}

/// Kills the owner of a directory. Returns the acknowledged jobs, each with the length of the log at that time:
/// damage after this length cannot affect the job.
fn killed(dir: &Path) -> Vec<(JobId, u64)> {
    let mut child = Running::start(&Role::Enqueue { dir: dir.to_owned(), jobs: JOBS });
    let ids = ids(SEED, windlass_kit::START, JOBS as usize).into_iter();
    let lengths = std::iter::from_fn(|| child.hear()).take(JOBS as usize);
    let lengths = lengths.map(|length| length.parse().expect("a length"));
    let acknowledged: Vec<(JobId, u64)> = ids.zip(lengths).collect();
    child.kill();
    assert_eq!(acknowledged.len(), JOBS as usize);
    acknowledged
}

/// Opens the damaged store in `dir` and returns how many of the jobs it has. These must be the first ones, and
/// include every job whose commit is before `valid`.
fn assert_opens(dir: &Path, acknowledged: &[(JobId, u64)], valid: u64, how: &str) -> usize {
    let engine = open(dir, still()).unwrap_or_else(|error| panic!("{how}: {error}"));
    let there: Vec<bool> = runtime().block_on(async {
        let mut there = Vec::new();
        for (id, _) in acknowledged {
            let job = get(&engine, *id).await;
            assert!(job.as_ref().is_none_or(|job| job.state == State::Available), "{how}: {job:?}");
            there.push(job.is_some());
        }
        // New jobs are accepted.
        let next = ids(SEED + 1, windlass_kit::START, 1)[0];
        enqueue_one(&engine, job(next)).await.unwrap_or_else(|error| panic!("{how}: {error}"));
        there
    });
    let count = there.iter().take_while(|there| **there).count();
    assert!(there[count..].iter().all(|there| !there), "{how}: holes in {there:?}");
    let promised = acknowledged.iter().filter(|(_, length)| *length <= valid).count();
    assert!(count >= promised, "{how}: {count} jobs are there, {promised} lie before the tear");
    drop(engine);
    assert_sound(dir);
    count
}

#[test]
fn a_truncated_log_loses_only_the_commits_after_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let acknowledged = killed(dir.path());
    let (end, length) = (log_end(dir.path()), std::fs::metadata(wal(dir.path())).unwrap().len());
    assert!(end < length, "the log was not filled; enqueue more: {end} of {length}");
    let ends: Vec<u64> = acknowledged.iter().map(|(_, end)| *end).collect();
    assert!(ends.is_sorted(), "the log was written back meanwhile; enqueue fewer: {ends:?}");
    let all = assert_opens(copy(dir.path()).path(), &acknowledged, end, "untouched");
    assert_eq!(all, JOBS as usize);
    let mut least = all;
    for cut in [1, 7, 24, 512, 4_095, 4_096, 4_120, 20_000, end / 2, end - 32, end] {
        let valid = end.saturating_sub(cut);
        // Truncated, or followed by zeros: in a filled log, pages that never reached the disk are still zeros.
        for zeros in [0, length - valid] {
            let left = copy(dir.path());
            let file = OpenOptions::new().write(true).open(wal(left.path())).unwrap();
            file.set_len(valid).unwrap();
            file.set_len(valid + zeros).unwrap();
            let how = format!("{cut} of {end} bytes lost, {zeros} zeros behind");
            least = least.min(assert_opens(left.path(), &acknowledged, valid, &how));
        }
    }
    assert!(least < all, "nothing was in the log at all");
}

#[test]
fn a_corrupt_end_of_the_log_loses_only_the_commits_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let acknowledged = killed(dir.path());
    let (bytes, end) = (std::fs::read(wal(dir.path())).unwrap(), log_end(dir.path()) as usize);
    for (back, garbage) in [(1, 1), (10, 10), (4_000, 16), (4_120, 24), (9_000, 9_000), (30_000, 1)]
    {
        let from = end.saturating_sub(back);
        let left = copy(dir.path());
        let mut torn = bytes.clone();
        torn[from..from + garbage].iter_mut().for_each(|byte| *byte = !*byte);
        std::fs::write(wal(left.path()), &torn).unwrap();
        let how = format!("{garbage} bytes garbled, {back} before the end");
        assert_opens(left.path(), &acknowledged, from as u64, &how);
    }
}

#[test]
fn a_tail_of_zeros_or_of_nonsense_is_not_taken_for_commits() {
    let dir = tempfile::tempdir().unwrap();
    let acknowledged = killed(dir.path());
    let end = log_end(dir.path());
    let bytes = &std::fs::read(wal(dir.path())).unwrap()[..end as usize];
    let repeated = bytes[32..].to_vec();
    for (tail, how) in
        [(vec![0; 8_240], "zeros"), (vec![0x5a; 9_999], "nonsense"), (repeated, "old frames")]
    {
        let left = copy(dir.path());
        std::fs::write(wal(left.path()), [bytes, &*tail].concat()).unwrap();
        let count = assert_opens(left.path(), &acknowledged, end, how);
        assert_eq!(count, JOBS as usize, "{how}");
    }
}

#[test]
fn a_log_of_zeros_is_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let acknowledged = killed(dir.path());
    let length = std::fs::metadata(wal(dir.path())).unwrap().len();
    // Closing moves all commits into the database.
    drop(open(dir.path(), still()).unwrap());
    for zeros in [1, 31, 32, 4_152, length] {
        let left = copy(dir.path());
        std::fs::write(wal(left.path()), vec![0; zeros as usize]).unwrap();
        let how = format!("a log of {zeros} zeros");
        assert_eq!(assert_opens(left.path(), &acknowledged, u64::MAX, &how), JOBS as usize);
    }
}

#[test]
fn a_store_that_is_closed_leaves_no_log_behind() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path());
    drop(open(dir.path(), still()).unwrap());
    // Otherwise a database restored from a copy would receive commits of another time.
    assert!(!wal(dir.path()).exists());
}

#[test]
fn a_lost_index_of_the_log_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let acknowledged = killed(dir.path());
    let left = copy(dir.path());
    let mut index = database(left.path()).unwrap().into_os_string();
    index.push("-shm");
    // In exclusive mode there is no such file.
    let _ = std::fs::remove_file(index);
    assert_eq!(assert_opens(left.path(), &acknowledged, u64::MAX, "no index"), JOBS as usize);
}

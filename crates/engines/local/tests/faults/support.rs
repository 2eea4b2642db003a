//! Shared helpers: engines, clocks, copies of directories, and access to the files themselves.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use windlass_core::engine::{
    Admin as _, Claim, Claimant, ClaimedJob, Enqueue, Get, Jobs, SessionId,
};
use windlass_core::engine::{Maintain, MaintainRequest, OpenSession, Work};
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_core::model::{Job, NewJob};
use windlass_core::random::{Random, Seeded};
use windlass_core::time::{Clock, ManualClock, Timestamp};
use windlass_core::{JobId, Result};
use windlass_local::{LocalEngine, Options};

/// The queue of all tests.
pub(crate) const QUEUE: &str = "faults";

/// The first bytes of a SQLite database.
const SIGNATURE: &[u8; 16] = b"SQLite format 3\0";

/// Size of the header of a write-ahead log.
const LOG_HEADER: usize = 32;
/// Size of a frame in the log: a header and one page.
const LOG_FRAME: usize = 24 + 4_096;

/// Real time, for children on a fast clock and for parents that wait.
#[expect(clippy::disallowed_methods, reason = "real processes die in real time")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}

pub(crate) fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<LocalEngine> {
    LocalEngine::open(Options::new(dir).clock(clock))
}

/// A clock for tests in which time does not matter.
pub(crate) fn still() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(windlass_kit::START))
}

/// New ids at `now`, the same for the same seed.
pub(crate) fn ids(seed: u64, now: Timestamp, count: usize) -> Vec<JobId> {
    let random = Seeded::new(seed);
    (0..count).map(|_| JobId::new(now, &random)).collect()
}

/// True with a probability of `per_mille` / 1000.
pub(crate) fn happens(random: &dyn Random, per_mille: u64) -> bool {
    random.below(1_000) < per_mille
}

/// A plain job.
pub(crate) fn job(id: JobId) -> NewJob {
    NewJob::new("plain").queue(QUEUE).id(id)
}

/// Enqueues one job; both the call and the item must succeed.
pub(crate) async fn enqueue(engine: &dyn Jobs, job: NewJob) -> Result<()> {
    let mut answer = engine.enqueue(Enqueue::each([job])).await?;
    answer.value.remove(0).map(|_| ())
}

/// Opens a session with the default length.
pub(crate) async fn session(engine: &dyn Jobs) -> SessionId {
    engine.open_session(OpenSession::new("w")).await.expect("open_session").value.id
}

/// Claims up to `limit` jobs for a session.
pub(crate) async fn claim(
    engine: &dyn Jobs,
    session: &SessionId,
    claim_no: u64,
    limit: u32,
) -> Result<Vec<ClaimedJob>> {
    let by = Claimant::Session { session: session.clone(), claim_no };
    Ok(engine.claim(Claim::new(by, QUEUE, limit)).await?.value.jobs)
}

/// Returns one job.
pub(crate) async fn get(engine: &LocalEngine, id: JobId) -> Option<Job> {
    engine.get(Get::new([id])).await.expect("get").value.remove(0)
}

/// Runs all maintenance that is due.
pub(crate) async fn maintain(engine: &dyn Maintain) {
    for work in Work::ALL {
        let request = MaintainRequest::new(work, MAINTAIN_BUDGET_MAX);
        for _ in 0..1_000 {
            if !engine.maintain(request).await.expect("maintain").value.more {
                break;
            }
        }
    }
}

/// Copies the files of `dir` as they are, as if its owner had been killed.
pub(crate) fn copy(dir: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a directory");
    for entry in std::fs::read_dir(dir).expect("the directory") {
        let from = entry.expect("an entry").path();
        let name = from.file_name().expect("a name");
        std::fs::copy(&from, to.path().join(name)).expect("a copy");
    }
    to
}

/// The database in `dir`: the file with SQLite's signature.
pub(crate) fn database(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("the directory");
    let mut files = entries.map(|entry| entry.expect("an entry").path());
    files.find(|path| {
        let mut head = [0; SIGNATURE.len()];
        let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
        read.is_ok() && head == *SIGNATURE
    })
}

/// The write-ahead log of the database in `dir`.
pub(crate) fn wal(dir: &Path) -> PathBuf {
    let mut path = database(dir).expect("a database").into_os_string();
    path.push("-wal");
    path.into()
}

/// Length of the log in `dir` without the zeros that it was filled with.
pub(crate) fn log_end(dir: &Path) -> u64 {
    let bytes = std::fs::read(wal(dir)).expect("a log");
    let Some(frames) = bytes.get(LOG_HEADER..) else { return bytes.len() as u64 };
    let used = frames.chunks(LOG_FRAME).rposition(|frame| frame != &[0; LOG_FRAME][..frame.len()]);
    (LOG_HEADER + used.map_or(0, |last| last + 1) * LOG_FRAME) as u64
}

/// Panics if the database is damaged. The directory must have no owner. Use a [`copy`], because this recovers and
/// checkpoints the database.
pub(crate) fn assert_sound(dir: &Path) {
    let Some(path) = database(dir) else { return };
    let connection = rusqlite::Connection::open(path).expect("the database");
    let verdict: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
    assert_eq!(verdict, "ok");
}

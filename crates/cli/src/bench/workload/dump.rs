//! W7dump: runs `pg_dump` of the schema during the whole measurement. Its output is read slowly, as by a slow
//! disk or network, so that it holds its snapshot and locks even if the dump is small; when one dump ends, the
//! next starts.

use super::super::clock;
use crate::postgres_places::{DEBIAN, postgres_places};
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_util::sync::CancellationToken;
use windlass::PostgresUrl;

/// Number of bytes read at a time, and the size of the pipe buffer, as small as the system allows.
const READ_BYTES: usize = 4_096;
/// Time between two reads, i.e. 16 KiB/s. At this rate, the empty tables alone take seconds, and the rows left
/// by a few seconds of load take longer than any measurement.
const READ_EVERY: Duration = Duration::from_millis(250);
/// A dump fails if a partition is removed before the dump has locked it; more consecutive failures than this
/// have another cause.
const FAILURES_MAX: u32 = 10;
/// Maximum number of bytes of a failed dump's stderr in the error.
const WORDS_MAX: u64 = 2_000;
/// Timeout for reading the version of a program.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Finds a `pg_dump` that supports servers of this version; the error lists the searched directories.
pub(super) async fn find(major: u32) -> Result<PathBuf, String> {
    let programs = postgres_places().map(|place| place.join("pg_dump"));
    for program in programs.filter(|program| program.exists()) {
        let version = version(&program).await;
        // As in `pg_dump (PostgreSQL) 15.14 (Debian 15.14-0)`.
        let version = version.as_deref().and_then(|it| it.split_whitespace().nth(2));
        let version = version.and_then(|it| it.split(['.', 'b', 'd', 'r']).next());
        if version.and_then(|it| it.parse().ok()).is_some_and(|version: u32| version >= major) {
            return Ok(program);
        }
    }
    Err(format!(
        "no pg_dump of version {major} or later in PATH, in `pg_config --bindir`, or below \
         {DEBIAN}; install PostgreSQL's client programs"
    ))
}

/// The output of a program for `--version`.
async fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").kill_on_drop(true).output();
    let output = tokio::time::timeout(ANSWER_MAX, output).await.ok()?.ok()?;
    let answer = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
    Some(answer.trim().to_owned())
}

/// Consecutive dumps, until stopped.
pub(super) struct Dump {
    stop: CancellationToken,
    began: Instant,
    task: JoinHandle<Result<Duration>>,
}

impl Dump {
    /// Starts dumping the schema of this URL.
    pub(super) fn start(program: PathBuf, at: &PostgresUrl) -> Result<Self> {
        let stop = CancellationToken::new();
        let saver = DumpSpec::new(program, at)?;
        let task = tokio::spawn(saver.keep_saving(stop.clone()));
        Ok(Self { stop, began: clock::now(), task })
    }

    /// Ends the current dump. Returns the percentage of the time since the start in which a dump held its
    /// locks.
    pub(super) async fn stop(self) -> Result<f64> {
        let elapsed = self.began.elapsed();
        self.stop.cancel();
        let held = self.task.await??;
        Ok((held.as_secs_f64() / elapsed.as_secs_f64().max(1e-9) * 100.0).min(100.0))
    }
}

/// The parameters of a dump.
struct DumpSpec {
    program: PathBuf,
    /// Environment variables, not arguments, which other users can read: they may contain a password.
    variables: Vec<(&'static str, String)>,
    schema: String,
}

impl DumpSpec {
    fn new(program: PathBuf, at: &PostgresUrl) -> Result<Self> {
        let config: tokio_postgres::Config = at.server().parse()?;
        let hosts = config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let ports = config.get_ports().iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        let password = config.get_password().map(|it| String::from_utf8_lossy(it).into_owned());
        let variables = [
            ("PGHOST", Some(hosts)),
            ("PGPORT", Some(ports)),
            ("PGUSER", config.get_user().map(str::to_owned)),
            ("PGDATABASE", config.get_dbname().map(str::to_owned)),
            ("PGPASSWORD", password),
        ];
        let given = |(name, value): (_, Option<String>)| {
            value.filter(|value| !value.is_empty()).map(|value| (name, value))
        };
        let variables = variables.into_iter().filter_map(given).collect();
        Ok(Self { program, variables, schema: at.schema().to_owned() })
    }

    /// Dumps until stopped; returns the total time for which locks were held.
    async fn keep_saving(self, stop: CancellationToken) -> Result<Duration> {
        let (mut held, mut failed) = (Duration::ZERO, 0);
        while !stop.is_cancelled() {
            match self.save(&stop).await {
                Ok(while_saving) => {
                    held += while_saving;
                    failed = 0;
                }
                Err(error) => {
                    failed += 1;
                    ensure!(failed < FAILURES_MAX, "{failed} dumps in a row failed: {error:#}");
                }
            }
        }
        Ok(held)
    }

    /// Runs one dump to its end or until stopped; returns the time for which it held its locks.
    async fn save(&self, stop: &CancellationToken) -> Result<Duration> {
        let mut process = Command::new(&self.program)
            .args(["--no-password", "--format=plain"])
            // The argument is a pattern; quotes make it match the exact name.
            .arg(format!("--schema=\"{}\"", self.schema))
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let mut locked = None;
        let read = tokio::select! {
            () = stop.cancelled() => None,
            read = read_slowly(&mut process, &mut locked) => Some(read),
        };
        let held = locked.map_or(Duration::ZERO, |locked: Instant| locked.elapsed());
        let Some(read) = read else {
            process.kill().await.context("cannot end pg_dump")?;
            return Ok(held);
        };
        read?;
        let status = process.wait().await?;
        let mut words = String::new();
        if let Some(stderr) = process.stderr.take() {
            stderr.take(WORDS_MAX).read_to_string(&mut words).await?;
        }
        ensure!(status.success(), "pg_dump ended with {status}: {}", words.trim());
        Ok(held)
    }
}

/// Reads the output to its end. `pg_dump` prints nothing before it has locked everything, so the first byte
/// marks that time.
async fn read_slowly(process: &mut Child, locked: &mut Option<Instant>) -> Result<()> {
    let mut output = process.stdout.take().context("the stdout of pg_dump is missing")?;
    // With a larger pipe buffer, small dumps end sooner, and more of them run.
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(&output, READ_BYTES);
    let mut bytes = [0; READ_BYTES];
    while output.read(&mut bytes).await? > 0 {
        locked.get_or_insert_with(clock::now);
        tokio::time::sleep(READ_EVERY).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn where_no_dump_knows_the_server_the_places_are_named() {
        let reason = find(9_999).await.unwrap_err();
        for part in ["9999", "PATH", "pg_config --bindir", DEBIAN, "install"] {
            assert!(reason.contains(part), "{part} in {reason}");
        }
    }

    #[test]
    fn a_password_is_not_among_the_arguments() {
        let url = "postgres://ada:s3cr3t@one:5432,two:5433/jobs?schema=mine".parse().unwrap();
        let crate::connect::Url::Postgres(at) = url else { panic!("a database") };
        let saver = DumpSpec::new("pg_dump".into(), &at).unwrap();
        let variable = |name| saver.variables.iter().find(|it| it.0 == name).unwrap().1.as_str();
        assert_eq!((variable("PGHOST"), variable("PGPORT")), ("one,two", "5432,5433"));
        assert_eq!((variable("PGUSER"), variable("PGDATABASE")), ("ada", "jobs"));
        assert_eq!((variable("PGPASSWORD"), saver.schema.as_str()), ("s3cr3t", "mine"));
    }
}

//! One measurement: a contender, a workload, a new store and a separate process.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::contender::Contender;
use super::install::Drivers;
use super::now;
use super::results::{Answer, Outcome};
use super::store::Stores;
use super::workload::Workload;

/// Time that a driver may take in addition to the measurement: to open the store, to start the worker, and for
/// the last jobs.
const PATIENCE: Duration = Duration::from_secs(45);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Maximum number of characters of a failed driver's error output.
const ERROR_CHARS_MAX: usize = 400;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) workload: Workload,
    pub(super) contender: Contender,
}

impl Cell {
    /// Runs the measurement, for at most `seconds` if given.
    pub(super) fn run(&self, seconds: Option<u32>, drivers: &Drivers, stores: &Stores) -> Outcome {
        match self.measure(seconds, drivers, stores) {
            Ok(answer) => Outcome::Measured(answer),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        }
    }

    fn measure(&self, seconds: Option<u32>, drivers: &Drivers, stores: &Stores) -> Result<Answer> {
        let store = stores.fresh(self.contender.store)?;
        let ours_in = self.contender.is_ours().then(|| self.contender.family());
        let mut sizes = self.workload.sizes(ours_in);
        sizes.seconds = seconds.map_or(sizes.seconds, f64::from);
        let order = json!({
            "workload": self.workload.name(),
            "url": store.url(),
            "jobs": sizes.jobs,
            "others": sizes.others,
            "seconds": sizes.seconds,
            "fill_seconds": sizes.fill_seconds,
        });
        let mut command = drivers.command(&self.contender)?;
        command.arg(order.to_string()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().context("cannot start the driver")?;
        let time = Duration::from_secs_f64(sizes.seconds + sizes.fill_seconds) + PATIENCE;
        let line = answer(child, time)?;
        let answer: Answer = serde_json::from_str(line.trim())
            .with_context(|| format!("cannot parse the driver's result {line:?}"))?;
        answer.check()?;
        store.remove()?;
        Ok(answer)
    }
}

/// The output of the driver, if it succeeds in time.
fn answer(mut child: Child, time: Duration) -> Result<String> {
    // Both pipes are read while it runs: a full pipe would block it.
    let read = |mut pipe: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = read(Box::new(child.stdout.take().context("the driver has no output")?));
    let stderr = read(Box::new(child.stderr.take().context("the driver has no error output")?));
    let until = now() + time;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if now() >= until {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(LOOK_EVERY);
    };
    let answer = stdout.join().unwrap_or_default();
    let said = stderr.join().unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(answer),
        Some(status) => bail!("the driver exited with {status}: {}", shortened(&said)),
        None => bail!("the driver did not end in {time:?}: {}", shortened(&said)),
    }
}

/// The start of the last line of the output: earlier lines are messages of libraries.
fn shortened(said: &str) -> String {
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let line: Vec<&str> = last.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(ERROR_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn sh(script: &str, time: Duration) -> Result<String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        answer(command.spawn().unwrap(), time)
    }

    #[test]
    fn a_driver_that_dies_is_reported_with_its_last_words() {
        let error = sh("echo no table >&2; exit 3", PATIENCE).unwrap_err().to_string();
        assert!(error.contains("no table") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_driver_that_never_ends_is_ended() {
        let error = sh("exec sleep 600", Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.contains("did not end"), "{error}");
    }

    #[test]
    fn a_talkative_driver_is_heard_to_the_end() {
        let answer = sh("head -c 300000 /dev/zero >&2; echo done", PATIENCE).unwrap();
        assert_eq!(answer, "done\n");
    }
}

//! SIGKILL at random times, for several rounds on one directory, followed by the history checker.
//!
//! The store is in the killed process. Claims are not synced, but they are written, and the operating system keeps
//! them when only the process dies. So the checker is not configured to tolerate lost claims, and an attempt that
//! was granted twice is a violation.

use crate::child::{Role, Running};
use crate::drain::drain;
use crate::journal::{self, Lines};
use crate::load::{HURRY, Plan};
use crate::permission::OPENING;
use crate::support::{QUEUE, assert_sound, copy, instant, open, runtime};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::{Engine, Maintain as _};
use windlass_core::random::{Random as _, Seeded};
use windlass_core::time::{ManualClock, SECOND_MS, Timestamp};
use windlass_kit::history::{Event, History, Options, Snapshot, Verdict, check};

/// Rounds of a default run.
const ROUNDS: u32 = 15;
/// Rounds if `WINDLASS_LONG` is set.
const ROUNDS_LONG: u32 = 100;
/// Rounds with unique jobs that replace each other, for which the checker must be more tolerant.
const ROUNDS_REPLACING: u32 = 4;
/// Number of rounds if `WINDLASS_LONG` is set.
const ROUNDS_REPLACING_LONG: u32 = 20;
/// Latest time of a kill after the directory was opened.
const KILL_MAX_MS: u64 = 450;
/// In one of this many rounds the kill happens during the opening; such rounds are additional ones.
const OPENING_EVERY: u32 = 4;
/// Latest time of such a kill after the start of the process.
const KILL_OPENING_MAX_MS: u64 = 60;
/// Number of kills during the creation of a directory.
const MAKINGS: u32 = 15;
/// Latest time of such a kill, in microseconds.
const MAKING_US: u64 = 40_000;
/// Time on the clock between two rounds.
const PAUSE_MS: u64 = 5 * SECOND_MS;
/// Minimum average number of enqueued jobs per round; with fewer, the test would be meaningless.
const JOBS_PER_ROUND_MIN: u64 = 20;

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let rounds = if is_long() { ROUNDS_LONG } else { ROUNDS };
    Kills::new("plain", rounds, false).run();
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed_while_jobs_replace_each_other() {
    let rounds = if is_long() { ROUNDS_REPLACING_LONG } else { ROUNDS_REPLACING };
    Kills::new("replacing", rounds, true).run();
}

#[test]
fn a_directory_whose_making_was_cut_short_is_made_at_the_next_opening() {
    let (home, random) = (tempfile::tempdir().unwrap(), Seeded::new(seed()));
    let tries = if is_long() { 10 * MAKINGS } else { MAKINGS };
    let mut cut_short = 0;
    for number in 0..tries {
        let dir = home.path().join(number.to_string());
        let mut child = Running::start(&Role::Open { dir: dir.clone() });
        assert_eq!(child.hear().as_deref(), Some(OPENING));
        std::thread::sleep(Duration::from_micros(random.below(MAKING_US)));
        let heard = child.kill();
        assert!(heard.is_empty() || heard == ["opened"], "{heard:?}");
        cut_short += u32::from(heard.is_empty());
        if dir.exists() {
            assert_sound(copy(&dir).path());
        }
        let engine = open(&dir, Arc::new(ManualClock::at(windlass_kit::START))).unwrap();
        let report = runtime().block_on(engine.check(false)).unwrap().value;
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
    println!("{cut_short} of {tries} makings were cut short");
}

fn is_long() -> bool {
    std::env::var_os("WINDLASS_LONG").is_some_and(|value| value == "1")
}

fn seed() -> u64 {
    std::env::var("WINDLASS_SEED").map_or(1, |seed| seed.parse().expect("WINDLASS_SEED: a number"))
}

/// One directory through many kills.
struct Kills {
    name: &'static str,
    rounds: u32,
    replacing: bool,
    seed: u64,
    random: Seeded,
    home: tempfile::TempDir,
    /// Start time of the next child's clock, which advances from round to round.
    now: Timestamp,
    journals: Vec<PathBuf>,
}

impl Kills {
    fn new(name: &'static str, rounds: u32, replacing: bool) -> Self {
        let seed = seed();
        Self {
            name,
            rounds,
            replacing,
            seed,
            random: Seeded::new(seed),
            home: tempfile::tempdir().expect("a directory"),
            now: windlass_kit::START,
            journals: Vec::new(),
        }
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("store")
    }

    fn run(mut self) {
        let (mut killed, mut while_opening, mut round) = (0, 0, 0);
        while killed < self.rounds {
            let opening = round % OPENING_EVERY == OPENING_EVERY - 1;
            self.round(round, opening);
            self.look(round);
            killed += u32::from(!opening);
            while_opening += u32::from(opening);
            round += 1;
        }
        let (drained, verdict) = self.judge(round);
        let Self { name, seed, .. } = self;
        println!(
            "{name}, seed {seed}: {killed} kills at work, {while_opening} while opening; \
             {drained} starts to drain what was left\n{verdict}"
        );
        assert!(verdict.is_clean(), "seed {seed}");
        assert!(
            verdict.counts.acknowledged >= JOBS_PER_ROUND_MIN * u64::from(killed),
            "too little work"
        );
    }

    /// Starts a child on the directory and kills it at a random time.
    fn round(&mut self, round: u32, opening: bool) {
        let journal = self.home.path().join(format!("round-{round}.ndjson"));
        self.journals.push(journal.clone());
        let plan = Plan {
            dir: self.dir(),
            journal,
            round,
            seed: self.seed,
            now: self.now,
            replacing: self.replacing,
        };
        let started = instant();
        let mut child = Running::start(&Role::Load(plan));
        let mut heard = Vec::new();
        let latest = if opening { KILL_OPENING_MAX_MS } else { KILL_MAX_MS };
        if !opening {
            heard.extend(child.hear());
        }
        std::thread::sleep(Duration::from_millis(self.random.below(latest)));
        heard.extend(child.kill());
        let bad = heard.iter().find(|words| *words != "open");
        assert!(bad.is_none(), "seed {}, round {round}: {bad:?}", self.seed);
        assert!(opening || !heard.is_empty(), "round {round}: the child died by itself");
        self.now = self.now.plus(started.elapsed().as_millis() as u64 * HURRY + PAUSE_MS);
    }

    /// Checks copies of the directory that the dead child left: SQLite's integrity check, and the check of the
    /// engine.
    fn look(&self, round: u32) {
        let dir = self.dir();
        if !dir.exists() {
            return;
        }
        assert_sound(copy(&dir).path());
        let left = copy(&dir);
        let engine = open(left.path(), Arc::new(ManualClock::at(self.now))).expect("open");
        let report = runtime().block_on(engine.check(false)).expect("check").value;
        assert!(report.findings.is_empty(), "round {round}: {:?}", report.findings);
    }

    /// Drains the directory, then checks the history of all rounds.
    fn judge(&self, round: u32) -> (usize, Verdict) {
        let clock = Arc::new(ManualClock::at(self.now));
        let engine: Arc<dyn Engine> = Arc::new(open(&self.dir(), clock.clone()).expect("open"));
        let last = self.home.path().join("drain.ndjson");
        let journal = Arc::new(Lines::create(&last, round.into()));
        runtime().block_on(async {
            let drained = drain(engine.clone(), &clock, journal).await;
            let history = self.history(&last);
            let mut end = Snapshot::read(&*engine, history.wanted()).await.expect("get");
            end.add_queue(&*engine, QUEUE).await.expect("list");
            let report = engine.check(false).await.expect("check").value;
            assert!(report.findings.is_empty(), "at the end: {:?}", report.findings);
            (drained, check(&history, &end, &Options::default()))
        })
    }

    fn history(&self, last: &Path) -> History {
        let paths = self.journals.iter().map(PathBuf::as_path).chain([last]);
        let events: Vec<Event> = paths.flat_map(journal::read).collect();
        events.into_iter().collect()
    }
}

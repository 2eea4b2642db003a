//! Sound engines get a clean verdict, and a history that was tampered with does not.

use crate::script::job;
use std::sync::Arc;
use windlass_core::model::State;
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_kit::history::{
    Driven, Event, History, Kind, Load, Note, Options, Receipt, Reply, Snapshot, Verdict, Wanted,
    check, drive,
};
use windlass_kit::{START, Subject};
use windlass_memory::MemoryEngine;

pub(crate) fn memory(seed: u64) -> Subject {
    let clock = Arc::new(ManualClock::at(START));
    let engine = MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(seed)));
    Subject::new(Arc::new(engine), clock)
}

pub(crate) fn verify(driven: &Driven) -> Verdict {
    check(&driven.history, &driven.end, &Options::default())
}

/// One thread: the same seed gives the same history.
pub(crate) fn replayable(subject: Subject, load: Load) -> Driven {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(drive(subject, load))
}

#[test]
fn the_memory_engine_keeps_every_promise() {
    for seed in 0..40 {
        let verdict = verify(&replayable(memory(seed), Load::new(seed)));
        assert!(verdict.is_clean(), "seed {seed}: {verdict}");
        let counts = &verdict.counts;
        assert!(counts.completed > 50 && counts.duplicates > 5 && counts.dead > 0, "{verdict}");
        assert!(counts.unanswered > 20 && counts.cancelled > 0, "{verdict}");
    }
}

#[test]
fn the_memory_engine_keeps_every_promise_beside_short_retention() {
    for seed in 0..40 {
        let load = Load::new(seed).retention_ms(30_000);
        let driven = replayable(memory(seed), load);
        let verdict = check(&driven.history, &driven.end, &load.options());
        assert!(verdict.is_clean(), "seed {seed}: {verdict}");
        assert!(verdict.counts.removed > 50, "{verdict}");
    }
}

#[test]
fn the_memory_engine_keeps_every_promise_on_several_threads() {
    for seed in 100..110 {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
        let driven = runtime.block_on(drive(memory(seed), Load::new(seed).clients(4, 8)));
        verify(&driven).assert_clean();
    }
}

#[test]
fn a_calm_run_loses_and_repeats_nothing() {
    let load = Load::new(7).faults(0, 0, 0);
    let counts = verify(&replayable(memory(7), load)).counts;
    assert_eq!((counts.unanswered, counts.broken.len()), (0, 0));
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let run = || replayable(memory(3), Load::new(3));
    let (one, two) = (run(), run());
    assert_eq!(one.history, two.history);
    assert_eq!(one.end, two.end);
}

#[test]
fn a_history_survives_its_way_through_lines_of_json() {
    let driven = replayable(memory(5), Load::new(5));
    let lines: Vec<String> =
        driven.history.events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    let back: History =
        lines.iter().map(|line| serde_json::from_str::<Event>(line).unwrap()).collect();
    assert_eq!(back, driven.history);
    let end = serde_json::to_string(&driven.end).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&end).unwrap(), driven.end);
}

#[test]
fn a_cut_off_history_is_let_pass_as_far_as_it_goes() {
    // Killing all clients at any instant leaves a prefix; what follows may have happened or not.
    let driven = replayable(memory(6), Load::new(6).batches(10));
    for length in (0..driven.history.events.len()).step_by(50) {
        let history: History = driven.history.events[..length].iter().cloned().collect();
        let verdict = check(&history, &driven.end, &Options::default());
        let known = history.wanted();
        let other = verdict.violations.iter().find(|violation| match violation.kind {
            // The rest of the run is missing: jobs it enqueued, reports it made.
            Kind::Phantom => known.contains(&violation.jobs[0]),
            Kind::Unearned | Kind::Undone | Kind::Lost => false,
            _ => true,
        });
        assert!(other.is_none(), "{length}: {}", other.unwrap());
    }
}

#[test]
fn a_job_taken_out_of_the_snapshot_is_lost() {
    let mut driven = replayable(memory(1), Load::new(1));
    let completed = driven.end.jobs.iter().find(|(_, state)| **state == State::Completed);
    let id = *completed.unwrap().0;
    driven.end.jobs.remove(&id);
    let verdict = verify(&driven);
    assert_eq!((verdict.count(Kind::Lost), verdict.violations.len()), (1, 1), "{verdict}");
    assert_eq!(verdict.violations[0].jobs, [id]);
}

#[test]
fn a_stranger_in_the_snapshot_is_a_phantom() {
    let mut driven = replayable(memory(1), Load::new(1));
    driven.end.jobs.insert(job(99), State::Completed);
    assert_eq!(verify(&driven).count(Kind::Phantom), 1);
}

#[test]
fn a_state_changed_in_the_snapshot_is_noticed() {
    for (state, kind) in [(State::Dead, Kind::Undone), (State::Running, Kind::Stuck)] {
        let mut driven = replayable(memory(1), Load::new(1));
        let done = |state: &&mut State| **state == State::Completed;
        // The last one: the drain completed it and got the reply.
        *driven.end.jobs.values_mut().rev().find(done).unwrap() = state;
        let verdict = verify(&driven);
        assert!(verdict.count(kind) == 1, "{verdict}");
    }
}

#[test]
fn a_refusal_turned_into_an_acceptance_is_noticed() {
    let driven = replayable(memory(2), Load::new(2));
    let refused = |event: &Event| {
        let Note::Answered(Reply::Settled { items, .. }) = &event.note else { return false };
        items.iter().any(|item| matches!(item, Receipt::Refused(code) if code == "lease_lost"))
    };
    let total = driven.history.events.iter().filter(|event| refused(event)).count();
    assert!(total > 10, "stale leases are tried: {total}");
    let mut caught = 0;
    for nth in 0..total {
        let mut driven = driven.clone();
        let event = driven.history.events.iter_mut().filter(|event| refused(event)).nth(nth);
        if let Note::Answered(Reply::Settled { items, .. }) = &mut event.unwrap().note {
            let stale = items.iter_mut().find(|item| matches!(item, Receipt::Refused(_)));
            *stale.unwrap() = Receipt::Applied { state: State::Completed, follow_ups: Vec::new() };
        }
        let verdict = verify(&driven);
        caught += usize::from(!verdict.is_clean());
    }
    // Where the lost lease was the job's last start, nothing but its death speaks against it.
    assert!(caught * 10 >= total * 8, "{caught} of {total}");
}

#[test]
fn a_million_operations_are_checked_quickly() {
    // 334,000 jobs: enqueue, claim, settle; a few hundred keys; one job started 100,000 times.
    use crate::script::{Script, applied};
    use windlass_core::model::AttemptEnd;
    let mut script = Script::default();
    for n in 0..300_000u64 {
        let (id, at, lease) = (job(n), n * 10, format!("L{n}"));
        script.enqueue(at..at + 1, Wanted::plain(id).key(format!("k{}", n % 300)));
        script.claim(at + 2..at + 3, id, &lease, 1).done(at + 4..at + 5, id, &lease);
        script.ends(id, State::Completed);
    }
    let often = job(1_000_000);
    script.enqueue(0..1, Wanted::plain(often)).ends(often, State::Dead);
    for n in 0..50_000u64 {
        let (at, lease) = (10 + n * 10, format!("R{n}"));
        script.claim(at..at + 1, often, &lease, n as u32 + 1);
        script.settle(
            at + 2..at + 3,
            often,
            &lease,
            AttemptEnd::Release,
            applied(State::Available),
        );
    }
    let history: History = std::mem::take(&mut script.events).into_iter().collect();
    #[expect(clippy::disallowed_methods, reason = "the checker's own speed is what is measured")]
    let started = std::time::Instant::now();
    let verdict = check(&history, &script.end, &Options::default());
    let elapsed = started.elapsed();
    verdict.assert_clean();
    assert_eq!(verdict.counts.operations, 1_000_001);
    // Seconds even without optimisation; anything quadratic would take hours.
    assert!(elapsed.as_secs() < 60, "{elapsed:?}");
    println!("{elapsed:?}");
}

//! Signals with names and payloads: the inbox, and waits for some of them.

use crate::rig::{Rig, assert_code, assert_refused};
use windlass_core::engine::{CauseCode, Change, ClaimedJob, Outcome, UpdateItem};
use windlass_core::limits::{
    BACKOFF_MAX_MS, INBOX_BYTES_MAX, INBOX_SIGNALS_MAX, NAME_BYTES_MAX, SIGNAL_BYTES_MAX,
    SIGNAL_IDS_MAX, WAIT_SIGNALS_MAX,
};
use windlass_core::model::{Continuation, Signal, SignalWait, State, Wake};
use windlass_core::time::{HOUR_MS, MINUTE_MS};
use windlass_core::{Error, JobId, Result};

/// A wait for these signals.
fn wait(names: &[&str]) -> Outcome {
    Outcome::Wait(SignalWait::for_signals(names.iter().copied()))
}

/// A wait for these signals, for a minute.
fn minute(names: &[&str]) -> Outcome {
    Outcome::Wait(SignalWait::for_signals(names.iter().copied()).timeout_ms(MINUTE_MS))
}

/// Starts the one claimable job.
async fn start(rig: &Rig) -> ClaimedJob {
    let session = rig.long_session().await;
    rig.take_one(&session).await
}

/// Starts a new job and settles it with this outcome.
async fn waiting(rig: &Rig, outcome: Outcome) -> JobId {
    rig.enqueue_one().await;
    let job = start(rig).await;
    rig.settle(&job, outcome).await;
    job.header.id
}

async fn send(rig: &Rig, id: JobId, signal: Signal) -> Result<()> {
    rig.try_change(id, signal.into()).await.map(|_| ())
}

/// What a running job remembers, as its worker reads it.
async fn recalled(rig: &Rig, job: &ClaimedJob) -> Continuation {
    let item = UpdateItem::new(job.header.id, job.lease.clone()).recall();
    let updated = rig.update(item).await.expect("update");
    updated.continuation.map_or_else(Continuation::default, |kept| *kept)
}

/// What ended the last wait of the one claimable job, which is started and released.
async fn woken(rig: &Rig) -> Option<Wake> {
    let job = start(rig).await;
    let wake = recalled(rig, &job).await.wake;
    rig.settle(&job, Outcome::Release).await;
    wake
}

fn signal(name: &str) -> Option<Wake> {
    Some(Wake::Signal(Signal::new(name)))
}

fn timed_out(name: &str) -> Option<Wake> {
    Some(Wake::TimedOut(vec![name.into()]))
}

pub(super) async fn a_job_learns_which_signal_arrived_and_what_it_says(rig: Rig) {
    let id = waiting(&rig, wait(&["approved", "rejected"])).await;
    rig.assert_state(id, State::Blocked).await;
    let approved = Signal::new("approved").json(r#"{"by": "eve", "n": 1.50}"#).id("a-1");
    send(&rig, id, approved.clone()).await.expect("the signal is accepted");
    rig.assert_state(id, State::Available).await;
    let expected = Some(Wake::Signal(approved));
    assert_eq!(woken(&rig).await, expected);
    // A crash loses nothing.
    let session = rig.session().await;
    rig.take_one(&session).await;
    rig.crash(&session).await;
    rig.pass(HOUR_MS).await;
    assert_eq!(woken(&rig).await, expected, "another attempt learns it, too");
    assert_eq!(rig.get(id).await.continuation.and_then(|kept| kept.wake), expected);
    rig.assert_sound().await;
}

pub(super) async fn a_wait_takes_only_the_signals_that_it_names(rig: Rig) {
    let id = waiting(&rig, wait(&["b", "c"])).await;
    rig.change(id, Change::signal("a")).await;
    rig.assert_state(id, State::Blocked).await;
    rig.assert_nothing_to_claim().await;
    rig.change(id, Change::signal("c")).await;
    let job = start(&rig).await;
    let kept = recalled(&rig, &job).await;
    assert_eq!((kept.wake, kept.inbox), (signal("c"), vec![Signal::new("a")]));
    rig.settle(&job, Outcome::WAIT).await;
    assert_eq!(woken(&rig).await, signal("a"), "a wait without names takes any");
    rig.assert_sound().await;
}

pub(super) async fn signals_are_taken_from_the_inbox_in_their_order(rig: Rig) {
    let id = rig.enqueue_one().await;
    for (name, text) in [("a", "1"), ("b", "2"), ("a", "3")] {
        send(&rig, id, Signal::new(name).json(text)).await.expect("the signal is accepted");
    }
    for (names, expected) in [(&["a"], ("a", "1")), (&["a"], ("a", "3")), (&["b"], ("b", "2"))] {
        let job = start(&rig).await;
        rig.settle(&job, minute(names)).await;
        rig.assert_state(id, State::Available).await;
        let (name, text) = expected;
        let taken = Some(Wake::Signal(Signal::new(name).json(text)));
        assert_eq!(rig.get(id).await.continuation.and_then(|kept| kept.wake), taken);
    }
    let job = start(&rig).await;
    assert_eq!(recalled(&rig, &job).await.inbox, []);
    rig.settle(&job, Outcome::DONE).await;
    rig.assert_sound().await;
}

pub(super) async fn a_wait_with_a_time_limit_ends_by_its_signal_or_by_the_time(rig: Rig) {
    let id = waiting(&rig, minute(&["a"])).await;
    let causes = rig.engine().why(id).await.expect("why").value;
    assert_eq!(causes.causes[0].code, CauseCode::Signal);
    assert!(causes.causes[0].until.is_some(), "it ends by itself");
    rig.change(id, Change::signal("b")).await;
    rig.assert_nothing_to_claim().await;
    rig.change(id, Change::signal("a")).await;
    assert_eq!(woken(&rig).await, signal("a"), "at once");

    let job = start(&rig).await;
    rig.settle(&job, minute(&["a"])).await;
    rig.assert_nothing_to_claim().await;
    rig.pass(2 * MINUTE_MS).await;
    assert_eq!(woken(&rig).await, timed_out("a"));
    rig.change(id, Change::signal("a")).await;
    assert_eq!(woken(&rig).await, timed_out("a"), "it came too late, and is kept");

    let job = start(&rig).await;
    rig.settle(&job, minute(&["c"])).await;
    rig.change(id, Change::Promote).await;
    assert_eq!(woken(&rig).await, timed_out("c"), "an operator ends the wait");

    let job = start(&rig).await;
    rig.settle(&job, Outcome::Wait(SignalWait::for_signals(["c"]).timeout_ms(0))).await;
    assert_eq!(woken(&rig).await, timed_out("c"), "a look into the inbox");
    rig.assert_sound().await;
}

pub(super) async fn a_paused_job_is_woken_when_it_is_resumed(rig: Rig) {
    let id = waiting(&rig, minute(&["a"])).await;
    rig.change(id, Change::Pause).await;
    rig.change(id, Change::signal("a")).await;
    rig.assert_state(id, State::Paused).await;
    rig.change(id, Change::Resume).await;
    assert_eq!(woken(&rig).await, signal("a"));
    let job = start(&rig).await;
    rig.settle(&job, minute(&["b"])).await;
    rig.change(id, Change::Pause).await;
    rig.pass(HOUR_MS).await;
    rig.assert_state(id, State::Paused).await;
    rig.change(id, Change::Resume).await;
    assert_eq!(woken(&rig).await, timed_out("b"));
}

pub(super) async fn a_signal_with_an_id_is_accepted_once(rig: Rig) {
    let id = rig.enqueue_one().await;
    let once = || Signal::new("a").id("one");
    send(&rig, id, once()).await.expect("the signal is accepted");
    send(&rig, id, once()).await.expect("the signal is accepted");
    let job = start(&rig).await;
    rig.settle(&job, wait(&["a"])).await;
    rig.assert_state(id, State::Available).await;
    send(&rig, id, once()).await.expect("the signal is accepted");
    let job = start(&rig).await;
    assert_eq!(recalled(&rig, &job).await.inbox, [], "it was taken before");
    rig.settle(&job, wait(&["a"])).await;
    send(&rig, id, once()).await.expect("the signal is accepted");
    rig.assert_nothing_to_claim().await;
    send(&rig, id, Signal::new("a").id("two")).await.expect("the signal is accepted");
    rig.assert_state(id, State::Available).await;
    let job = start(&rig).await;
    rig.settle(&job, Outcome::DONE).await;
    send(&rig, id, once()).await.expect("a repeated call is answered after the end, too");
    assert_code(send(&rig, id, Signal::new("a").id("three")).await, "refused");
}

pub(super) async fn only_the_latest_ids_are_remembered(rig: Rig) {
    let id = rig.enqueue_one().await;
    for n in 0..=SIGNAL_IDS_MAX {
        send(&rig, id, Signal::new("a").id(n.to_string())).await.expect("the signal is accepted");
        let job = start(&rig).await;
        rig.settle(&job, wait(&["a"])).await;
        rig.assert_state(id, State::Available).await;
    }
    let seen = rig.get(id).await.continuation.expect("it has signals").seen;
    assert_eq!(seen.len(), SIGNAL_IDS_MAX);
}

pub(super) async fn a_full_inbox_refuses_signals_that_no_wait_takes(rig: Rig) {
    let id = rig.enqueue_one().await;
    for _ in 0..INBOX_SIGNALS_MAX {
        send(&rig, id, Signal::new("a")).await.expect("the signal is accepted");
    }
    assert_refused(send(&rig, id, Signal::new("a")).await, "too_large", "inbox");
    let inbox = rig.get(id).await.continuation.expect("it has signals").inbox;
    assert_eq!(inbox.len(), INBOX_SIGNALS_MAX, "nothing else changes");
    let job = start(&rig).await;
    rig.settle(&job, wait(&["b"])).await;
    send(&rig, id, Signal::new("b")).await.expect("it waits for this one");
    assert_eq!(woken(&rig).await, signal("b"));

    let heavy = rig.enqueue(Rig::job().priority(9)).await;
    let text = format!("\"{}\"", "x".repeat(SIGNAL_BYTES_MAX - 2));
    let large = || Signal::new("a").json(text.clone());
    for _ in 0..INBOX_BYTES_MAX / (SIGNAL_BYTES_MAX + 1) {
        send(&rig, heavy, large()).await.expect("the signal is accepted");
    }
    assert_refused(send(&rig, heavy, large()).await, "too_large", "inbox");
    rig.assert_sound().await;
}

pub(super) async fn bad_signals_and_waits_are_refused_by_field(rig: Rig) {
    let id = rig.enqueue_one().await;
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    for (bad, code, field) in [
        (Signal::new(""), "invalid", "signal.name"),
        (Signal::new("a b"), "invalid", "signal.name"),
        (Signal::new("a").id(""), "invalid", "signal.id"),
        (Signal::new("a").id(long), "too_large", "signal.id"),
        (Signal::new("a").json("{"), "invalid", "signal.payload"),
        (Signal::new("a").json(format!("\"{}\"", "x".repeat(SIGNAL_BYTES_MAX))), "too_large", "signal.payload"),
    ] {
        // A client may find a payload that is not JSON before it sends it.
        assert_refused(send(&rig, id, bad).await, code, field);
    }
    assert_eq!(rig.get(id).await.continuation, None);
    let unknown = Rig::fresh_id();
    assert_eq!(send(&rig, unknown, Signal::new("a")).await, Err(Error::NotFound { id: unknown }));
    let job = start(&rig).await;
    let many = (0..=WAIT_SIGNALS_MAX).map(|n| n.to_string());
    for (bad, code, field) in [
        (SignalWait::for_signals(many), "too_large", "signals"),
        (SignalWait::for_signals(["a b"]), "invalid", "signals"),
        (SignalWait::ANY.timeout_ms(BACKOFF_MAX_MS + 1), "invalid", "timeout_ms"),
    ] {
        let item = windlass_core::engine::SettleItem::new(id, job.lease.clone(), Outcome::Wait(bad));
        assert_refused(rig.try_settle(item).await, code, field);
    }
    rig.settle(&job, Outcome::DONE).await;
    assert_code(send(&rig, id, Signal::new("a")).await, "refused");
}

pub(super) async fn a_signal_to_a_running_job_does_not_disturb_it(rig: Rig) {
    let id = rig.enqueue_one().await;
    let job = start(&rig).await;
    rig.change(id, Change::signal("a")).await;
    rig.settle(&job, Outcome::DONE).await;
    rig.assert_state(id, State::Completed).await;
    let kept = rig.get(id).await.continuation.expect("it keeps its signals");
    assert_eq!(kept.inbox, [Signal::new("a")]);
    rig.assert_sound().await;
}

pub(super) async fn a_replayed_job_has_no_signals(rig: Rig) {
    let id = waiting(&rig, wait(&["a"])).await;
    rig.change(id, Change::signal("b")).await;
    rig.change(id, Change::Kill).await;
    let killed = rig.get(id).await;
    assert!(!killed.waits, "an ended job waits for nothing");
    rig.change(id, Change::replay()).await;
    assert_eq!(woken(&rig).await, None);
    let job = start(&rig).await;
    rig.settle(&job, wait(&["b"])).await;
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

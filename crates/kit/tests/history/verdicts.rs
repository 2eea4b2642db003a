//! Every broken promise is caught, under its own name.

use crate::script::{DONE, Script, applied, job, keyed, started};
use windlass_core::engine::Lease;
use windlass_core::model::{AttemptEnd, State};
use windlass_kit::history::{
    Admission, Call, Kind, Note, Options, Receipt, Reply, Report, Wanted, Wish,
};

#[test]
fn an_acknowledged_job_that_is_gone_is_lost() {
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1)));
    let verdict = script.breaks(&[Kind::Lost]);
    assert_eq!((verdict.counts.acknowledged, verdict.count(Kind::Lost)), (1, 1));
    let text = verdict.to_string();
    assert!(text.contains("[1..2] client 1 op 1: enqueue"), "{text}");
}

#[test]
fn a_job_whose_repeated_enqueue_was_acknowledged_is_lost_too() {
    let mut script = Script::default();
    script.enqueue(1.., Wanted::plain(job(1))).enqueue(3..4, Wanted::plain(job(1)));
    script.breaks(&[Kind::Lost]);
}

#[test]
fn a_job_returned_for_a_duplicate_counts_as_acknowledged() {
    let mut script = Script::default();
    let stood_in = Admission::StoodIn { by: job(1), state: Some(State::Available) };
    script.enqueue(1.., Wanted::plain(job(1))).enqueue_as(3..4, Wanted::plain(job(2)), stood_in);
    script.breaks(&[Kind::Lost]);
}

#[test]
fn retention_does_not_excuse_the_loss_of_a_job_that_cannot_have_ended() {
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1))).with(Options::default().retention());
    script.breaks(&[Kind::Lost]);
}

/// A script of one job that failed for good at `5..6` and was replayed at `7..8`, beside short retention.
fn replayed() -> Script {
    let mut script = started();
    script.settle(5..6, job(1), "L1", AttemptEnd::Fail, applied(State::Dead));
    script.change(7..8, job(1), Wish::Replay, Some(State::Available));
    script.with(Options::default().retention());
    script
}

#[test]
fn retention_does_not_excuse_the_loss_of_a_job_that_was_replayed() {
    replayed().breaks(&[Kind::Lost]);
    let mut script = replayed();
    script.claim(9..10, job(1), "L2", 2).done(11..12, job(1), "L2");
    assert_eq!(script.is_fine().counts.removed, 1);
    // A cancellation before the replay does not end the replayed job.
    let mut script = started();
    script.with(Options::default().retention());
    script.change(5..6, job(1), Wish::Cancel, Some(State::Running));
    script.settle(7..8, job(1), "L1", AttemptEnd::Release, applied(State::Cancelled));
    script.change(9..10, job(1), Wish::Replay, Some(State::Available));
    script.breaks(&[Kind::Lost]);
    script.change(11..12, job(1), Wish::Cancel, Some(State::Cancelled)).is_fine();
}

#[test]
fn retention_excuses_a_job_that_may_be_out_of_crashes_and_no_other() {
    let lost = |crashes_max| {
        let mut script = Script::default();
        script.enqueue(1..2, Wanted::plain(job(1)).crashes_max(crashes_max));
        script.claim(3..4, job(1), "L1", 1).with(Options::default().retention());
        script
    };
    lost(0).is_fine();
    lost(1).breaks(&[Kind::Lost]);
    // Another start of it may be in an answer that never came.
    let claim = || (Call::Claim("lost".into()), Reply::Claimed(Vec::new()));
    lost(1).call(5.., claim().0, claim().1).is_fine();
    lost(2).call(5.., claim().0, claim().1).call(7.., claim().0, claim().1).breaks(&[Kind::Lost]);
}

#[test]
fn a_discard_does_not_excuse_the_loss_of_a_job_that_cannot_have_ended() {
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1))).change(3..4, job(1), Wish::Discard, None);
    script.breaks(&[Kind::Lost]);
}

#[test]
fn a_discard_decided_for_the_dead_must_not_take_a_completed_job() {
    let mut script = started();
    script.done(5..6, job(1), "L1");
    script.change(7..8, job(1), Wish::DiscardIf(State::Dead), None);
    script.breaks(&[Kind::Undone]);
    let mut script = started();
    script.done(5..6, job(1), "L1");
    script.change(7..8, job(1), Wish::DiscardIf(State::Completed), None).is_fine();
}

#[test]
fn a_follow_up_of_an_applied_report_can_be_lost() {
    for receipt in [
        Receipt::Applied {
            state: State::Completed,
            follow_ups: vec![Admission::Stored { state: State::Available, replaced: None }],
        },
        // An answer that does not mention it does not excuse it.
        Receipt::Applied { state: State::Completed, follow_ups: Vec::new() },
        Receipt::Already { end: DONE, state: State::Completed },
    ] {
        let mut script = started();
        let follow_ups = vec![Wanted::plain(job(2))];
        let report = Report { id: job(1), lease: Lease::new("L1"), end: DONE, follow_ups };
        let call = Call::Settle { items: vec![report], claim: None };
        let reply = Reply::Settled { items: vec![receipt], claimed: Vec::new() };
        script.call(5..6, call, reply).ends(job(1), State::Completed);
        script.breaks(&[Kind::Lost]);
    }
}

#[test]
fn a_job_that_was_never_enqueued_is_a_phantom() {
    let mut script = Script::default();
    script.ends(job(1), State::Dead).breaks(&[Kind::Phantom]);
    let mut script = Script::default();
    script.claim(1..2, job(1), "L1", 1).breaks(&[Kind::Phantom]);
}

#[test]
fn a_job_that_was_refused_and_yet_is_there_is_a_phantom() {
    let mut script = Script::default();
    script.enqueue_as(1..2, Wanted::plain(job(1)), Admission::Refused).ends(job(1), State::Dead);
    script.breaks(&[Kind::Phantom]);
}

#[test]
fn a_job_cannot_start_before_it_is_enqueued() {
    let mut script = Script::default();
    script.claim(1..2, job(1), "L1", 1).enqueue(3..4, Wanted::plain(job(1)));
    script.ends(job(1), State::Dead).breaks(&[Kind::Phantom]);
}

#[test]
fn one_attempt_cannot_be_given_to_two_claims() {
    let mut script = started();
    script.claim(3..5, job(1), "L2", 1).done(6..7, job(1), "L2").ends(job(1), State::Completed);
    script.breaks(&[Kind::DoubleStart]);
    let mut script = started();
    script.claim(3..5, job(1), "L1", 1).done(6..7, job(1), "L1").ends(job(1), State::Completed);
    script.breaks(&[Kind::DoubleStart]);
}

#[test]
fn a_report_under_a_reassigned_lease_is_stale() {
    let mut script = started();
    script.claim(5..6, job(1), "L2", 2).done(7..8, job(1), "L1").ends(job(1), State::Completed);
    script.breaks(&[Kind::StaleLease]);
}

#[test]
fn an_update_under_a_reassigned_lease_is_stale() {
    let mut script = started();
    script.claim(5..6, job(1), "L2", 2).update(7..8, job(1), "L1").done(9..10, job(1), "L2");
    script.ends(job(1), State::Completed).breaks(&[Kind::StaleLease]);
}

#[test]
fn a_stale_lease_is_found_where_attempts_were_forgotten() {
    let mut script = started();
    script.claim(5..6, job(1), "L2", 1).done(7..8, job(1), "L1").ends(job(1), State::Completed);
    script.with(Options::default().claims_forgotten()).breaks(&[Kind::StaleLease]);
}

#[test]
fn a_lease_is_over_with_its_report() {
    let mut script = started();
    script
        .settle(5..6, job(1), "L1", AttemptEnd::Release, applied(State::Available))
        .update(7..8, job(1), "L1")
        .claim(9..10, job(1), "L2", 2)
        .done(11..12, job(1), "L2")
        .ends(job(1), State::Completed)
        .breaks(&[Kind::StaleLease]);
}

#[test]
fn a_lease_that_was_never_granted_is_ignored() {
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1))).done(3..4, job(1), "forged");
    script.ends(job(1), State::Completed).breaks(&[Kind::StaleLease]);
}

#[test]
fn two_reports_under_one_lease_cannot_both_be_applied() {
    let mut script = started();
    script
        .settle(5..8, job(1), "L1", AttemptEnd::Retry, applied(State::Available))
        .settle(6..7, job(1), "L1", AttemptEnd::Retry, applied(State::Available))
        .claim(9..10, job(1), "L2", 2)
        .done(11..12, job(1), "L2")
        .ends(job(1), State::Completed)
        .breaks(&[Kind::SettledTwice]);
}

#[test]
fn a_job_cannot_end_twice_in_one_life() {
    let mut script = started();
    script.claim(3..7, job(1), "L2", 2).done(6..9, job(1), "L1").done(8..10, job(1), "L2");
    script.ends(job(1), State::Completed).breaks(&[Kind::SettledTwice]);
}

#[test]
fn a_job_cannot_start_after_its_end() {
    let mut script = started();
    script.done(5..6, job(1), "L1").claim(7..8, job(1), "L2", 2).ends(job(1), State::Completed);
    script.breaks(&[Kind::Revived]);
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1)));
    script.change(3..4, job(1), Wish::Cancel, Some(State::Cancelled)).claim(5..6, job(1), "L1", 1);
    script.ends(job(1), State::Cancelled).breaks(&[Kind::Revived]);
}

#[test]
fn an_acknowledged_completion_lasts() {
    let mut script = started();
    script.done(5..6, job(1), "L1").ends(job(1), State::Dead).breaks(&[Kind::Undone]);
}

#[test]
fn a_completed_job_that_is_available_again_is_undone_and_stuck() {
    let mut script = started();
    script.done(5..6, job(1), "L1").ends(job(1), State::Available);
    script.breaks(&[Kind::Undone, Kind::Stuck]);
}

#[test]
fn only_its_worker_completes_a_job() {
    let mut script = started();
    script.ends(job(1), State::Completed).breaks(&[Kind::Unearned]);
    let mut script = started();
    let refused = Receipt::Refused("lease_lost".into());
    script.settle(5..6, job(1), "L1", DONE, refused).ends(job(1), State::Completed);
    script.breaks(&[Kind::Unearned]);
}

#[test]
fn a_job_is_not_cancelled_or_expired_without_a_request() {
    for state in [State::Cancelled, State::Expired] {
        started().ends(job(1), state).breaks(&[Kind::Unearned]);
    }
}

#[test]
fn a_job_that_did_not_end_is_stuck() {
    for state in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
        started().ends(job(1), state).breaks(&[Kind::Stuck]);
    }
    let mut script = Script::default();
    script.enqueue(1.., Wanted::plain(job(1))).ends(job(1), State::Blocked);
    script.breaks(&[Kind::Stuck]);
}

#[test]
fn a_job_cannot_overtake_another_of_its_key() {
    let mut script = Script::default();
    script.enqueue(1..2, keyed(1)).enqueue(3..4, keyed(2));
    script.claim(5..6, job(2), "L2", 1).done(7..8, job(2), "L2");
    script.claim(9..10, job(1), "L1", 1).done(11..12, job(1), "L1");
    script.ends(job(1), State::Completed).ends(job(2), State::Completed);
    let verdict = script.breaks(&[Kind::KeyOrder]);
    assert_eq!(verdict.violations[0].jobs, [job(1), job(2)]);
    assert_eq!(verdict.violations[0].story.len(), 6, "both jobs are in the story: {verdict}");
}

#[test]
fn a_job_in_backoff_still_holds_its_key() {
    let mut script = Script::default();
    script.enqueue(1..2, keyed(1)).enqueue(3..4, keyed(2)).claim(5..6, job(1), "L1", 1);
    script.settle(7..8, job(1), "L1", AttemptEnd::Retry, applied(State::Scheduled));
    script.claim(9..10, job(2), "L2", 1).done(11..12, job(2), "L2");
    script.claim(13..14, job(1), "L3", 2).done(15..16, job(1), "L3");
    script.ends(job(1), State::Completed).ends(job(2), State::Completed);
    script.breaks(&[Kind::KeyOrder]);
}

#[test]
fn two_jobs_of_one_key_never_run_together_whatever_their_order() {
    let mut script = Script::default();
    script.enqueue(1..4, keyed(1)).enqueue(2..3, keyed(2));
    script.claim(5..6, job(1), "L1", 1).claim(5..6, job(2), "L2", 1);
    script.done(7..8, job(1), "L1").done(7..8, job(2), "L2");
    script.ends(job(1), State::Completed).ends(job(2), State::Completed);
    script.breaks(&[Kind::KeyOrder]);
}

#[test]
fn a_completion_without_a_reply_holds_the_key_until_it_was_requested() {
    let mut script = Script::default();
    script.enqueue(1..2, keyed(1)).enqueue(3..4, keyed(2)).claim(5..6, job(1), "L1", 1);
    script.claim(7..8, job(2), "L2", 1).done(9.., job(1), "L1").done(9..10, job(2), "L2");
    script.ends(job(1), State::Completed).ends(job(2), State::Completed);
    script.breaks(&[Kind::KeyOrder]);
}

#[test]
fn a_history_that_contradicts_itself_is_the_recorders_fault() {
    let mut script = started();
    script.done(5..6, job(1), "L1").ends(job(1), State::Completed);
    let answer = script.events.last().unwrap().clone();
    script.events.push(answer);
    script.breaks(&[Kind::BadRecord]);
    let mut script = Script::default();
    script.call(1..2, Call::Claim("c".into()), Reply::Enqueued(Vec::new()));
    script.breaks(&[Kind::BadRecord]);
    let mut script = Script::default();
    script.call(1..2, Call::Claim("c".into()), Reply::Claimed(Vec::new()));
    script.events.retain(|event| matches!(event.note, Note::Answered(_)));
    script.breaks(&[Kind::BadRecord]);
}

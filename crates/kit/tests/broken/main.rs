//! Shows that the kit can fail: engines broken on purpose, each caught by a check named after the
//! promise it breaks, and a model-based test that finds stories with different results.

mod fast_paths;
mod faults;
mod faulty;

use faulty::{Fault, Faulty};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_kit::{START, SUITE, Subject, model, verdict};
use windlass_memory::MemoryEngine;

async fn sound() -> Subject {
    let clock = Arc::new(ManualClock::at(START));
    let engine = MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(7)));
    Subject::new(Arc::new(engine), clock)
}

async fn broken(fault: Fault) -> Subject {
    sound().await.wrapped(|engine| Arc::new(Faulty::new(engine, fault)))
}

/// Asserts that a sound engine passes a check and one with `fault` does not.
fn assert_caught(fault: Fault, topic: &str, check: &str) {
    verdict(topic, check, sound).expect("a sound engine passes");
    let seen = verdict(topic, check, || broken(fault));
    assert!(seen.is_err(), "{topic}::{check} does not notice {fault:?}");
}

/// Whether the model-based test notices.
fn model_notices<F: Future<Output = Subject>>(fresh: impl Fn() -> F) -> bool {
    catch_unwind(AssertUnwindSafe(|| model::run(300, fresh))).is_err()
}

macro_rules! caught {
    ($($fault:ident: $name:ident by $topic:ident :: $check:ident,)+) => {
        $(#[test]
        fn $name() {
            assert_caught(Fault::$fault, stringify!($topic), stringify!($check));
        })+

        #[test]
        fn every_fault_is_caught_by_a_check_of_its_own() {
            let caught = [$(Fault::$fault),+];
            assert_eq!(caught.len(), Fault::COUNT);
            let topics = SUITE.iter().map(|topic| topic.name).collect::<Vec<_>>();
            for topic in [$(stringify!($topic)),+] {
                assert!(topics.contains(&topic), "{topic}");
            }
        }
    };
}

caught! {
    ForgetsOnReclaim: a_job_forgotten_when_it_is_reclaimed
        by reclaim::a_lost_job_comes_back_after_a_short_backoff_with_a_crash_counted,
    IgnoresLeases: leases_that_nobody_looks_at
        by fencing::a_stale_lease_cannot_settle_a_job_in_any_way,
    LosesRank: priorities_that_make_no_difference by order::lower_priorities_start_first,
    PausesNothing: a_pause_that_pauses_nothing
        by gates::no_job_of_a_paused_queue_runs_and_other_queues_do,
    ClaimsTwice: a_job_given_to_two_workers
        by concurrency::claims_at_once_never_hand_out_a_job_twice,
    LosesFollowUps: follow_ups_that_never_come
        by follow_ups::follow_ups_are_there_when_the_report_is_answered,
    FreesKeysEarly: a_unique_key_freed_too_early
        by unique::the_key_is_held_through_backoff_snooze_release_and_wait,
    CountsReleases: a_release_counted_as_a_failure
        by settle::snoozes_and_releases_spend_no_attempts,
    CrashesOnRelease: a_lost_claim_counted_as_a_crash
        by heartbeat::a_claim_whose_reply_was_lost_is_released_without_a_crash,
    TakesIdsTwice: one_id_and_two_jobs by enqueue::the_same_id_again_is_the_same_job_and_changes_nothing,
    KeepsUndeclared: leases_kept_that_nobody_declares
        by heartbeat::declared_leases_stay_while_others_of_the_claim_go,
    ForgetsClaims: a_repeated_claim_that_takes_more
        by idempotence::a_claim_repeated_by_its_number_is_the_same_claim,
    ForgetsReports: a_repeated_report_called_stale
        by idempotence::a_report_repeated_is_answered_with_what_was_recorded,
    RetriesAtOnce: retries_that_do_not_wait by settle::a_handlers_own_delay_overrides_the_backoff,
    RemovesEarly: jobs_removed_before_their_time
        by retention::each_end_is_kept_for_its_own_time_and_not_a_minute_less,
    TearsBatches: all_or_nothing_that_is_some
        by bulk::a_bad_job_in_the_middle_aborts_an_all_or_nothing_batch,
    LosesEnvelopes: envelopes_thrown_away by parts::envelopes_are_carried_along_untouched,
    NeverExpires: jobs_that_wait_forever
        by retention::a_job_waits_no_longer_than_it_may_wherever_it_waits,
    WritesBlindly: writes_that_expect_nothing
        by records::a_write_that_expects_a_version_is_refused_at_any_other,
    CountsTheDead: dead_jobs_counted_as_depth
        by dead_letters::the_dead_are_neither_claimed_nor_counted_as_depth,
    IgnoresKeys: ordering_keys_that_order_nothing
        by keys::of_the_jobs_of_a_key_only_the_first_is_ready,
    IgnoresTenants: tenants_that_are_all_the_same
        by order::in_a_fair_queue_many_callers_of_a_tenant_gain_nothing,
    IgnoresBudgets: maintenance_without_bounds
        by maintenance::a_step_keeps_to_its_budget_and_says_that_more_is_left,
    MixesSuspects: a_suspect_in_company by reclaim::a_suspect_comes_in_a_claim_of_its_own,
    LosesCheckpoints: checkpoints_that_are_not_kept
        by parts::a_checkpoint_is_there_for_the_next_attempt,
    RunsEarly: jobs_that_run_before_their_time by due::a_delayed_job_does_not_start_before_its_time,
    CrashesForever: a_job_that_crashes_forever by reclaim::a_job_dies_when_its_crash_budget_is_used_up,
    HidesCancellations: cancellations_nobody_hears_of
        by heartbeat::a_cancellation_is_delivered_to_the_worker_until_it_reports,
    IgnoresKinds: jobs_for_workers_that_cannot_run_them
        by order::a_claim_takes_only_the_kinds_it_names,
    WakesNobody: waiters_that_sleep_on by wait::a_waiter_wakes_when_a_job_is_enqueued,
    AcknowledgesTooMuch: a_job_acknowledged_and_never_stored
        by bulk::each_job_of_a_batch_is_answered_in_its_place,
    MixesFailures: a_failed_claim_that_takes_the_reports_with_it
        by settle::a_claim_that_fails_does_not_fail_the_reports_before_it,
    OverfillsQueues: queues_that_are_never_full
        by bulk::a_full_queue_refuses_only_the_jobs_beyond_its_limit,
    IgnoresTags: searches_that_find_anything
        by search::jobs_are_found_by_their_tenant_their_key_and_any_of_their_tags,
    BelievesIds: jobs_searched_for_by_the_time_in_their_ids
        by search::a_job_is_found_by_when_it_came_whatever_time_its_id_carries,
    IgnoresFields: searches_that_ignore_one_field
        by find::jobs_are_found_by_fields_of_their_payload,
    IgnoresWindows: searches_that_ignore_when_jobs_ended by find::jobs_are_found_by_when_they_ended,
    MixesPriorities: every_priority_as_deep_as_its_lane
        by priorities::ready_jobs_are_counted_by_priority_if_requested,
    SortsById: lists_in_the_order_of_ids by lists::ended_jobs_are_listed_by_their_end_latest_first,
    HalvesPages: pages_that_are_half_full by lists::pages_are_filled_beside_the_jobs_of_others,
    ForgetsEnds: completed_jobs_that_are_not_counted
        by queries::stats_count_ended_jobs_until_they_are_replayed_or_removed,
    MixesPauses: paused_jobs_counted_as_blocked
        by queries::paused_jobs_and_paused_queues_are_counted_apart,
    AddsSlots: one_job_more_than_a_limit_allows by slots::no_more_jobs_run_than_a_limit_allows,
    IgnoresGroups: groups_that_are_all_the_same by slots::a_deep_group_does_not_delay_another,
    ForgetsHolds: holds_that_stop_nothing by named_limits::a_report_can_hold_a_limit_for_a_time,
    IgnoresFloors: floors_that_make_no_difference
        by floors::a_floor_lets_low_priorities_run_beside_an_endless_backlog,
    NamesOneCause: explanations_with_a_single_cause
        by why::a_paused_queue_and_a_paused_kind_are_both_named,
    AssumesWorkers: workers_that_are_assumed_to_exist by why::a_lane_without_a_worker_says_so,
    ReleasesEarly: a_dependent_that_is_released_by_the_first_of_several_ends
        by dependencies::a_job_runs_once_all_jobs_that_it_depends_on_are_completed,
    ForgetsEdges: a_dependent_that_is_never_released
        by dependencies::a_job_runs_once_all_jobs_that_it_depends_on_are_completed,
    TearsGraphs: a_graph_of_which_a_part_is_stored
        by flows::cycles_and_unknown_jobs_are_refused_and_nothing_is_stored,
}

#[test]
fn stories_on_a_correct_engine_pass() {
    assert!(!model_notices(sound));
}

#[test]
fn stories_under_limits_fail_on_engines_that_exceed_them() {
    let notices = |fault: Option<Fault>| {
        let fresh = || async move {
            match fault {
                Some(fault) => broken(fault).await,
                None => sound().await,
            }
        };
        catch_unwind(AssertUnwindSafe(|| model::run_limits(300, fresh))).is_err()
    };
    assert!(!notices(None));
    for fault in [Fault::AddsSlots, Fault::ForgetsHolds] {
        assert!(notices(Some(fault)), "the model does not notice {fault:?}");
    }
}

#[test]
fn stories_on_broken_engines_fail() {
    for fault in [
        Fault::ForgetsOnReclaim,
        Fault::IgnoresLeases,
        Fault::LosesRank,
        Fault::PausesNothing,
        Fault::ClaimsTwice,
        Fault::LosesFollowUps,
        Fault::FreesKeysEarly,
        Fault::CountsReleases,
        Fault::KeepsUndeclared,
        Fault::RetriesAtOnce,
        Fault::TearsBatches,
        Fault::NeverExpires,
        Fault::IgnoresKeys,
        Fault::LosesCheckpoints,
        Fault::OverfillsQueues,
        Fault::IgnoresFloors,
    ] {
        assert!(model_notices(|| broken(fault)), "the model does not notice {fault:?}");
    }
}

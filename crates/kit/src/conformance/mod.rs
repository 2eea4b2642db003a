//! The conformance suite: every promise of the contract, by topic, one check each.
//!
//! A check is an async function that takes a [`Rig`] with a fresh engine and panics if a promise is broken.
//! The list below defines the suite: [`SUITE`] and [`conformance!`](crate::conformance!) are generated from
//! it, and a check that is missing from it is dead code, which does not compile here.

// tidy: long because the list of all checks is one list, and it is the table of contents.

mod run;

pub use run::{run, verdict};

use crate::rig::Rig;
use std::future::Future;
use std::pin::Pin;

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The promise that it checks.
    pub name: &'static str,
    run: fn(Rig) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The checks of one topic.
#[derive(Clone, Copy, Debug)]
pub struct Topic {
    /// The name of the topic.
    pub name: &'static str,
    /// The checks.
    pub checks: &'static [Check],
}

// `$d` is a dollar sign: the only way for a macro to define another macro with parameters.
macro_rules! suite {
    (($d:tt) $($topic:ident { $($check:ident,)* })+) => {
        $(mod $topic;)+

        /// All checks, by topic.
        pub static SUITE: &[Topic] = &[$(Topic {
            name: stringify!($topic),
            checks: &[$(Check {
                name: stringify!($check),
                run: |rig| Box::pin($topic::$check(rig)),
            }),*],
        }),+];

        /// Creates one `#[test]` per check, in a module per topic, for engines created by a function `async
        /// fn() -> Subject`.
        #[macro_export]
        macro_rules! conformance {
            ($d factory:path) => {
                $(mod $topic {
                    use super::*;
                    $(#[test]
                    fn $check() {
                        $crate::run(stringify!($topic), stringify!($check), $d factory);
                    })*
                })+
            };
        }
    };
}

suite! { ($)
    enqueue {
        an_enqueued_job_can_be_claimed_with_everything_it_was_given,
        a_stored_job_reads_back_as_it_was_claimed,
        a_job_with_only_a_kind_has_every_default,
        an_id_made_by_the_producer_is_the_jobs_id,
        the_same_id_again_is_the_same_job_and_changes_nothing,
        the_same_id_on_another_queue_is_still_the_same_job,
        an_enqueue_repeated_later_returns_the_current_state,
        ids_made_by_the_store_differ_and_carry_their_time,
        a_job_is_on_its_own_queue_and_no_other,
    }
    bulk {
        each_job_of_a_batch_is_answered_in_its_place,
        a_bad_job_fails_alone,
        an_empty_batch_has_no_answers,
        jobs_of_one_batch_start_in_the_order_of_the_batch,
        later_jobs_of_a_batch_see_the_earlier_ones,
        an_all_or_nothing_batch_is_stored_whole,
        a_bad_job_in_the_middle_aborts_an_all_or_nothing_batch,
        a_rejected_duplicate_aborts_an_all_or_nothing_batch,
        an_aborted_batch_leaves_no_trace,
        an_all_or_nothing_batch_spans_queues_only_where_the_engine_is_that_wide,
        ten_thousand_jobs_go_in_with_one_call,
        ten_thousand_jobs_go_in_all_or_nothing,
        a_full_queue_refuses_only_the_jobs_beyond_its_limit,
        a_full_queue_refuses_an_all_or_nothing_batch_whole,
        depth_counts_what_waits_and_nothing_else,
        an_enqueue_can_be_repeated_although_the_queue_is_full_by_now,
    }
    unique {
        while_a_job_lives_the_next_is_answered_with_it,
        while_a_job_lives_a_newcomer_can_ask_to_be_rejected,
        a_waiting_job_is_replaced_and_says_by_which,
        a_running_job_gets_a_successor_that_takes_over_the_key,
        every_end_frees_the_key,
        used_up_budgets_free_the_key,
        the_key_is_held_through_backoff_snooze_release_and_wait,
        a_window_holds_the_key_whatever_becomes_of_the_job,
        an_ended_job_in_its_window_is_succeeded_not_replaced,
        a_window_is_counted_from_the_enqueue,
        a_window_ends_on_time_even_without_maintenance,
        a_window_outlives_the_job_that_opened_it,
        a_record_holds_the_key_until_it_is_removed,
        a_record_with_its_own_retention_frees_the_key_at_its_end,
        a_discard_frees_the_key_of_a_record,
        a_replay_keeps_the_key_of_its_record,
        the_key_of_a_record_that_a_successor_took_stays_with_it,
        a_follow_up_cannot_take_the_key_of_its_parents_record,
        throttle_takes_one_job_per_window,
        throttle_without_a_window_is_refused,
        a_replacement_keeps_the_earlier_time,
        a_debounced_job_runs_once_when_things_are_quiet,
        a_key_is_unique_in_its_lane_its_queue_its_kind_or_everywhere,
        a_key_across_queues_is_refused_where_the_engine_cannot_hold_it,
        lanes_whose_names_run_together_have_keys_of_their_own,
        keys_are_compared_byte_by_byte,
        a_replayed_job_takes_its_key_again,
        a_replay_is_refused_while_another_job_holds_the_key,
        of_many_jobs_with_one_key_at_the_same_time_one_is_stored,
    }
    moves {
        a_moved_job_keeps_everything_but_its_queue,
        a_moved_job_enters_at_the_tail_of_its_new_queue,
        a_moved_job_is_ranked_by_the_order_of_its_new_queue,
        jobs_in_every_waiting_state_can_be_moved_and_stay_in_it,
        a_running_or_ended_job_cannot_be_moved,
        a_move_to_its_own_queue_changes_nothing,
        a_move_to_a_full_queue_is_refused,
        a_moved_job_leaves_the_line_of_its_key_and_joins_the_other_one,
        a_unique_key_moves_with_its_job,
        a_move_to_a_taken_unique_key_is_refused_and_changes_nothing,
        a_report_moves_a_job_that_runs_again,
        a_report_that_ends_a_job_cannot_move_it,
        a_report_that_moves_to_a_taken_unique_key_is_refused_and_its_lease_stays,
        a_job_that_must_not_run_again_stays_in_its_queue,
        a_replay_can_run_a_job_in_another_queue,
        a_move_to_a_bad_name_is_refused,
        a_killed_job_is_dead_and_frees_its_keys,
        only_waiting_jobs_can_be_killed,
    }
    order {
        jobs_of_one_priority_start_in_order_of_entry,
        lower_priorities_start_first,
        one_claim_of_many_is_in_the_same_order,
        a_job_that_comes_back_goes_to_the_tail_of_its_priority,
        a_reprioritised_job_goes_to_the_tail_of_its_new_priority,
        ageing_lets_an_old_job_overtake_a_new_one_that_is_more_urgent,
        ageing_counts_from_when_a_job_became_ready,
        ageing_holds_at_the_extremes,
        lifo_starts_the_newest_first_whatever_its_priority,
        in_a_fair_queue_tenants_take_turns_however_much_one_sends,
        in_a_fair_queue_idling_saves_no_turns_up,
        in_a_fair_queue_compaction_keeps_tenants_with_waiting_jobs,
        in_a_fair_queue_many_callers_of_a_tenant_gain_nothing,
        in_a_fair_queue_a_returning_tenant_takes_a_new_turn,
        in_a_fair_queue_claims_from_several_queues_serve_turns_too,
        a_change_of_order_concerns_only_jobs_that_become_ready_after_it,
        the_kinds_of_a_queue_are_merged_by_priority_and_entry,
        queues_are_served_in_the_order_given,
        a_claim_takes_no_more_of_a_queue_than_it_wants,
        a_claim_takes_no_more_of_a_kind_than_it_wants,
        a_claim_takes_only_the_kinds_it_names,
        a_suspect_comes_in_a_claim_of_its_own,
        jobs_left_by_a_full_claim_keep_their_place,
    }
    due {
        a_delayed_job_does_not_start_before_its_time,
        not_even_a_millisecond_early,
        a_job_whose_time_has_come_is_ready_at_once,
        a_delay_counts_from_when_the_store_received_it,
        due_jobs_become_ready_in_the_order_of_their_times,
        a_bounded_step_takes_the_earliest_first,
        priority_still_counts_among_jobs_that_became_due_together,
        a_due_job_goes_behind_those_that_were_ready_before,
        promotion_says_when_to_come_again,
        the_job_is_due_at_the_reported_time,
        a_job_may_wait_ten_years,
        a_thousand_jobs_due_at_once_all_become_ready,
    }
    import {
        an_imported_job_is_the_job_that_was_exported,
        an_imported_job_lives_on_where_it_was,
        a_running_job_is_imported_as_available,
        a_running_job_to_be_cancelled_is_imported_as_cancelled,
        an_import_of_a_known_id_changes_nothing,
        imported_jobs_keep_the_order_of_their_key,
        an_import_with_a_taken_unique_key_is_refused,
        invalid_jobs_are_not_imported,
        a_queue_hint_never_changes_what_is_found,
    }
    keys {
        of_the_jobs_of_a_key_only_the_first_is_ready,
        jobs_of_a_key_run_in_order_of_entry_whatever_their_priority,
        jobs_of_a_key_in_one_batch_run_in_the_order_of_the_batch,
        a_key_delays_no_other_jobs,
        a_key_spans_the_kinds_of_its_queue,
        similar_keys_are_different_keys,
        the_key_is_held_through_everything_short_of_the_end,
        a_lost_lease_does_not_let_the_next_of_the_key_pass,
        every_end_passes_the_key_to_the_next_job,
        an_expired_job_passes_its_key_on,
        a_replaced_job_passes_its_key_on,
        a_job_that_left_the_line_is_not_waited_for,
        a_job_paused_or_put_off_in_the_line_rejoins_at_its_end,
        a_job_that_is_not_due_waits_in_no_line,
        a_replayed_job_goes_to_the_end_of_the_line,
        the_claim_in_a_settle_can_take_the_next_of_the_key,
        a_job_that_waits_for_a_signal_keeps_its_key,
    }
    parts {
        all_four_parts_come_back_byte_for_byte,
        an_empty_part_is_not_an_unset_one,
        envelopes_are_carried_along_untouched,
        a_claim_returns_the_requested_parts_and_no_others,
        a_read_returns_the_requested_parts_and_no_others,
        parts_left_behind_can_be_fetched_under_the_lease,
        a_checkpoint_is_there_for_the_next_attempt,
        a_checkpoint_written_while_running_survives_the_worker,
        parts_are_edited_one_by_one,
        a_payload_edited_under_the_lease_is_the_input_of_the_next_attempt,
        edits_with_any_outcome_are_kept,
        a_result_is_kept_with_its_envelope,
        parts_of_exactly_the_limit_are_taken,
        a_refused_edit_changes_nothing,
        progress_and_log_lines_are_kept_with_the_job,
        a_log_keeps_its_latest_lines,
    }
    session {
        an_open_session_is_listed_with_its_label_its_end_and_its_load,
        a_session_is_listed_with_its_worker,
        the_description_of_a_worker_is_bounded,
        a_running_job_shows_its_worker_and_the_end_of_its_lease,
        sessions_with_one_label_are_different_sessions,
        a_session_is_refused_a_length_or_label_beyond_the_limits,
        closing_a_session_releases_what_it_held_at_once,
        closing_a_session_ends_what_was_to_be_cancelled,
        closing_a_session_that_is_gone_is_fine,
        a_session_that_is_gone_can_neither_claim_nor_live_on,
        a_session_that_ran_out_can_still_report_until_it_is_reclaimed,
        a_session_that_ran_out_is_revived_by_a_heartbeat,
        a_claim_without_a_session_lasts_as_long_as_its_lease,
        a_claim_without_a_session_can_be_settled,
        extending_a_lease_keeps_the_whole_claim_alive,
        a_sessions_lease_cannot_be_extended_alone,
        a_lease_beyond_the_limits_is_refused,
    }
    fencing {
        a_stale_lease_cannot_settle_a_job_in_any_way,
        a_stale_lease_can_neither_read_nor_write_parts,
        a_lease_is_stale_from_the_moment_it_is_reclaimed,
        a_job_that_died_with_its_worker_cannot_be_completed_afterwards,
        a_cancelled_job_whose_worker_was_lost_stays_cancelled,
        a_forged_lease_is_worth_nothing,
        a_job_that_waits_has_no_lease_to_guess,
        the_lease_of_one_job_is_nothing_to_another,
        a_report_on_a_job_that_never_existed_says_so,
        a_settled_lease_can_no_longer_update,
        stale_reports_fail_alone_among_valid_ones,
        stale_updates_fail_alone_among_valid_ones,
        every_attempt_has_a_lease_of_its_own,
    }
    idempotence {
        a_claim_repeated_by_its_number_is_the_same_claim,
        a_claim_without_a_session_is_repeated_by_its_id,
        a_repeated_claim_takes_nothing_that_came_later,
        a_repeated_claim_returns_only_what_is_still_leased,
        a_repeated_claim_of_which_nothing_is_left_claims_afresh,
        the_same_number_of_another_session_is_another_claim,
        a_report_repeated_is_answered_with_what_was_recorded,
        a_report_repeated_with_another_outcome_changes_nothing,
        a_report_is_remembered_while_later_attempts_come_and_go,
        a_report_stated_twice_in_one_batch_counts_once,
        follow_ups_of_a_repeated_report_are_created_once,
        reports_and_the_claim_that_came_with_them_can_be_repeated_together,
        an_enqueue_repeated_by_id_is_the_same_job_whatever_became_of_it,
    }
    heartbeat {
        a_heartbeaten_session_outlives_its_length_many_times_over,
        a_claim_whose_reply_was_lost_is_released_without_a_crash,
        declared_leases_stay_while_others_of_the_claim_go,
        a_released_lease_changes_nothing_any_more,
        an_unanswered_claim_is_left_alone,
        a_claim_that_overtook_the_heartbeat_is_left_alone,
        a_heartbeat_concerns_its_own_session_only,
        declared_leases_that_are_not_valid_are_reported_lost,
        an_old_lease_declared_beside_the_current_one_is_lost_alone,
        a_forged_declaration_does_not_hold_a_lease,
        a_cancellation_is_delivered_to_the_worker_until_it_reports,
        a_cancellation_is_not_reported_to_other_workers,
        a_lost_claim_of_a_cancelled_job_ends_cancelled,
        a_heartbeat_of_an_unknown_session_changes_nothing,
    }
    reclaim {
        a_lost_job_comes_back_after_a_short_backoff_with_a_crash_counted,
        no_job_is_reclaimed_before_its_session_expired,
        the_backoff_doubles_with_each_crash_up_to_its_cap,
        jobs_of_one_dead_worker_all_come_back_but_not_in_one_wave,
        a_job_dies_when_its_crash_budget_is_used_up,
        a_job_without_a_crash_budget_never_runs_again_after_one,
        a_suspect_comes_in_a_claim_of_its_own,
        a_suspect_is_claimed_alone_across_queues,
        a_suspect_is_not_taken_along_by_those_before_it,
        two_suspects_come_in_two_claims,
        a_job_that_crashed_once_still_runs_among_others,
        a_suspect_stays_alone_in_a_claim_that_came_with_reports,
        a_reported_outcome_clears_the_crashes,
        snooze_and_release_clear_no_crashes,
        after_a_retry_the_crash_budget_is_whole_again,
        failures_and_crashes_have_budgets_of_their_own,
        a_cancelled_job_whose_worker_dies_ends_cancelled,
        a_healthy_worker_is_not_touched_by_the_death_of_another,
        many_crashes_neither_lose_a_job_nor_grow_its_record,
    }
    settle {
        a_completed_job_keeps_its_result_and_never_runs_again,
        a_retry_waits_by_the_jobs_own_backoff,
        a_handlers_own_delay_overrides_the_backoff,
        a_retry_without_delay_is_ready_at_once,
        a_job_dies_when_its_attempts_are_used_up,
        the_last_attempt_of_a_job_that_must_not_run_again_is_a_failure,
        an_ended_job_keeps_the_time_at_which_it_was_due,
        every_entry_into_a_state_is_counted_and_timed,
        a_failure_for_good_is_final_at_once,
        snoozes_and_releases_spend_no_attempts,
        a_snoozed_job_comes_back_when_it_said,
        a_released_job_can_be_started_by_another_at_once,
        a_job_that_waits_runs_again_once_it_is_signalled,
        a_signal_that_comes_early_is_kept_for_the_next_wait,
        a_signal_before_the_first_start_is_kept_too,
        a_handler_can_end_its_job_as_cancelled,
        a_requested_cancellation_ends_whatever_would_come_back,
        the_claim_that_comes_with_reports_sees_what_they_freed,
        a_claim_that_fails_does_not_fail_the_reports_before_it,
        a_report_can_move_the_priority,
        bad_reports_fail_alone_and_keep_their_leases,
        a_huge_error_is_cut_and_never_refused,
        the_history_lists_every_attempt_oldest_first,
    }
    follow_ups {
        follow_ups_are_there_when_the_report_is_answered,
        an_attempt_that_took_days_can_have_follow_ups,
        a_follow_up_may_bring_its_own_id_and_trace,
        a_follow_up_can_go_to_another_queue,
        a_follow_up_may_not_bring_a_derived_id,
        every_outcome_can_have_follow_ups,
        each_attempt_has_follow_ups_of_its_own,
        follow_ups_are_let_in_where_the_queue_is_full,
        an_invalid_follow_up_refuses_the_report_and_keeps_the_lease,
        a_follow_up_whose_key_is_held_can_refuse_the_report,
        a_follow_up_that_is_there_already_is_answered_so,
        a_follow_up_with_its_parents_id_is_the_parent_and_nothing_new,
        a_follow_up_may_take_the_unique_key_its_parent_frees,
        a_follow_up_of_a_job_that_goes_on_cannot_take_its_unique_key,
        a_follow_up_of_the_same_ordering_key_is_last_in_line,
        too_many_follow_ups_are_refused_and_the_limit_is_not,
        a_refused_follow_up_does_not_touch_the_neighbours,
    }
    change {
        every_change_in_every_state_does_what_the_machine_says,
        a_change_decided_for_another_state_is_refused_and_changes_nothing,
        a_change_decided_for_the_state_of_a_job_is_made,
        a_waiting_job_that_is_cancelled_never_runs,
        cancelling_frees_the_unique_and_the_ordering_key,
        a_promoted_job_runs_now,
        a_rescheduled_job_runs_at_its_new_time,
        a_paused_job_remembers_its_new_time,
        a_time_too_far_away_is_refused,
        a_new_priority_moves_a_job_in_line,
        a_paused_job_stays_aside_until_it_is_resumed,
        a_scheduled_job_paused_past_its_time_runs_when_resumed,
        a_signal_wakes_only_the_job_it_is_for,
        a_signal_reaches_a_job_that_was_moved_while_it_waited,
        a_job_that_waits_is_not_woken_by_anything_but_its_signal,
        cancelled_and_expired_jobs_can_be_replayed,
        a_discarded_job_is_gone,
        an_id_enqueued_again_after_its_removal_is_a_new_job,
        bad_changes_fail_alone,
    }
    gates {
        no_job_of_a_paused_queue_runs_and_other_queues_do,
        a_paused_queue_takes_jobs_and_runs_them_when_it_is_resumed,
        no_job_of_a_paused_kind_runs_in_any_queue,
        running_jobs_go_on_through_a_pause,
        each_claimed_job_takes_a_permit,
        permits_are_shared_by_all_queues_of_a_kind,
        a_kind_without_permits_is_closed_and_others_are_not,
        a_repeated_claim_takes_no_second_permit,
        a_gated_lane_blocks_no_other_lane,
        promoting_a_job_does_not_open_a_gate,
        a_claim_that_comes_with_reports_respects_gates,
        waiting_through_a_pause_counts_as_waiting,
        a_gate_can_be_set_before_its_first_job,
    }
    retention {
        each_end_is_kept_for_its_own_time_and_not_a_minute_less,
        without_settings_the_dead_are_kept_longer_than_the_done,
        a_jobs_own_retention_overrides_its_queues,
        a_change_of_retention_applies_to_what_has_ended_already,
        a_retention_of_nothing_ends_with_the_next_maintenance,
        unfinished_jobs_are_kept_at_any_age,
        a_unique_window_outlives_the_record_of_its_job_and_then_ends,
        a_job_waits_no_longer_than_it_may_wherever_it_waits,
        scheduled_and_running_jobs_do_not_expire,
        the_wait_begins_anew_when_a_job_comes_back,
        a_queues_limit_applies_where_a_job_has_none_of_its_own,
        an_expired_job_frees_its_keys,
        a_replayed_expired_job_gets_its_whole_wait_again,
        a_queue_keeps_as_many_ended_jobs_as_it_may_the_newest,
        a_number_to_keep_is_exact_beside_equal_times_and_kept_in_steps,
    }
    removed {
        every_removal_is_counted_by_queue_kind_tenant_and_outcome,
        a_discard_is_counted_and_so_is_a_job_with_its_own_retention,
        the_history_is_by_hour_in_pages_and_filtered_by_queue,
        tenants_beyond_the_limit_of_an_hour_are_counted_together,
        the_history_is_kept_for_90_days_or_as_long_as_asked,
    }
    dead_letters {
        the_dead_are_neither_claimed_nor_counted_as_depth,
        the_dead_are_listed_with_why_they_died,
        a_dead_letter_frees_its_keys,
        a_replayed_job_runs_again_with_its_budgets_whole,
        a_replay_can_edit_the_job,
        a_replay_can_be_put_off,
        a_bad_edit_leaves_the_dead_letter_as_it_was,
        a_replay_takes_the_unique_key_again,
        a_replay_whose_unique_key_is_held_is_refused_and_changes_nothing,
        a_replayed_keyed_job_is_last_in_line,
        a_replayed_job_is_no_longer_up_for_removal,
        a_discarded_dead_letter_is_gone,
        dead_letters_are_replayed_in_bulk_each_for_itself,
        one_poisoned_job_does_not_hold_up_its_neighbours,
        the_dead_of_one_lane_leave_the_others_alone,
    }
    queries {
        jobs_are_read_in_the_requested_order_and_unknown_ids_are_none,
        a_job_past_its_retention_is_unknown,
        every_reply_carries_the_stores_time_and_epoch,
        stats_count_the_jobs_of_a_lane_by_state,
        stats_follow_a_job_through_its_life,
        stats_count_ended_jobs_until_they_are_replayed_or_removed,
        stats_report_when_the_next_scheduled_job_of_a_lane_is_due,
        paused_jobs_and_paused_queues_are_counted_apart,
        stats_are_grouped_by_queue_and_kind,
        stats_report_since_when_the_head_of_a_lane_is_ready,
        stats_report_why_a_lane_is_not_claimed,
        a_listing_shows_the_jobs_that_pass_its_filter,
        a_list_returns_the_fields_of_a_read_without_parts_and_history,
        a_listing_is_ordered_by_id_either_way,
        pages_cover_every_job_once,
        pages_cover_every_job_once_while_others_come_and_go,
        a_listing_finds_the_one_job_among_many_others,
    }
    lists {
        scheduled_jobs_are_listed_by_when_they_are_due_next_first,
        running_jobs_are_listed_by_their_start_latest_first,
        ended_jobs_are_listed_by_their_end_latest_first,
        other_lists_are_by_enqueueing_whatever_the_order_of_claims,
        jobs_that_ended_at_the_same_time_are_each_listed_once,
        pages_are_filled_beside_the_jobs_of_others,
        the_two_jobs_of_a_queue_are_found_at_once_among_thousands_of_another,
        a_deep_queue_behind_a_deeper_one_fills_its_pages,
        a_page_is_short_only_once_it_has_examined_its_share,
        a_list_by_end_goes_on_where_it_was_beside_replays_and_new_deaths,
        a_list_by_due_time_goes_on_where_it_was_beside_jobs_that_become_due,
        a_cursor_belongs_to_lists_of_the_same_order,
    }
    priorities {
        ready_jobs_are_counted_by_priority_if_requested,
        counts_by_priority_follow_jobs_through_their_lives,
        each_priority_reports_since_when_its_first_job_is_ready,
        a_queue_not_ordered_by_priority_reports_no_priorities,
        of_many_priorities_the_most_urgent_are_reported,
        counts_by_priority_are_bounded_and_never_too_high,
    }
    search {
        jobs_are_found_by_their_tenant_their_key_and_any_of_their_tags,
        the_children_of_a_job_are_found_by_it,
        jobs_are_found_by_when_they_were_enqueued,
        a_job_is_found_by_when_it_came_whatever_time_its_id_carries,
        all_conditions_of_a_search_must_match,
        the_pages_of_a_search_cover_what_it_finds_once,
    }
    records {
        a_record_reads_back_as_it_was_written,
        each_write_has_a_higher_version_and_its_time,
        a_version_is_never_seen_again_for_another_content,
        a_write_that_expects_no_record_is_refused_if_there_is_one,
        a_write_that_expects_a_version_is_refused_at_any_other,
        a_delete_keeps_to_what_it_expects_too,
        of_many_writers_that_expect_the_same_one_wins,
        operations_of_a_batch_are_done_in_order_and_fail_alone,
        records_are_listed_by_prefix_in_order_of_name,
        pages_of_records_cover_each_once,
        a_log_numbers_its_entries_from_one_without_gaps,
        a_log_keeps_its_latest_entries_and_their_numbers,
        pages_of_a_log_cover_each_entry_once,
        a_slow_reader_of_a_log_sees_the_gap_and_goes_on,
        a_record_and_a_log_of_one_name_are_apart,
    }
    slots {
        no_more_jobs_run_than_a_limit_allows,
        every_end_of_an_attempt_frees_its_slot,
        the_slots_of_a_lost_worker_are_free_after_its_reclaim,
        a_repeated_claim_takes_no_second_slot,
        surplus_jobs_of_a_group_are_blocked_and_name_their_limit,
        a_deep_group_does_not_delay_another,
        the_line_of_a_group_goes_by_priority_then_by_age,
        a_job_without_a_group_is_counted_by_tenant_or_with_its_like,
        a_ready_job_that_leaves_makes_room_in_its_group,
        slots_are_counted_and_not_positions,
        concurrent_claims_share_the_slots,
        a_job_that_waits_for_one_limit_holds_none_of_the_others,
        two_limits_without_contention_cost_no_time,
        a_queue_and_a_kind_share_a_limit,
        a_paused_queue_holds_no_slots_of_a_shared_limit,
        lanes_that_share_a_limit_take_turns_and_lose_nothing,
        ordering_keys_and_limits_hold_together,
        a_retry_that_is_due_waits_in_line_again,
        a_waiter_wakes_when_a_slot_is_free,
    }
    rates {
        a_bucket_starts_its_burst_and_then_at_its_rate,
        a_window_never_has_more_starts_than_its_maximum,
        each_group_has_a_rate_of_its_own,
        a_window_by_group_never_has_more_starts_than_its_maximum,
        maintenance_releases_jobs_on_time_and_says_when,
        a_backlog_keeps_its_rate_after_all_workers_were_away,
        a_start_takes_the_cost_of_its_job,
        a_cost_above_the_capacity_is_refused_with_both_numbers,
        a_job_that_waits_for_its_rate_holds_no_slot,
        a_released_job_does_not_return_its_tokens,
        a_rate_and_slots_of_one_limit_hold_together,
        a_waiter_wakes_when_the_rate_allows_a_start,
    }
    named_limits {
        limits_are_part_of_the_settings,
        bad_limits_are_refused_and_change_nothing,
        bad_groups_and_costs_are_refused,
        a_group_and_a_cost_are_stored_and_handed_out,
        a_raised_limit_releases_jobs_at_once,
        a_lowered_limit_stops_starts_and_no_running_job,
        a_limit_that_is_listed_no_more_releases_its_jobs,
        running_jobs_count_when_a_limit_is_listed,
        a_group_may_have_a_rule_of_its_own,
        a_report_can_hold_a_limit_for_a_time,
        a_report_can_hold_its_group_or_its_queue,
        bad_holds_are_refused_and_the_lease_stays,
        tokens_can_be_taken_for_other_work,
        ready_jobs_go_back_in_line_when_others_took_their_tokens,
    }
    limits {
        bad_names_are_refused,
        names_at_their_limit_and_of_every_character_are_taken,
        bad_texts_are_refused,
        too_many_tags_are_refused,
        times_out_of_range_are_refused,
        policies_that_make_no_sense_are_refused,
        policies_at_their_limits_are_taken,
        priorities_have_no_limit_but_their_type,
        ids_without_their_time_are_refused,
        parts_over_their_limit_are_refused,
        json_nested_too_deep_is_refused_in_every_part,
        bad_envelopes_are_refused,
        bad_jobs_harm_none_of_their_neighbours,
        a_huge_error_report_is_cut_not_refused,
        errors_and_log_lines_may_hold_any_text,
        a_long_log_line_is_cut_not_refused,
    }
    lanes {
        kinds_of_a_queue_are_limited_and_forgotten_when_idle,
        a_kind_that_was_forgotten_can_be_used_again,
        a_job_replayed_into_an_idle_lane_runs,
    }
    refusals {
        a_claim_out_of_bounds_is_refused_and_takes_nothing,
        a_session_out_of_bounds_is_refused,
        a_heartbeat_out_of_bounds_is_refused_and_releases_nothing,
        a_report_out_of_bounds_is_refused_and_the_lease_stays,
        an_update_out_of_bounds_is_refused_and_changes_nothing,
        a_change_out_of_bounds_is_refused_and_changes_nothing,
        settings_out_of_bounds_are_refused_and_change_nothing,
        record_operations_out_of_bounds_are_refused,
        listings_waits_and_steps_out_of_bounds_are_refused,
        an_unknown_cursor_is_refused,
        batches_over_their_limit_are_refused_whole,
        verbs_about_jobs_that_never_were_answer_not_found,
    }
    maintenance {
        where_nothing_is_to_be_done_nothing_is_done,
        a_step_keeps_to_its_budget_and_says_that_more_is_left,
        a_step_returns_when_the_next_work_is_due,
        tallies_count_ended_jobs_by_queue,
        tallies_count_dead_and_retried_jobs_separately,
        a_job_in_line_for_a_key_is_not_counted_as_ready,
        maintainers_at_once_do_everything_once,
        one_kind_of_work_does_not_do_anothers,
        compacting_loses_nothing,
        a_budget_of_nothing_or_beyond_the_limit_is_refused,
        a_check_reads_every_job,
    }
    schedules {
        ten_schedulers_fire_once,
        a_fire_that_has_run_does_not_run_again,
        a_producer_cannot_take_the_place_of_a_fire,
        a_foreign_job_under_the_id_of_a_fire_is_an_error,
        a_derived_id_must_be_one,
        two_schedules_with_the_same_time_do_not_collide,
        a_fire_enqueued_early_waits_for_its_time,
        missed_fires_can_still_be_enqueued_after_half_a_day,
        a_scheduler_that_dies_before_storing_its_progress_fires_nothing_twice,
        of_schedulers_that_store_the_same_progress_one_gets_through,
        a_schedule_that_cannot_fire_is_refused_by_field,
    }
    wait {
        waiting_for_what_is_there_takes_no_time,
        waiting_for_nothing_ends_when_the_time_is_up,
        a_waiter_wakes_when_a_job_is_enqueued,
        every_waiter_of_a_queue_is_served,
        a_waiter_wakes_when_a_jobs_time_has_come,
        a_waiter_wakes_when_a_job_is_given_back,
        a_waiter_wakes_when_an_ordering_key_is_passed_on,
        a_waiter_wakes_when_a_job_is_changed_to_run,
        a_waiter_wakes_when_a_follow_up_comes,
        gated_jobs_wake_no_waiter_until_the_gate_opens,
        a_waiter_for_a_kind_is_not_woken_by_others,
        a_wait_beyond_the_limit_is_refused,
    }
    concurrency {
        producers_and_workers_at_once_complete_every_job_once,
        claims_at_once_never_hand_out_a_job_twice,
        one_claim_sent_many_times_at_once_is_one_claim,
        enqueues_of_one_unique_key_at_once_create_one_job,
        enqueues_of_one_id_at_once_create_one_job,
        reports_under_one_lease_at_once_count_once,
        heartbeats_among_reports_lose_nothing,
        closing_a_session_among_its_reports_ends_each_attempt_once,
        of_a_replay_and_a_discard_at_once_one_wins,
        a_discard_decided_for_the_dead_takes_no_completed_job,
        a_job_cancelled_during_its_claim_is_reported_or_never_starts,
        maintainers_and_workers_at_once_start_due_jobs_once,
        permits_are_never_overdrawn,
        jobs_of_one_key_run_one_at_a_time_and_in_order_under_load,
    }
}

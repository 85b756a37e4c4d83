//! The rules, in the order in which they are exercised: from what everything needs to what builds on it.

mod catalogue;
mod chunks;
mod claims;
mod commits;
mod contents;
mod copies;
mod external;
mod fencing;
mod likeness;
mod logs;
mod recovery;
mod scans;
mod specs;
mod triggers;

use crate::Place;

/// One rule of the contract.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What it demands, as a sentence.
    pub name: &'static str,
    /// Checks a backend over a new place; panics when it breaks the rule.
    pub check: fn(&mut dyn Place),
    /// It is about what is written beside the owner.
    pub beside: bool,
}

macro_rules! rules {
    ($name:ident $beside:literal: $($module:ident: $($rule:ident),+;)+) => {
        const $name: &[Rule] = &[$($(
            Rule { name: stringify!($rule), check: $module::$rule, beside: $beside }
        ),+),+];
    };
}

rules! { OF_OWNERS false:
    commits:
        an_empty_environment_holds_nothing,
        a_delivery_is_inserted_updated_and_removed,
        every_field_of_a_delivery_comes_back,
        every_hold_comes_back_in_every_state,
        queues_and_counters_come_back,
        removing_a_queue_removes_its_counters,
        a_remembered_send_is_written_over_and_forgotten,
        a_remembered_call_comes_back_whatever_its_answer,
        keys_of_remembered_sends_are_compared_by_bytes,
        a_commit_that_does_not_fit_changes_nothing,
        a_commit_of_thousands_of_rows_is_whole,
        answers_come_in_the_order_asked_for,
        readers_see_whole_commits_while_others_are_made;
    contents:
        contents_come_back_byte_for_byte,
        contents_leave_with_their_delivery;
    chunks:
        chunks_come_back_byte_for_byte,
        whole_data_in_one_chunk_comes_back_whole,
        data_in_many_chunks_is_named_by_its_length,
        chunks_outlive_their_delivery,
        ranges_of_chunks_are_removed_exactly,
        chunks_that_do_not_fit_change_nothing,
        uploads_are_written_over_and_removed,
        uploads_are_scanned_in_order_of_their_sequence;
    copies:
        a_copy_has_the_content_byte_for_byte_and_outlives_its_source,
        a_copy_has_the_chunks_of_its_source,
        a_copy_is_made_before_its_source_leaves,
        one_message_is_copied_many_times_and_so_is_a_copy,
        chunks_of_a_copy_are_removed_without_those_of_its_source,
        a_copy_of_nothing_changes_nothing,
        a_copy_onto_something_changes_nothing;
    scans:
        ready_order_is_priority_then_class_then_time_then_sequence,
        ready_order_holds_at_the_extremes,
        due_order_is_kept_for_each_queue_and_state,
        due_and_expiry_orders_hold_at_the_extremes,
        expiry_order_spans_queues_and_states,
        remembered_sends_are_scanned_from_a_time_on,
        pages_behind_a_key_join_without_gap_or_repeat,
        pages_are_right_with_removals_in_front,
        nothing_of_a_time_lies_behind_its_last_sequence,
        the_end_is_exact,
        a_row_is_in_the_order_of_its_present_state_only;
    logs:
        segments_and_runs_come_back,
        segments_are_cleared_then_removed_then_written,
        runs_are_removed_then_written,
        removing_a_queue_removes_its_segments_and_runs,
        progress_is_read_by_cursor_and_message,
        progress_may_be_replaced_in_one_commit,
        progress_answers_come_in_the_order_asked_for,
        progress_is_in_the_orders_like_any_delivery,
        removing_progress_leaves_the_message;
    fencing:
        a_second_open_fences_the_first,
        a_wrong_commit_number_is_fenced,
        snapshots_name_the_last_commit,
        a_commit_that_happened_resolves_as_happened,
        a_commit_that_did_not_happen_is_lost_for_ever,
        a_deposed_owner_resolves_nothing;
    recovery:
        reopening_finds_everything,
        dropping_a_store_loses_nothing,
        a_first_open_is_new_and_a_second_a_restart,
        an_older_copy_is_a_restore,
        a_restore_is_not_forgotten_by_an_owner_that_never_commits,
        a_copy_put_back_at_once_still_works,
        a_restored_environment_restarts_afterwards,
        low_water_marks_are_the_last_that_were_written_or_none;
    catalogue:
        environments_do_not_see_each_other,
        an_environment_is_made_known_once,
        names_are_only_names,
        due_environments_come_in_order_and_only_closed_ones,
        an_environment_whose_owner_died_is_due_at_once,
        next_due_survives_a_restart;
    specs:
        every_field_of_a_queue_comes_back,
        every_role_comes_back,
        any_policy_comes_back;
    triggers:
        triggers_come_back_in_the_order_of_their_ids,
        triggers_are_removed_then_written,
        any_trigger_comes_back,
        a_secret_is_the_last_that_was_written;
    likeness:
        random_commits_read_as_from_memory;
}

rules! { BESIDE true:
    external:
        a_committed_send_comes_as_it_was_written,
        a_large_message_comes_as_it_was_written,
        what_is_rolled_back_never_comes,
        overlapping_transactions_are_all_seen,
        transactions_come_in_order_each_as_a_whole,
        a_page_has_all_of_each_transaction,
        pages_of_the_intake_are_its_front,
        what_was_taken_does_not_come_back,
        taking_what_is_not_there_is_corrupt,
        a_deposed_owner_takes_nothing,
        environments_have_intakes_of_their_own,
        nothing_is_sent_to_a_queue_that_is_not,
        a_restored_copy_brings_its_intake_back,
        whoever_watches_is_woken;
    claims:
        a_free_claim_is_final,
        a_claim_that_a_transaction_holds_is_free_when_that_rolls_back,
        a_settlement_that_is_committed_wins,
        a_lease_is_settled_once,
        only_a_lease_that_is_held_is_settled,
        other_commands_come_as_they_were_written,
        a_claim_on_a_lease_that_is_not_held_keeps_nothing,
        claims_are_answered_along_with_rows;
}

/// Every rule.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    OF_OWNERS.iter().chain(BESIDE)
}

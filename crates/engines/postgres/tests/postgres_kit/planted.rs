//! Faults planted in the fast paths themselves, by triggers that only their rows set off. The differential test must
//! notice each of them.

use super::differential::fresh_with;
use windlass_kit::model::difference_in;

/// Stories for each fault; the first or the second one finds it.
const CASES: u32 = 20;

/// Runs `body` for each row that a fast path writes for a completed job: only those carry a token.
fn on_fast_completion(when: &str, body: &str) -> String {
    format!(
        "CREATE FUNCTION {{s}}.plant() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;
        CREATE TRIGGER plant {when} INSERT ON {{s}}.finished FOR EACH ROW
            WHEN (NEW.token IS NOT NULL) EXECUTE FUNCTION {{s}}.plant()"
    )
}

/// The report of the differential test for a store in which this SQL was run.
fn said(sql: &str) -> String {
    difference_in(CASES, || fresh_with(sql)).expect("the differential test notices")
}

#[test]
fn a_field_treated_as_plain_is_noticed() {
    let said = said(
        "CREATE FUNCTION {s}.plant() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN NEW.flags := NEW.flags | 2; RETURN NEW; END $$;
        CREATE TRIGGER plant BEFORE INSERT ON {s}.ready FOR EACH ROW EXECUTE FUNCTION {s}.plant()",
    );
    assert!(said.contains("differ"), "{said}");
}

#[test]
#[ignore = "long: several stories"]
fn a_skipped_effect_is_noticed() {
    let said = said(&on_fast_completion("BEFORE", "RETURN NULL;"));
    assert!(said.contains("Completed"), "{said}");
}

#[test]
#[ignore = "long: several stories"]
fn a_wrong_count_is_noticed() {
    let said = said(&on_fast_completion(
        "AFTER",
        "INSERT INTO {s}.tally (lane, running) VALUES (NEW.lane, 1); RETURN NULL;",
    ));
    assert!(said.contains("lane "), "{said}");
}

#[test]
#[ignore = "long: several stories"]
fn a_lost_key_is_noticed() {
    let said = said(&on_fast_completion(
        "AFTER",
        "DELETE FROM {s}.unique_key; DELETE FROM {s}.key_holder; RETURN NULL;",
    ));
    assert!(said.contains("key"), "{said}");
}

#[test]
#[ignore = "long: several stories"]
fn a_missing_history_entry_is_noticed() {
    let said = said(&on_fast_completion("BEFORE", "NEW.token := NULL; RETURN NEW;"));
    assert!(said.contains("is completed, but its end says otherwise"), "{said}");
}

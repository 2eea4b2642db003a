//! `#[derive(Job)]`: what the attributes mean. What it refuses is tested in `crates/macros`.

use serde::{Deserialize, Serialize};
use windlass::limits;
use windlass::policy::Retention;
use windlass::{Backoff, Job, NewJob, OnConflict, Timestamp, Unique, UniqueScope, Until};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

fn accepted(job: &NewJob) {
    let checked = job.check(Timestamp::EPOCH, limits::PAYLOAD_BYTES_DEFAULT);
    checked.expect("what the macro takes, the contract takes");
}

#[test]
fn without_attributes_the_kind_is_the_types_name_and_the_rest_the_default() {
    #[derive(Job, Serialize, Deserialize)]
    struct HTTPCallBack;

    assert_eq!(HTTPCallBack::KIND, "http_call_back");
    assert_eq!(HTTPCallBack::template(), NewJob::new("http_call_back"));
}

#[test]
fn every_attribute_is_in_the_template() {
    #[derive(Job, Serialize, Deserialize)]
    #[job(kind = "mail.send/v2", queue = "mail", priority = -5, max_attempts = 3, max_crashes = 1)]
    #[job(timeout = "30s", max_wait = "1h30m", backoff = "exponential(10s, 1h, jitter 2s)")]
    #[job(retention(finished = "1h", dead = "2d"))]
    struct SendEmail {
        to: String,
    }

    let job = SendEmail::template();
    accepted(&job);
    assert_eq!((&*job.kind, &*job.queue, job.priority), ("mail.send/v2", "mail", -5));
    let policy = job.policy;
    assert_eq!((policy.max_attempts, policy.max_crashes), (3, 1));
    assert_eq!((policy.timeout_ms, policy.max_wait_ms), (Some(30_000), Some(5_400_000)));
    let backoff = Backoff::Exponential { base_ms: 10_000, cap_ms: 3_600_000, jitter_ms: 2_000 };
    assert_eq!(policy.backoff, backoff);
    let defaults = Retention::default();
    let retention = {
        let hour = std::time::Duration::from_secs(3_600);
        defaults.with_finished(hour).with_dead(48 * hour)
    };
    assert_eq!(policy.retention, Some(retention));
}

#[test]
fn enums_and_short_forms_work_too() {
    #[derive(Job, Serialize, Deserialize)]
    #[job(backoff = "fixed(1s)", retention = "7d")]
    enum Notify {
        Mail { to: String },
        Call(String),
    }

    let policy = Notify::template().policy;
    assert_eq!(policy.backoff, windlass::backoff::fixed(std::time::Duration::from_secs(1)));
    assert_eq!(policy.retention, Some(Retention::uniform_ms(7 * DAY_MS)));
}

mod under_another_name {
    pub(crate) use ::windlass as jobs;
}

#[test]
fn the_crate_can_have_another_name() {
    #[derive(Job, Serialize, Deserialize)]
    #[job(crate = "under_another_name::jobs", timeout = "1s")]
    struct Renamed;

    assert_eq!(Renamed::template().policy.timeout_ms, Some(1_000));
}

/// The macro repeats the limits of the contract; here it is at each of them, and the files in
/// `crates/macros/tests/ui/fail` are one beyond.
#[test]
fn the_limits_of_the_macro_equal_those_of_the_contract() {
    #[derive(Job, Serialize, Deserialize)]
    #[job(max_attempts = 1_000_000, max_crashes = 1_000_000, timeout = "7d", max_wait = "3653d")]
    #[job(backoff = "exponential(365d, 365d, jitter 365d)", retention = "3653d")]
    struct Extreme;

    let job = Extreme::template();
    accepted(&job);
    assert_eq!(job.policy.max_attempts, limits::MAX_ATTEMPTS_MAX);
    assert_eq!(job.policy.max_crashes, limits::MAX_CRASHES_MAX);
    assert_eq!(job.policy.timeout_ms, Some(limits::TIMEOUT_MAX_MS));
    assert_eq!(job.policy.max_wait_ms, Some(limits::AGE_MAX_MS));
    assert_eq!(job.policy.retention, Some(Retention::uniform_ms(limits::AGE_MAX_MS)));
    let most = limits::BACKOFF_MAX_MS;
    let backoff = Backoff::Exponential { base_ms: most, cap_ms: most, jitter_ms: most };
    assert_eq!(job.policy.backoff, backoff);
}

#[test]
fn without_jitter_the_macro_and_the_function_choose_the_same() {
    #[derive(Job, Serialize, Deserialize)]
    #[job(backoff = "exponential(30s, 1h)")]
    struct Usual;

    assert_eq!(Usual::template().policy.backoff, Backoff::default());
}

/// Names that the macro takes, one type each, so that the compiler is asked.
macro_rules! names {
    ($($name:literal)*) => {
        [$({
            #[derive(Job, Serialize, Deserialize)]
            #[job(kind = $name)]
            struct Named;
            Named::KIND
        }),*]
    };
}

#[test]
fn names_the_macro_takes_are_names_the_contract_takes() {
    let names = names!("mail" "a" "Billing.Invoice/v2" "x:y@z-1" "_internal" "9"
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456_"
    );
    assert_eq!(names[6].len(), limits::NAME_BYTES_MAX);
    for name in names {
        windlass_core::check_name("kind", name).unwrap();
    }
}

/// The names in `bad_names.rs`, which the macro refuses.
#[test]
fn names_the_macro_refuses_are_names_the_contract_refuses() {
    let source = include_str!("../../macros/tests/ui/fail/bad_names.rs");
    let names: Vec<&str> = source
        .lines()
        .filter_map(|line| line.strip_prefix("#[job(kind = \"")?.strip_suffix("\")]"))
        .collect();
    assert_eq!(names.len(), 5, "{names:?}");
    for name in names {
        windlass_core::check_name("kind", name).unwrap_err();
    }
}

#[test]
fn the_output_type_is_the_one_that_is_named_or_nothing() {
    #[derive(Job, Serialize, Deserialize)]
    #[job(output = Vec<(u32, String)>)]
    struct Named;
    #[derive(Job, Serialize, Deserialize)]
    struct Unnamed;

    fn output_of<J: Job<Output = T>, T>() {}
    output_of::<Named, Vec<(u32, String)>>();
    output_of::<Unnamed, ()>();
}

fn rule(job: &impl Job) -> Option<Unique> {
    job.unique_rule().expect("every field can be written as JSON")
}

#[test]
fn unique_over_all_fields_gives_equal_payloads_one_key_and_different_ones_another() {
    #[derive(Job, Serialize, Deserialize)]
    #[job(unique)]
    struct Report {
        account: u32,
        month: String,
    }
    let report = |account, month: &str| Report { account, month: month.into() };
    assert_eq!(rule(&report(7, "2027-01")), rule(&report(7, "2027-01")));
    assert_ne!(rule(&report(7, "2027-01")), rule(&report(7, "2027-02")));
    // printf 'report\n{"account":7,"month":"2027-01"}' | sha256sum | cut -c1-32
    let key = "fields:1ef0d2c058fb26cc908403c6487f1c6f";
    assert_eq!(rule(&report(7, "2027-01")), Some(Unique::by(key)));
}

#[test]
fn unique_over_some_fields_ignores_the_others_and_the_order_of_all() {
    #[derive(Job, Serialize, Deserialize)]
    #[job(kind = "report", unique(by(account, month), period = "1h", scope = "queue"))]
    struct Report {
        account: u32,
        month: String,
        requested_by: String,
    }
    #[derive(Job, Serialize, Deserialize)]
    #[job(kind = "report", unique(period = "1h", by(month, account,), scope = "queue"))]
    struct Reordered {
        requested_by: String,
        month: String,
        account: u32,
    }
    #[derive(Job, Serialize, Deserialize)]
    #[job(unique(by(1), on_conflict = "replace"))]
    struct Pair(u32, u32);

    let (account, month) = (7, "2027-01".to_owned());
    let one = Report { account, month: month.clone(), requested_by: "ada".into() };
    let other = Reordered { account, month, requested_by: "alan".into() };
    assert_eq!(rule(&one), rule(&other));
    let expected = Unique::by("fields:1ef0d2c058fb26cc908403c6487f1c6f")
        .until(Until::window_ms(3_600_000))
        .scope(UniqueScope::Queue);
    assert_eq!(rule(&one), Some(expected));
    assert_eq!(rule(&Pair(1, 5)), rule(&Pair(2, 5)));
    assert_eq!(rule(&Pair(1, 5)).map(|rule| rule.on_conflict), Some(OnConflict::Replace));
}

#[test]
fn a_field_counts_by_its_own_name_whatever_serde_calls_it() {
    #[derive(Job, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[job(kind = "a", unique(by(account_id)))]
    struct Renamed {
        account_id: u32,
    }
    #[derive(Job, Serialize, Deserialize)]
    #[job(kind = "a", unique(by(account_id)))]
    struct Plain {
        account_id: u32,
    }
    assert_eq!(rule(&Renamed { account_id: 1 }), rule(&Plain { account_id: 1 }));
}

#[test]
fn a_key_can_be_held_until_the_job_is_removed_and_across_queues() {
    #[derive(Job, Serialize, Deserialize)]
    #[job(unique(until = "removed", scope = "kind"))]
    struct Import {
        file: String,
    }
    let rule = rule(&Import { file: "a".into() }).expect("it is unique");
    assert_eq!((rule.until, rule.scope), (Until::Removed, UniqueScope::Kind));
    rule.check().expect("the contract takes it");
}

#[test]
fn enums_can_be_unique_as_a_whole() {
    #[derive(Job, Serialize, Deserialize)]
    #[job(unique(on_conflict = "throttle", period = "1d"))]
    enum Notify {
        Mail { to: String },
        Call(String),
    }
    let mail = Notify::Mail { to: "ada".into() };
    assert_ne!(rule(&mail), rule(&Notify::Call("ada".into())));
    rule(&mail).expect("it is unique").check().expect("the contract takes it");
}

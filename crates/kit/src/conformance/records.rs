//! Records and logs: small documents that services share.

use crate::rig::{Rig, assert_code, assert_refused};
use bytes::Bytes;
use windlass_core::engine::{Expect, LogEntry, Record, RecordOp, RecordReply};
use windlass_core::limits::RECORD_BYTES_MAX;
use windlass_core::time::MINUTE_MS;
use windlass_core::{Error, Result};

pub(super) async fn a_record_reads_back_as_it_was_written(rig: Rig) {
    assert_eq!(get(&rig, "a").await, None, "the record does not exist yet");
    let earliest = rig.now().await;
    let values = [Bytes::new(), (0..=255).collect(), vec![b'x'; RECORD_BYTES_MAX].into()];
    for value in values {
        let version = put(&rig, "a", value.clone(), Expect::Any).await.expect("put");
        let record = get(&rig, "a").await.expect("the record");
        assert_eq!((&*record.key, record.version), ("a", version));
        assert!(record.value == value, "all bytes are returned");
        assert!(record.updated_at >= earliest, "{}", record.updated_at);
    }
}

pub(super) async fn each_write_has_a_higher_version_and_its_time(rig: Rig) {
    let first = put(&rig, "a", "1", Expect::Any).await.expect("put");
    assert_ne!(first, 0, "version 0 means absent");
    let written = get(&rig, "a").await.expect("the record").updated_at;
    rig.advance(MINUTE_MS);
    let second = put(&rig, "a", "1", Expect::Any).await.expect("put");
    assert!(second > first, "writing the same content again increases the version");
    assert!(get(&rig, "a").await.expect("the record").updated_at >= written.plus(MINUTE_MS));
}

pub(super) async fn a_version_is_never_seen_again_for_another_content(rig: Rig) {
    let first = put(&rig, "a", "1", Expect::Any).await.expect("put");
    for _ in 0..2 {
        assert_eq!(delete(&rig, "a", Expect::Any).await, Ok(true));
        assert_eq!(get(&rig, "a").await, None);
        let again = put(&rig, "a", "2", Expect::Absent).await.expect("put");
        assert!(again > first, "{again} after {first}");
    }
    let stale = put(&rig, "a", "3", Expect::Version(first)).await;
    assert_code(stale, "version_conflict");
}

pub(super) async fn a_write_that_expects_no_record_is_refused_if_there_is_one(rig: Rig) {
    let version = put(&rig, "a", "1", Expect::Absent).await.expect("put");
    let refused = put(&rig, "a", "2", Expect::Absent).await;
    let conflict = Error::VersionConflict { key: "a".into(), expected: 0, found: version };
    assert_eq!(refused, Err(conflict));
    assert_eq!(get(&rig, "a").await.expect("the record").value, "1");
}

pub(super) async fn a_write_that_expects_a_version_is_refused_at_any_other(rig: Rig) {
    let first = put(&rig, "a", "1", Expect::Any).await.expect("put");
    let second = put(&rig, "a", "2", Expect::Version(first)).await.expect("put");
    let refused = put(&rig, "a", "3", Expect::Version(first)).await;
    let conflict = Error::VersionConflict { key: "a".into(), expected: first, found: second };
    assert_eq!(refused, Err(conflict));
    assert_eq!(get(&rig, "a").await.expect("the record").value, "2");
    let absent = put(&rig, "b", "1", Expect::Version(7)).await;
    let conflict = Error::VersionConflict { key: "b".into(), expected: 7, found: 0 };
    assert_eq!(absent, Err(conflict));
    assert_eq!(get(&rig, "b").await, None);
}

pub(super) async fn a_delete_keeps_to_what_it_expects_too(rig: Rig) {
    assert_eq!(delete(&rig, "a", Expect::Any).await, Ok(false), "the record did not exist");
    let first = put(&rig, "a", "1", Expect::Any).await.expect("put");
    let second = put(&rig, "a", "2", Expect::Any).await.expect("put");
    assert_code(delete(&rig, "a", Expect::Version(first)).await, "version_conflict");
    assert_code(delete(&rig, "a", Expect::Absent).await, "version_conflict");
    assert!(get(&rig, "a").await.is_some());
    assert_eq!(delete(&rig, "a", Expect::Version(second)).await, Ok(true));
    assert_code(delete(&rig, "a", Expect::Version(second)).await, "version_conflict");
    assert_eq!(get(&rig, "a").await, None);
}

pub(super) async fn of_many_writers_that_expect_the_same_one_wins(rig: Rig) {
    let mut expect = Expect::Absent;
    for round in 0..5 {
        let tasks: Vec<_> = (0..10)
            .map(|n: u8| {
                let rig = rig.clone();
                tokio::spawn(async move { (n, put(&rig, "a", vec![n], expect).await) })
            })
            .collect();
        let mut winners = Vec::new();
        for task in tasks {
            let (n, written) = task.await.expect("no panic");
            match written {
                Ok(version) => winners.push((n, version)),
                Err(error) => assert_eq!(error.code(), "version_conflict"),
            }
        }
        let [(n, version)] = winners[..] else { panic!("round {round}: {winners:?}") };
        let record = get(&rig, "a").await.expect("the record");
        assert_eq!((record.version, &record.value[..]), (version, &[n][..]));
        expect = Expect::Version(version);
    }
}

pub(super) async fn operations_of_a_batch_are_done_in_order_and_fail_alone(rig: Rig) {
    let key = || "a".to_owned();
    let write = |value: &'static str, expect| RecordOp::Put {
        key: key(),
        value: Bytes::from_static(value.as_bytes()),
        expect,
    };
    let batch = vec![
        write("1", Expect::Absent),
        write("2", Expect::Absent),
        RecordOp::Get { key: "bad key".into() },
        RecordOp::Get { key: key() },
        RecordOp::Delete { key: key(), expect: Expect::Any },
        RecordOp::Get { key: key() },
    ];
    let replies = rig.engine().records(batch).await.expect("records").value;
    let [written, conflict, bad, read, deleted, gone] = replies.try_into().expect("6 answers");
    assert!(matches!(written, Ok(RecordReply::Written { .. })), "{written:?}");
    assert_code(conflict, "version_conflict");
    assert_refused(bad, "invalid", "key");
    assert!(
        matches!(&read, Ok(RecordReply::Record(Some(found))) if found.value == "1"),
        "{read:?}"
    );
    assert_eq!(deleted, Ok(RecordReply::Deleted(true)));
    assert_eq!(gone, Ok(RecordReply::Record(None)));
}

pub(super) async fn records_are_listed_by_prefix_in_order_of_name(rig: Rig) {
    for key in ["job/b", "job/a", "job", "job/a/1", "jobs", "key", "job_x", "jobsx", "JOB/a"] {
        put(&rig, key, key.to_owned(), Expect::Any).await.expect("put");
    }
    let names = async |prefix| {
        let records = list(&rig, prefix, 100).await;
        records.into_iter().map(|record| record.key).collect::<Vec<_>>()
    };
    assert_eq!(names("job/").await, ["job/a", "job/a/1", "job/b"]);
    assert_eq!(names("job_").await, ["job_x"], "prefixes have no wildcards");
    assert_eq!(names("jobs").await, ["jobs", "jobsx"]);
    assert_eq!(names("none").await, Vec::<String>::new());
    let mut all = names("").await;
    assert_eq!(all.len(), 9, "an empty prefix matches all records");
    assert!(all.is_sorted(), "keys are ordered by bytes: {all:?}");
    all.dedup();
    assert_eq!(all.len(), 9);
}

pub(super) async fn pages_of_records_cover_each_once(rig: Rig) {
    for n in 0..25 {
        put(&rig, &format!("a/{n:02}"), n.to_string(), Expect::Any).await.expect("put");
        put(&rig, &format!("b/{n:02}"), n.to_string(), Expect::Any).await.expect("put");
    }
    for limit in [1, 7, 25, 100] {
        let records = list(&rig, "a/", limit).await;
        let values: Vec<_> = records.iter().map(|record| record.value.clone()).collect();
        let expected: Vec<_> = (0..25).map(|n| n.to_string()).collect();
        assert_eq!(values, expected, "in pages of {limit}");
        assert!(records.iter().all(|record| record.version > 0));
    }
}

pub(super) async fn a_log_numbers_its_entries_from_one_without_gaps(rig: Rig) {
    assert!(read(&rig, "log", 10).await.is_empty(), "a log without entries is empty");
    assert_eq!(append(&rig, "log", &["a", "b"], 100).await, 2);
    assert_eq!(append(&rig, "log", &["c"], 100).await, 3);
    assert_eq!(append(&rig, "other", &["x"], 100).await, 1, "each log has its own numbers");
    let entries = read(&rig, "log", 10).await;
    let reported: Vec<_> = entries.iter().map(|entry| (entry.number, &entry.value[..])).collect();
    assert_eq!(reported, [(1, &b"a"[..]), (2, b"b"), (3, b"c")]);
    assert!(entries.iter().all(|entry| entry.at >= crate::START), "{entries:?}");
}

pub(super) async fn a_log_keeps_its_latest_entries_and_their_numbers(rig: Rig) {
    append(&rig, "log", &["1", "2", "3"], 2).await;
    assert_eq!(numbers(&rig, "log").await, [2, 3]);
    append(&rig, "log", &["4"], 5).await;
    assert_eq!(numbers(&rig, "log").await, [2, 3, 4], "dropped entries do not return");
    assert_eq!(append(&rig, "log", &["5", "6", "7", "8", "9"], 3).await, 9);
    let entries = read(&rig, "log", 10).await;
    let reported: Vec<_> = entries.iter().map(|entry| (entry.number, &entry.value[..])).collect();
    assert_eq!(reported, [(7, &b"7"[..]), (8, b"8"), (9, b"9")]);
}

pub(super) async fn pages_of_a_log_cover_each_entry_once(rig: Rig) {
    let values: Vec<String> = (1..=50).map(|n| n.to_string()).collect();
    let values: Vec<&str> = values.iter().map(|value| &**value).collect();
    append(&rig, "log", &values, 1_000).await;
    for limit in [1, 7, 50, 100] {
        let entries = read(&rig, "log", limit).await;
        let reported: Vec<_> = entries.iter().map(|entry| entry.number).collect();
        assert_eq!(reported, (1..=50).collect::<Vec<u64>>(), "in pages of {limit}");
    }
}

pub(super) async fn a_slow_reader_of_a_log_sees_the_gap_and_goes_on(rig: Rig) {
    append(&rig, "log", &["1", "2", "3", "4"], 10).await;
    let first = read_after(&rig, "log", 0, 2).await;
    assert_eq!(first.iter().map(|entry| entry.number).collect::<Vec<_>>(), [1, 2]);
    append(&rig, "log", &["5", "6", "7"], 3).await;
    let rest = read_after(&rig, "log", 2, 10).await;
    let numbers: Vec<_> = rest.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [5, 6, 7], "3 and 4 were dropped");
    assert!(read_after(&rig, "log", 7, 10).await.is_empty(), "there are no more entries");
    append(&rig, "log", &["8"], 3).await;
    let tail = read_after(&rig, "log", 7, 10).await;
    assert_eq!(tail.iter().map(|entry| entry.number).collect::<Vec<_>>(), [8]);
}

pub(super) async fn a_record_and_a_log_of_one_name_are_apart(rig: Rig) {
    put(&rig, "a", "record", Expect::Absent).await.expect("put");
    append(&rig, "a", &["entry"], 10).await;
    assert_eq!(get(&rig, "a").await.expect("the record").value, "record");
    assert_eq!(numbers(&rig, "a").await, [1]);
    assert_eq!(list(&rig, "", 10).await.len(), 1, "logs are not listed as records");
}

async fn get(rig: &Rig, key: &str) -> Option<Record> {
    match rig.record(RecordOp::Get { key: key.into() }).await.expect("get") {
        RecordReply::Record(record) => record,
        other => panic!("not an answer to get: {other:?}"),
    }
}

async fn put(rig: &Rig, key: &str, value: impl Into<Bytes>, expect: Expect) -> Result<u64> {
    let op = RecordOp::Put { key: key.into(), value: value.into(), expect };
    match rig.record(op).await? {
        RecordReply::Written { version } => Ok(version),
        other => panic!("not an answer to put: {other:?}"),
    }
}

async fn delete(rig: &Rig, key: &str, expect: Expect) -> Result<bool> {
    match rig.record(RecordOp::Delete { key: key.into(), expect }).await? {
        RecordReply::Deleted(was_there) => Ok(was_there),
        other => panic!("not an answer to delete: {other:?}"),
    }
}

async fn list(rig: &Rig, prefix: &str, limit: u32) -> Vec<Record> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let reply = rig.record(RecordOp::List { prefix: prefix.into(), after, limit }).await;
        let RecordReply::Records(page) = reply.expect("list") else { panic!("not a list") };
        assert!(
            page.rows.len() <= limit as usize && rows.len() < 1_000,
            "the listing does not end"
        );
        rows.extend(page.rows);
        after = page.next;
        if after.is_none() {
            return rows;
        }
    }
}

async fn append(rig: &Rig, log: &str, entries: &[&str], keep: u32) -> u64 {
    let entries = entries.iter().map(|entry| Bytes::copy_from_slice(entry.as_bytes())).collect();
    let op = RecordOp::Append { log: log.into(), entries, keep };
    match rig.record(op).await.expect("append") {
        RecordReply::Appended { last } => last,
        other => panic!("not an answer to append: {other:?}"),
    }
}

async fn read_after(rig: &Rig, log: &str, after: u64, limit: u32) -> Vec<LogEntry> {
    let reply = rig.record(RecordOp::Read { log: log.into(), after, limit }).await;
    let RecordReply::Entries(entries) = reply.expect("read") else { panic!("not entries") };
    assert!(entries.len() <= limit as usize);
    entries
}

async fn read(rig: &Rig, log: &str, limit: u32) -> Vec<LogEntry> {
    let mut rows: Vec<LogEntry> = Vec::new();
    loop {
        let after = rows.last().map_or(0, |entry| entry.number);
        let page = read_after(rig, log, after, limit).await;
        let over = page.len() < limit as usize;
        rows.extend(page);
        assert!(rows.len() < 1_000, "the listing does not end");
        if over {
            return rows;
        }
    }
}

async fn numbers(rig: &Rig, log: &str) -> Vec<u64> {
    read(rig, log, 10).await.iter().map(|entry| entry.number).collect()
}

//! Finding jobs by fields of their JSON, by text, by the start of their id and by windows of time.

use crate::conformance::search::{found, pages};
use crate::rig::{KIND, QUEUE, Rig, assert_refused};
use windlass_core::Timestamp;
use windlass_core::engine::{Change, Edits, Filter, List, ListOrder, Outcome, UpdateItem};
use windlass_core::limits::{
    FIELD_VALUE_BYTES_MAX, FILTER_FIELDS_MAX, LIST_EXAMINED_BYTES_MAX, LIST_EXAMINED_MAX,
    SEARCH_TEXT_BYTES_MAX,
};
use windlass_core::model::{Codec, Due, Envelope, NewJob, Part, PartEdit, PartEdits, State};
use windlass_core::time::{HOUR_MS, MINUTE_MS, SECOND_MS};

fn has(field: &str, value: &str) -> Filter {
    Filter::default().field(field.parse().expect("a field"), value)
}

fn with_metadata(mut job: NewJob, json: &'static str) -> NewJob {
    job.parts.metadata = Some(Part::new(json));
    job
}

pub(super) async fn jobs_are_found_by_fields_of_their_payload(rig: Rig) {
    let number = rig.enqueue(Rig::job().json(r#"{"customer": 42, "vip": true}"#)).await;
    let text = rig.enqueue(Rig::job().json(r#"{"customer": "42", "note": "q\"\u00e9"}"#)).await;
    let deep = rig.enqueue(Rig::job().json(r#"{"order": {"items": [{"sku": "a-1"}]}}"#)).await;
    rig.enqueue(Rig::job().json(r#"{"customer": 421}"#)).await;
    rig.enqueue(Rig::job().json("not JSON {\"customer\": 42}")).await;
    rig.enqueue(Rig::job()).await;
    assert_eq!(found(&rig, has("payload.customer", "42")).await, [number, text]);
    assert_eq!(found(&rig, has("payload.vip", "true")).await, [number]);
    assert_eq!(found(&rig, has("payload.note", "q\"é")).await, [text]);
    assert_eq!(found(&rig, has("payload.order.items.0.sku", "a-1")).await, [deep]);
    let both = has("payload.customer", "42").field("payload.vip".parse().expect("field"), "true");
    assert_eq!(found(&rig, both).await, [number], "all fields must match");
    let none = [("payload.customer", "4"), ("payload.order", "{}"), ("metadata.customer", "42")];
    for (field, value) in none {
        assert_eq!(found(&rig, has(field, value)).await, [], "{field}={value}");
    }
}

pub(super) async fn jobs_are_found_by_fields_of_their_metadata(rig: Rig) {
    let mine = rig.enqueue(with_metadata(Rig::job(), r#"{"source": "import 7"}"#)).await;
    rig.enqueue(with_metadata(Rig::job(), r#"{"source": "import 8"}"#)).await;
    rig.enqueue(Rig::job().json(r#"{"source": "import 7"}"#)).await;
    assert_eq!(found(&rig, has("metadata.source", "import 7")).await, [mine]);
    let payload = r#"{"customer": 1}"#;
    let both = rig.enqueue(with_metadata(Rig::job().json(payload), r#"{"source": "x"}"#)).await;
    let filter = has("metadata.source", "x").field("payload.customer".parse().expect("field"), "1");
    assert_eq!(found(&rig, filter).await, [both]);
}

pub(super) async fn a_field_is_found_in_every_state_and_as_it_was_edited_last(rig: Rig) {
    let job = || Rig::job().json(r#"{"customer": 42}"#);
    let filter = || has("payload.customer", "42");
    let session = rig.long_session().await;
    let done = rig.enqueue(job()).await;
    let claimed = rig.take_one(&session).await;
    rig.settle(&claimed, Outcome::DONE).await;
    let dead = rig.dead(job()).await;
    let running = rig.enqueue(job()).await;
    let claimed = rig.take_one(&session).await;
    let later = rig.enqueue(job().due(Due::After(HOUR_MS))).await;
    let waiting = rig.enqueue(job()).await;
    let all = [done, dead, running, later, waiting];
    assert_eq!(found(&rig, filter()).await, all);
    for (state, id) in [
        (State::Completed, done),
        (State::Dead, dead),
        (State::Running, running),
        (State::Scheduled, later),
        (State::Available, waiting),
    ] {
        let mut filter = filter();
        filter.state = Some(state);
        assert_eq!(found(&rig, filter.clone()).await, [id], "{state}");
        assert_eq!(found(&rig, filter.queue(QUEUE).kind(KIND)).await, [id], "{state} by lane");
        let mut other = has("payload.customer", "43");
        other.state = Some(state);
        assert_eq!(found(&rig, other).await, [], "{state}");
    }
    let mut edits = PartEdits::KEEP;
    edits.payload = PartEdit::Set(Part::new(r#"{"customer": 43}"#));
    let mut item = UpdateItem::new(running, claimed.lease);
    item.parts = edits;
    rig.update(item).await.expect("updated");
    let mut edits = Edits::default();
    edits.payload = PartEdit::Unset;
    rig.change(dead, Change::Replay(Box::new(edits))).await;
    assert_eq!(found(&rig, filter()).await, [done, later, waiting], "not by earlier payloads");
    assert_eq!(found(&rig, has("payload.customer", "43")).await, [running]);
}

pub(super) async fn text_is_found_in_payloads_and_errors_in_either_case(rig: Rig) {
    let payload = rig.enqueue(Rig::job().json(r#"{"url": "https://Example.org/a"}"#)).await;
    let session = rig.long_session().await;
    let mut ends = Vec::new();
    for (code, message) in [("smtp_451", "Mailbox busy"), ("timeout", "after 30 s\nexample.ORG")] {
        let id = rig.enqueue(Rig::job().priority(-1)).await;
        let job = rig.take_one(&session).await;
        rig.settle(&job, Outcome::fail(code, message)).await;
        ends.push(id);
    }
    rig.enqueue(with_metadata(Rig::job(), r#"{"url": "example.org"}"#)).await;
    let text = |text: &str| Filter::default().text(text);
    assert_eq!(found(&rig, text("EXAMPLE.org")).await, [payload, ends[1]]);
    assert_eq!(found(&rig, text("mailbox")).await, [ends[0]]);
    assert_eq!(found(&rig, text("SMTP_4")).await, [ends[0]], "the code is part of an error");
    let mut dead = text("example.org");
    dead.state = Some(State::Dead);
    assert_eq!(found(&rig, dead).await, [ends[1]]);
    assert_eq!(found(&rig, text("mailbox full")).await, []);
}

pub(super) async fn encoded_parts_are_not_searched(rig: Rig) {
    let mut job = Rig::job();
    let envelope = Envelope::PLAIN.with_codec(Codec::Zstd);
    job.parts.payload = Some(Part::sealed(envelope, r#"{"customer": 42}"#));
    rig.enqueue(job).await;
    assert_eq!(found(&rig, has("payload.customer", "42")).await, []);
    assert_eq!(found(&rig, Filter::default().text("customer")).await, []);
}

pub(super) async fn jobs_are_found_by_the_start_of_their_id(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    rig.advance(HOUR_MS);
    let id = rig.enqueue_one().await;
    let elsewhere = rig.enqueue(Rig::job().queue("other").due(Due::After(HOUR_MS))).await;
    rig.advance(HOUR_MS);
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    let starts = |text: &str| Filter::default().id(text.parse().expect("the start of an id"));
    let whole = id.to_string();
    assert_eq!(found(&rig, starts(&whole)).await, [id]);
    assert_eq!(found(&rig, starts(&whole.to_uppercase().replace('-', ""))).await, [id]);
    assert_eq!(found(&rig, starts(&whole).queue("other")).await, []);
    let common: String = {
        let pairs = whole.chars().zip(elsewhere.to_string().chars().collect::<Vec<_>>());
        pairs.take_while(|(one, other)| one == other).map(|(one, _)| one).collect()
    };
    assert_eq!(found(&rig, starts(&common)).await, [id, elsewhere]);
    for (state, expected) in [(State::Available, id), (State::Scheduled, elsewhere)] {
        let mut filter = starts(&common);
        filter.state = Some(state);
        assert_eq!(found(&rig, filter).await, [expected], "{state}");
    }
    let page = rig.engine().list(List::new(starts(&whole))).await.expect("list").value;
    assert!(page.examined <= 2, "{} jobs examined for one id", page.examined);
}

pub(super) async fn jobs_are_found_by_when_they_are_due(rig: Rig) {
    let now = rig.now().await;
    let mut ids = Vec::new();
    for minutes in [1, 2, 3, 4] {
        let due = Due::At(now.plus(minutes * HOUR_MS));
        ids.push(rig.enqueue(Rig::job().due(due)).await);
    }
    let at = |hours: u64| now.plus(hours * HOUR_MS);
    for state in [None, Some(State::Scheduled)] {
        let due = |from: Option<Timestamp>, until: Option<Timestamp>| {
            let mut filter = Filter::default();
            (filter.state, filter.due_from, filter.due_until) = (state, from, until);
            filter
        };
        assert_eq!(found(&rig, due(Some(at(3)), None)).await, ids[2..], "{state:?} from");
        assert_eq!(found(&rig, due(None, Some(at(3)))).await, ids[..2], "{state:?} until");
        assert_eq!(found(&rig, due(Some(at(2)), Some(at(4)))).await, ids[1..3], "{state:?}");
        let never = due(Some(at(2).plus(1)), Some(at(3)));
        assert_eq!(found(&rig, never).await, [], "{state:?}");
    }
}

pub(super) async fn jobs_are_found_by_when_they_ended(rig: Rig) {
    let (mut ids, mut times) = (Vec::new(), Vec::new());
    let waiting = rig.enqueue(Rig::job().due(Due::After(24 * HOUR_MS))).await;
    for _ in 0..4 {
        let id = rig.dead(Rig::job()).await;
        ids.push(id);
        times.push(rig.get(id).await.finished_at.expect("ended"));
        rig.advance(MINUTE_MS);
    }
    for state in [None, Some(State::Dead)] {
        let ended = |from: Option<Timestamp>, until: Option<Timestamp>| {
            let mut filter = Filter::default().queue(QUEUE);
            (filter.state, filter.ended_from, filter.ended_until) = (state, from, until);
            filter
        };
        let from = ended(Some(times[2]), None);
        assert_eq!(found(&rig, from).await, ids[2..], "{state:?}: including the start");
        let until = ended(None, Some(times[2]));
        assert_eq!(found(&rig, until).await, ids[..2], "{state:?}: excluding the end");
        let window = ended(Some(times[1]), Some(times[3]));
        assert_eq!(found(&rig, window).await, ids[1..3], "{state:?}");
        let rest = ended(Some(times[3].plus(1)), None);
        assert_eq!(found(&rig, rest).await, [], "{state:?}: job {waiting} has not ended");
    }
    let mut filter = Filter::state(State::Dead).ended_from(times[1]).ended_until(times[2]);
    let page = rig.engine().list(List::new(filter.clone())).await.expect("list").value;
    assert!(page.examined <= 2, "a list by end starts at the window: {} read", page.examined);
    filter.state = Some(State::Completed);
    assert_eq!(found(&rig, filter).await, []);
}

pub(super) async fn a_rare_field_is_found_page_by_page_in_bounded_steps(rig: Rig) {
    let job = |customer: usize| Rig::job().json(format!(r#"{{"customer": {customer}}}"#));
    let rare = rig.enqueue(job(7)).await;
    rig.advance(MINUTE_MS);
    for half in 0..2 {
        let jobs = (0..LIST_EXAMINED_MAX / 2).map(|n| job(1_000 + n + half));
        rig.enqueue_all(jobs).await;
    }
    rig.advance(MINUTE_MS);
    let newest = rig.enqueue(job(7)).await;
    let list = List::new(has("payload.customer", "7")).limit(10);
    let first = rig.engine().list(list.clone()).await.expect("list").value;
    let ids: Vec<_> = first.rows.iter().map(|job| job.header.id).collect();
    assert_eq!((ids, first.cut_short), (vec![newest], true));
    assert_eq!(first.examined, LIST_EXAMINED_MAX as u64);
    assert!(first.rows[0].parts.payload.is_none(), "pages have no parts");
    let rest = rig.engine().list(list.after(first.next)).await.expect("list").value;
    let ids: Vec<_> = rest.rows.iter().map(|job| job.header.id).collect();
    assert_eq!((ids, rest.next, rest.cut_short), (vec![rare], None, false));
    let filter = has("payload.customer", "7").queue(QUEUE);
    assert_eq!(pages(&rig, &filter, ListOrder::Oldest, 1).await, [rare, newest]);
}

pub(super) async fn the_bytes_that_a_page_reads_are_bounded(rig: Rig) {
    let limit = rig.engine().capabilities().payload_bytes_max;
    let many = 2 * LIST_EXAMINED_BYTES_MAX / limit;
    if many > 2 * LIST_EXAMINED_MAX {
        return;
    }
    let filler = "x".repeat(limit - 100);
    let job = |n: usize| Rig::job().json(format!(r#"{{"n": {n}, "filler": "{filler}"}}"#));
    let first = rig.enqueue(job(0)).await;
    rig.advance(SECOND_MS);
    let numbers: Vec<usize> = (1..=many).collect();
    for numbers in numbers.chunks(50) {
        rig.enqueue_all(numbers.iter().map(|n| job(*n))).await;
    }
    let filter = has("payload.n", "0");
    let list = List::new(filter.clone()).limit(10);
    let page = rig.engine().list(list).await.expect("list").value;
    assert!(page.cut_short && page.rows.is_empty(), "it stops and says so");
    let bytes = page.examined * limit as u64;
    let (bound, slack) = (LIST_EXAMINED_BYTES_MAX as u64, 4 * limit as u64);
    assert!(bytes <= bound + slack, "{} jobs examined", page.examined);
    assert_eq!(pages(&rig, &filter, ListOrder::Newest, 10).await, [first]);
}

pub(super) async fn a_search_beyond_a_limit_is_refused_by_field(rig: Rig) {
    let at = rig.now().await;
    let mut many = Filter::default();
    many.fields = vec![("payload.a".parse().expect("field"), String::new()); FILTER_FIELDS_MAX + 1];
    let refused = |filter: Filter| rig.engine().list(List::new(filter));
    assert_refused(refused(many).await, "invalid", "fields");
    let long = has("payload.a", &"x".repeat(FIELD_VALUE_BYTES_MAX + 1));
    assert_refused(refused(long).await, "too_large", "fields");
    let text = Filter::default().text("x".repeat(SEARCH_TEXT_BYTES_MAX + 1));
    assert_refused(refused(text).await, "too_large", "text");
    assert_refused(refused(Filter::default().text("")).await, "invalid", "text");
    let due = Filter::default().due_from(at).due_until(at);
    assert_refused(refused(due).await, "invalid", "due_until");
    let ended = Filter::default().ended_from(at).ended_until(at);
    assert_refused(refused(ended).await, "invalid", "ended_until");
}

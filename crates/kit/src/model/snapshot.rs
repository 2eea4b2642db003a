//! Everything there is to know about a store, as text that two stores can be compared by.

use super::op::{KINDS, QUEUES};
use super::story_runner::{StoryRunner, value};
use super::translate::{key, unique_key};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::engine::{
    Claim, Claimant, Configure, EventsRequest, Filter, Get, List, OpenSession, Outcome,
    RemovedQuery, SettleItem, StatsRequest,
};
use windlass_core::limits::PAGE_MAX;
use windlass_core::model::{KindPatch, NewJob, PartSet, QueuePatch, State};
use windlass_core::policy::{Unique, UniqueScope};

/// The content of the store, by label.
pub(super) type Snapshot = BTreeMap<String, String>;

/// Jobs that a claim of the end takes at a time.
const BATCH: u32 = 7;
/// Differences that are reported.
const EXCERPTS_MAX: usize = 4;
/// Claims of the end; far more than there are jobs in a story.
const CLAIMS_MAX: usize = 2_000;

impl StoryRunner {
    /// Jobs with every field, and the counts of lanes.
    pub(super) async fn snapshot(&self) -> Snapshot {
        let (engine, mut all) = (self.rig.engine(), Snapshot::new());
        let mut ids = self.named.ids.clone();
        ids.sort_unstable();
        ids.dedup();
        let reply = engine.get(Get::new(ids.iter().copied()).parts(PartSet::ALL)).await;
        let reply = reply.expect("get");
        all.insert("the time".into(), reply.now.to_string());
        for (id, job) in ids.iter().zip(&reply.value) {
            all.insert(format!("job {id}"), self.text(job));
        }
        let stats = engine.stats(StatsRequest::default().by_priority()).await;
        let mut lanes = value(stats).expect("stats");
        lanes.sort_by(|a, b| (&a.queue, &a.kind).cmp(&(&b.queue, &b.kind)));
        for lane in lanes.iter().filter(|lane| lane.total() > 0) {
            all.insert(format!("lane {}/{}", lane.queue, lane.kind), format!("{lane:?}"));
        }
        all
    }

    /// The same with sessions, settings, lists, the store's own rows, and its opinion of itself.
    pub(super) async fn full_snapshot(&self) -> Snapshot {
        let (engine, mut all) = (self.rig.engine(), self.snapshot().await);
        let sessions = value(engine.sessions().await).expect("sessions");
        let mut sessions: Vec<String> = sessions.iter().map(|info| self.text(info)).collect();
        sessions.sort_unstable();
        all.extend(
            sessions.into_iter().enumerate().map(|(n, info)| (format!("session {n}"), info)),
        );
        let settings = value(engine.settings().await);
        all.insert("settings".into(), format!("{settings:?}"));
        for state in State::ALL.map(Some).into_iter().chain([None]) {
            let mut filter = Filter::default();
            filter.state = state;
            let page = value(engine.list(List::new(filter).limit(PAGE_MAX)).await).expect("list");
            let listed: Vec<_> = page.rows.iter().map(|job| (job.header.id, job.state)).collect();
            all.insert(format!("list of {state:?}"), format!("{listed:?}"));
        }
        let mut query = RemovedQuery::default();
        query.limit = PAGE_MAX;
        let removed = value(engine.removed(query).await).expect("removed").rows;
        all.insert("removed".into(), format!("{removed:?}"));
        for queue in QUEUES {
            // Without their cursors, which say when the stream began.
            let events = engine.events(EventsRequest::new(queue).limit(PAGE_MAX)).await;
            let events = events.map(|reply| reply.value.events).unwrap_or_default();
            let events: Vec<_> = events.into_iter().map(|entry| entry.event).collect();
            all.insert(format!("events of {queue}"), self.text(&events));
        }
        let report = value(engine.check(false).await).expect("check");
        all.insert("check".into(), self.text(&(report.jobs, report.findings)));
        if let Some(inspect) = &self.rig.subject().inspect {
            let rows = self.by_number(inspect().await.join("\n"));
            all.extend(rows.lines().map(|row| (format!("row {row}"), "there".to_owned())));
        }
        all
    }

    /// The last chapter: asks for every key of the story, opens every gate, and completes all jobs that are ready, in
    /// order. So keys and places are compared by their effect, on every engine.
    pub(super) async fn probe(&mut self) -> Snapshot {
        let mut all = Snapshot::new();
        for configure in open_gates() {
            let reply = value(self.rig.engine().configure(vec![configure]).await);
            reply.expect("configure").pop().expect("one answer").expect("opens");
        }
        for (number, job) in probes().into_iter().enumerate() {
            let label = format!("1 probe {number:02} {:?} {:?}", job.key, job.unique);
            let reply = self.enqueue(vec![job], false).await;
            all.insert(label, reply);
        }
        let request = OpenSession::new("probe").ttl_ms(60_000);
        let session = value(self.rig.engine().open_session(request).await).expect("opens").id;
        self.named.sessions.push(session.clone());
        let mut settled = self.named.leases.len();
        for number in 0..CLAIMS_MAX {
            self.named.claim_no += 1;
            let claim_no = self.named.claim_no;
            let by = Claimant::Session { session: session.clone(), claim_no };
            let queue = QUEUES[number % QUEUES.len()];
            let reply = self.claim(Claim::new(by, queue, BATCH), &session).await;
            all.insert(format!("2 claim {number:04} from {queue}"), reply);
            let fresh = self.named.leases[settled..].to_vec();
            for (id, lease) in fresh {
                let reply = self.settle(SettleItem::new(id, lease, Outcome::DONE), None).await;
                all.insert(format!("2 claim {number:04} completion {settled:04}"), reply);
                settled += 1;
            }
            let is_empty = |back: &usize| {
                let (number, queue) = (number - back, QUEUES[(number - back) % QUEUES.len()]);
                all.get(&format!("2 claim {number:04} from {queue}"))
                    .is_some_and(|reply| reply.contains("jobs: []"))
            };
            if number + 1 >= QUEUES.len() && (0..QUEUES.len()).all(|back| is_empty(&back)) {
                return all;
            }
        }
        panic!("{CLAIMS_MAX} claims did not empty three queues");
    }
}

fn open_gates() -> Vec<Configure> {
    let mut all = Vec::new();
    for queue in QUEUES {
        let open =
            [QueuePatch::paused(false), QueuePatch::max_depth(None), QueuePatch::max_wait_ms(None)];
        all.extend(open.map(|patch| Configure::queue(queue, patch)));
    }
    for kind in KINDS {
        let open = [KindPatch::paused(false), KindPatch::permits(None)];
        all.extend(open.map(|patch| Configure::kind(kind, patch)));
    }
    all
}

/// A job for every key that a story may use.
fn probes() -> Vec<NewJob> {
    let mut jobs = Vec::new();
    for queue in QUEUES {
        for kind in KINDS {
            let job = || NewJob::new(kind).queue(queue);
            for number in 0..2 {
                jobs.push(job().key(key(number)));
                for scope in [UniqueScope::Lane, UniqueScope::Queue, UniqueScope::Kind] {
                    jobs.push(job().unique(Unique::by(unique_key(number)).scope(scope)));
                }
            }
        }
    }
    jobs
}

/// Where two snapshots differ first, in a few excerpts; `None` if they are equal.
pub(super) fn difference(one: &Snapshot, other: &Snapshot) -> Option<String> {
    let labels: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let mut lines = Vec::new();
    for label in labels {
        let text = |all: &Snapshot| all.get(label).cloned().unwrap_or_else(|| "nothing".into());
        let (one, other) = (text(one), text(other));
        if one != other && lines.len() < EXCERPTS_MAX {
            let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
            let excerpt = |text: &str| -> String {
                text.chars().skip(same.saturating_sub(120)).take(280).collect()
            };
            lines.push(format!("{label}:\n    {}\n    {}", excerpt(&one), excerpt(&other)));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

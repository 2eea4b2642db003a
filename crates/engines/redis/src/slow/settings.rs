//! The settings and the lanes of a store, cached by their revision. Every transaction verifies the revision.

use crate::conn::error::Try;
use crate::conn::script::Reads;
use crate::conn::{Link, Live};
use crate::keys::{self, Keys};
use crate::rows::small;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use windlass_core::model::{KindSettings, Limit, Name, QueueSettings};
use windlass_executor::LaneKey;
use windlass_workset::{Lanes, Loaded, codec};

/// Settings and lanes.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// The value of the key `revision`.
    pub(crate) revision: Option<Vec<u8>>,
    pub(crate) queues: BTreeMap<Name, QueueSettings>,
    pub(crate) kinds: BTreeMap<Name, KindSettings>,
    pub(crate) limits: BTreeMap<Name, Limit>,
    pub(crate) lanes: BTreeSet<LaneKey>,
    /// The starts of streams of events, by queue; also of those that have ended lately.
    pub(crate) event_starts: BTreeMap<Name, u64>,
    per_queue: HashMap<Name, usize>,
}

impl Settings {
    pub(crate) async fn read(link: &Link, live: &Live, keys: &Keys) -> Try<Arc<Self>> {
        let mut reads = Reads::default();
        let revision = reads.peek("GET", &keys.one("revision"), &[]);
        let [queues, kinds, limits] =
            ["queue", "kind", "limit"].map(|name| reads.peek("HGETALL", &keys.one(name), &[]));
        let starts = reads.peek("HGETALL", &keys.one("event_start"), &[]);
        let lanes = reads.peek("SMEMBERS", &keys.one("lanes"), &[]);
        let replies = link.load(live, &reads).await?.replies;
        let mut settings =
            Self { revision: replies.bytes(revision)?.map(<[u8]>::to_vec), ..Self::default() };
        for (name, json) in replies.pairs(queues)? {
            settings
                .queues
                .insert(small::text(name)?.into(), codec::from_text(Some(small::text(json)?))?);
        }
        for (name, json) in replies.pairs(kinds)? {
            settings
                .kinds
                .insert(small::text(name)?.into(), codec::from_text(Some(small::text(json)?))?);
        }
        for (name, json) in replies.pairs(limits)? {
            settings
                .limits
                .insert(small::text(name)?.into(), codec::from_text(Some(small::text(json)?))?);
        }
        for (name, start) in replies.pairs(starts)? {
            let start = small::text(start)?.parse();
            let start = start.map_err(|error| codec::Damaged::new(&error))?;
            settings.event_starts.insert(small::text(name)?.into(), start);
        }
        for lane in replies.members(lanes)? {
            settings.lanes.extend(keys::lane_of(small::text(lane)?));
        }
        for (queue, _) in &settings.lanes {
            *settings.per_queue.entry(queue.clone()).or_default() += 1;
        }
        Ok(Arc::new(settings))
    }

    /// The lanes of a queue.
    pub(crate) fn lanes_of<'a>(&'a self, queue: &'a Name) -> impl Iterator<Item = &'a LaneKey> {
        let first: LaneKey = (queue.clone(), "".into());
        self.lanes.range(first..).take_while(move |(of, _)| of == queue)
    }

    /// The queues with lanes.
    pub(crate) fn queues_with_lanes(&self) -> BTreeSet<&Name> {
        self.per_queue.keys().collect()
    }

    /// Whether jobs of a queue age: it limits how long they wait.
    pub(crate) fn ages(&self, queue: &Name) -> bool {
        self.queues.get(queue).is_some_and(|settings| settings.max_wait_ms.is_some())
    }

    pub(crate) fn add_to<X>(&self, loaded: &mut Loaded<X>) {
        if loaded.queues.is_none() {
            loaded.queues = Some(self.queues.clone());
            loaded.kinds.clone_from(&self.kinds);
            loaded.limits.clone_from(&self.limits);
        }
    }
}

impl Lanes for Settings {
    fn lanes_before(&self, lane: &LaneKey) -> Option<usize> {
        let count = || self.per_queue.get(&lane.0).copied().unwrap_or(0);
        (!self.lanes.contains(lane)).then(count)
    }
}

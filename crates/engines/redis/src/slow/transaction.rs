//! One attempt of a verb: loads with digests, and the commit that verifies them.

use crate::conn::error::{Trouble, Try};
use crate::conn::library::Function;
use crate::conn::script::{Commands, Reads, Replies};
use crate::conn::{Link, Live, LoadReply};
use crate::keys::Keys;
use crate::rows::record::JobRow;
use crate::slow::save::saves;
use crate::slow::settings::Settings;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use windlass_core::Timestamp;
use windlass_core::engine::Stamped;
use windlass_core::model::Name;
use windlass_core::sync::lock;
use windlass_core::time::Clock;
use windlass_executor::{LaneKey, Turns};
use windlass_workset::{Lanes, Store, Wants};

/// The rows that were loaded for a verb.
pub(crate) type Loaded = windlass_workset::Loaded<JobRow>;
/// The rows of one run.
pub(crate) type WorkingSet<'l> = windlass_workset::WorkingSet<'l, JobRow>;
/// Running jobs of lanes by group.
pub(crate) type RunningGroups = BTreeMap<LaneKey, BTreeMap<String, u64>>;

/// One attempt of a verb.
pub(crate) struct Transaction<'a> {
    pub(crate) link: &'a Link,
    pub(crate) live: Live,
    pub(crate) keys: &'a Keys,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Option<&'a Arc<dyn Clock>>,
    /// Whether the verb may change which lanes count groups, so that running jobs are counted anew.
    pub(crate) relists: bool,
    pub(crate) running_groups: Mutex<RunningGroups>,
    loads: Mutex<Vec<(Reads, Vec<u8>)>>,
    /// Queues whose events have news for readers, by the writes.
    pub(crate) news: Mutex<BTreeSet<Name>>,
    begun: AtomicBool,
    /// Whether it takes a number for new entries; one that only reads does not, so that it writes nothing.
    pub(crate) numbers: bool,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(
        link: &'a Link,
        live: Live,
        keys: &'a Keys,
        settings: Arc<Settings>,
        clock: Option<&'a Arc<dyn Clock>>,
    ) -> Self {
        Self {
            link,
            live,
            keys,
            settings,
            clock,
            relists: false,
            running_groups: Mutex::default(),
            loads: Mutex::default(),
            news: Mutex::default(),
            begun: AtomicBool::new(false),
            numbers: true,
        }
    }

    /// The time: a test's clock, or else the store's.
    fn now(&self, store: Timestamp) -> Timestamp {
        self.clock.map_or(store, |clock| clock.now())
    }

    /// Runs reads at one instant. The first call also verifies the settings and takes a number for new entries.
    pub(crate) async fn read(&self, mut reads: Reads, loaded: &mut Loaded) -> Try<Replies> {
        let begins = !self.begun.swap(true, Ordering::Relaxed);
        let count = reads.0.len();
        if begins {
            reads.expect("GET", &self.keys.one("revision"), &[]);
            if self.numbers {
                reads.peek("INCR", &self.keys.one("seq"), &[]);
            }
        }
        if reads.0.is_empty() {
            return Ok(Replies(Vec::new()));
        }
        let LoadReply { now, digest, replies } = self.link.load(&self.live, &reads).await?;
        if begins {
            if replies.bytes(count)? != self.settings.revision.as_deref() {
                return Err(Trouble::Conflict);
            }
            if self.numbers {
                loaded.seq = replies.int(count + 1)?.cast_unsigned() << SEQ_BITS;
            }
        }
        if loaded.due_at.is_none() {
            loaded.now = self.now(now);
        }
        self.settings.add_to(loaded);
        // The others need not be repeated; a repeated number would even be another one.
        let verified = reads.verified();
        if !verified.0.is_empty() {
            lock(&self.loads).push((verified, digest));
        }
        Ok(replies)
    }

    /// The reply of a verb.
    pub(crate) fn stamp<T>(&self, loaded: &Loaded, value: T) -> Stamped<T> {
        Stamped { now: loaded.now, epoch: self.live.server.epoch.clone(), value }
    }

    /// Applies the writes if nothing that was read has changed.
    pub(crate) async fn commit(&self, function: Function, writes: Commands) -> Try<()> {
        let loads = std::mem::take(&mut *lock(&self.loads));
        // One load is a snapshot: nothing to verify if nothing is written.
        if writes.is_empty() && loads.len() <= 1 {
            return Ok(());
        }
        match self.link.commit(&self.live, function, &loads, writes).await? {
            true => Ok(()),
            false => Err(Trouble::Conflict),
        }
    }
}

/// A transaction numbers up to 2^20 entries below the number that it took.
const SEQ_BITS: u32 = 20;

impl Store for Transaction<'_> {
    type Row = JobRow;
    type Saves = Commands;
    type Error = Trouble;

    async fn load(&self, wants: &Wants, loaded: &mut Loaded) -> Try<()> {
        self.load_rows(wants.clone(), loaded).await
    }

    fn lanes(&self) -> &dyn Lanes {
        &*self.settings
    }

    fn saves(&self, set: &WorkingSet<'_>, turns: &HashMap<Name, Turns>) -> Try<Commands> {
        saves(self, set, turns)
    }
}

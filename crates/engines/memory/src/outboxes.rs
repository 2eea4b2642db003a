//! Outboxes, for a store whose atomicity is the queue, and the checks that no step touches rows of another queue.
//!
//! Everything is under one lock, so a step that changes two queues would work. It panics instead: the engine tests the
//! executor for stores in which it would not.

use crate::rows::MemoryRows;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::JobId;
use windlass_core::Result;
use windlass_core::model::Name;
use windlass_core::random::{Random, Seeded};
use windlass_executor::{Entry, Located, Message, Outbox, Posted, Route};

/// The messages of one queue to others.
#[derive(Debug, Default)]
struct Sent {
    last: u64,
    /// By the queue that they are for, and their numbers.
    messages: BTreeMap<(Name, u64), Posted>,
    numbers: BTreeSet<u64>,
    /// Number of messages about each job.
    about: BTreeMap<JobId, u32>,
}

/// All outboxes.
#[derive(Debug, Default)]
pub(crate) struct Outboxes {
    /// The queue of the current step.
    step: Option<Name>,
    sent: BTreeMap<Name, Sent>,
    /// Numbers of the last messages that were applied, by the queue that has applied them and the one that has sent them.
    applied: BTreeMap<(Name, Name), u64>,
    /// Jobs and the other queues that follow them.
    followers: BTreeSet<(JobId, Name)>,
    /// Decides which deliveries are cut off.
    cuts: Option<Seeded>,
}

impl Outboxes {
    /// Whether no message is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.values().all(|sent| sent.messages.is_empty())
    }

    /// Whether a message of a queue is about this job.
    pub(crate) fn holds(&self, queue: &Name, job: JobId) -> bool {
        self.sent.get(queue).is_some_and(|sent| sent.about.contains_key(&job))
    }

    /// Cuts off about half of all deliveries.
    pub(crate) fn cut(&mut self, seed: u64) {
        self.cuts = Some(Seeded::new(seed));
    }

    /// Whether this delivery is cut off.
    pub(crate) fn is_cut(&self) -> bool {
        self.cuts.as_ref().is_some_and(|cuts| cuts.next_u64() % 2 == 0)
    }

    /// Whether a message is about the dependency of a job in `queue` on this one.
    fn concerns(&self, upstream: JobId, queue: &Name) -> bool {
        let mut all = self.sent.iter().flat_map(|(from, sent)| {
            sent.messages
                .values()
                .zip(sent.messages.keys())
                .map(move |(it, (to, _))| (from, to, it))
        });
        all.any(|(from, to, posted)| match &posted.message {
            Message::Store(deferred) => {
                deferred.followed && deferred.job.id == Some(upstream) && from == queue
            }
            Message::Follow(jobs) => jobs.contains(&upstream) && from == queue,
            Message::Resolve(end) => end.job == upstream && to == queue,
            Message::Readers { .. } => false,
        })
    }
}

impl MemoryRows {
    fn step(&self) -> Option<&Name> {
        self.outboxes.as_ref()?.step.as_ref()
    }

    /// The queue of a job that is not taken.
    fn queue_of(&self, id: JobId) -> Option<&Name> {
        self.jobs.get(&id).map(|entry| &entry.job.header.queue)
    }

    /// Panics if the current step is one of another queue. An empty name stands for any.
    pub(crate) fn check_queue(&self, queue: &str) {
        if let Some(step) = self.step() {
            assert!(**step == *queue, "a step of queue {step} touches rows of queue {queue:?}");
        }
    }

    /// Panics if the current step is not one of this job's queue.
    pub(crate) fn check_job(&self, id: JobId) {
        if let Some(queue) = self.queue_of(id) {
            self.check_queue(queue);
        }
    }

    /// Panics if no step of this queue is under way.
    pub(crate) fn check_change(&self, queue: &Name) {
        if self.outboxes.is_some() {
            assert!(self.step().is_some(), "rows of queue {queue} change outside of a step");
            self.check_queue(queue);
        }
    }

    /// Panics if no step of this job's queue is under way.
    pub(crate) fn check_change_of(&self, id: JobId) {
        if let Some(queue) = self.queue_of(id) {
            self.check_change(queue);
        }
    }

    /// Whether a job is in the queue of the current step.
    pub(crate) fn is_here(&self, id: JobId) -> bool {
        self.step().is_none_or(|step| self.queue_of(id).is_none_or(|queue| queue == step))
    }

    /// Whether a job that another one depends on knows it, or will.
    pub(crate) fn is_followed(&self, upstream: JobId, dependent: JobId) -> bool {
        let marked = || self.jobs.get(&upstream).is_some_and(|entry| entry.job.followed);
        let (Some(outboxes), Some(queue)) = (&self.outboxes, self.queue_of(dependent)) else {
            return marked();
        };
        match self.queue_of(upstream) {
            Some(same) if same == queue => marked(),
            Some(_) if outboxes.followers.contains(&(upstream, queue.clone())) => marked(),
            Some(_) | None => outboxes.concerns(upstream, queue),
        }
    }

    /// The outboxes. Only called if there are any.
    fn boxes(&self) -> &Outboxes {
        static NONE: std::sync::LazyLock<Outboxes> = std::sync::LazyLock::new(Outboxes::default);
        self.outboxes.as_ref().unwrap_or(&NONE)
    }

    fn boxes_mut(&mut self) -> &mut Outboxes {
        self.outboxes.get_or_insert_default()
    }

    fn sent(&self) -> Option<&Sent> {
        self.boxes().sent.get(self.step()?)
    }

    fn sent_mut(&mut self) -> &mut Sent {
        let outboxes = self.boxes_mut();
        let step = outboxes.step.clone();
        assert!(step.is_some(), "an outbox changes outside of a step");
        outboxes.sent.entry(step.unwrap_or_default()).or_default()
    }
}

impl Outbox for MemoryRows {
    fn enter(&mut self, queue: &Name) -> Result<()> {
        let before = self.boxes_mut().step.replace(queue.clone());
        assert!(before.is_none(), "a step of queue {queue} begins in one of queue {before:?}");
        Ok(())
    }

    fn leave(&mut self) -> Result<()> {
        self.boxes_mut().step = None;
        Ok(())
    }

    fn locate(&self, id: JobId) -> Result<Option<Located>> {
        let located = |entry: &Entry| Located {
            queue: entry.job.header.queue.clone(),
            state: entry.job.state,
        };
        Ok(self.jobs.get(&id).map(|entry| located(entry)))
    }

    fn post(&mut self, to: &Name, posted: Posted) -> Result<()> {
        let sent = self.sent_mut();
        assert!(posted.number > sent.last, "message {} comes after {}", posted.number, sent.last);
        sent.last = posted.number;
        sent.numbers.insert(posted.number);
        *sent.about.entry(posted.about).or_default() += 1;
        sent.messages.insert((to.clone(), posted.number), posted);
        Ok(())
    }

    fn last_number(&self) -> Result<u64> {
        Ok(self.sent().map_or(0, |sent| sent.last))
    }

    fn undelivered(&self) -> Result<u64> {
        Ok(self.sent().map_or(0, |sent| sent.messages.len() as u64))
    }

    fn holds(&self, job: JobId) -> Result<bool> {
        Ok(self.sent().is_some_and(|sent| sent.about.contains_key(&job)))
    }

    fn remove_upto(&mut self, to: &Name, upto: u64) -> Result<()> {
        if self.boxes().is_cut() {
            return Ok(());
        }
        let sent = self.sent_mut();
        let range = (to.clone(), 0)..=(to.clone(), upto);
        let keys: Vec<(Name, u64)> =
            sent.messages.range(range).map(|(key, _)| key.clone()).collect();
        for posted in keys.iter().filter_map(|key| sent.messages.remove(key)) {
            sent.numbers.remove(&posted.number);
            if let Some(count) = sent.about.get_mut(&posted.about) {
                *count -= 1;
                if *count == 0 {
                    sent.about.remove(&posted.about);
                }
            }
        }
        Ok(())
    }

    fn applied(&self, from: &Name) -> Result<u64> {
        let Some(step) = self.step() else { return Ok(0) };
        Ok(self.boxes().applied.get(&(step.clone(), from.clone())).copied().unwrap_or(0))
    }

    fn set_applied(&mut self, from: &Name, upto: u64) -> Result<()> {
        let outboxes = self.boxes_mut();
        if let Some(step) = outboxes.step.clone() {
            outboxes.applied.insert((step, from.clone()), upto);
        }
        Ok(())
    }

    fn followers(&self, upstream: JobId, limit: usize) -> Result<Vec<Name>> {
        self.check_job(upstream);
        let of_job = self.boxes().followers.iter().filter(|(job, _)| *job == upstream);
        Ok(of_job.map(|(_, queue)| queue.clone()).take(limit).collect())
    }

    fn set_follower(&mut self, upstream: JobId, queue: &Name, follows: bool) -> Result<()> {
        self.check_change_of(upstream);
        let follower = (upstream, queue.clone());
        match follows {
            true => self.boxes_mut().followers.insert(follower),
            false => self.boxes_mut().followers.remove(&follower),
        };
        Ok(())
    }

    fn routes(&self, limit: usize) -> Result<Vec<Route>> {
        let routes: BTreeSet<Route> = self
            .boxes()
            .sent
            .iter()
            .flat_map(|(from, sent)| {
                sent.messages.keys().map(|(to, _)| Route { from: from.clone(), to: to.clone() })
            })
            .collect();
        Ok(routes.into_iter().take(limit).collect())
    }

    fn first(&self, route: &Route, limit: usize) -> Result<Vec<Posted>> {
        let Some(sent) = self.boxes().sent.get(&route.from) else { return Ok(Vec::new()) };
        let range = (route.to.clone(), 0)..=(route.to.clone(), u64::MAX);
        Ok(sent.messages.range(range).take(limit).map(|(_, posted)| posted.clone()).collect())
    }

    fn is_posted(&self, from: &Name, number: u64) -> Result<bool> {
        Ok(self.boxes().sent.get(from).is_some_and(|sent| sent.numbers.contains(&number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use windlass_core::engine::*;
    use windlass_core::limits::{
        FOLLOW_UPS_MAX, INPUT_BYTES_MAX, OUTBOX_MAX, RESULT_BYTES_MAX,
        RETENTION_FINISHED_DEFAULT_MS,
    };
    use windlass_core::model::{NewJob, Part, State};
    use windlass_core::{Error, Timestamp};
    use windlass_executor::{Executor, Rows as _};

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    /// An executor whose messages are delivered by maintenance only.
    fn executor() -> Executor<MemoryRows> {
        let capabilities = Capabilities::new("memory", Atomicity::Queue, Durability::Volatile)
            .with(Capability::Flows);
        let mut rows = MemoryRows::default();
        rows.outboxes = Some(Outboxes::default());
        Executor::new(capabilities, Arc::new(Seeded::new(1)), rows, 0)
    }

    fn job(queue: &str) -> NewJob {
        NewJob::new("k").queue(queue)
    }

    fn enqueue(executor: &mut Executor<MemoryRows>, job: NewJob) -> JobId {
        executor.enqueue(Enqueue::each([job]), NOW).unwrap().remove(0).unwrap().id
    }

    /// Completes the first job of a queue with these follow-ups.
    fn complete(
        executor: &mut Executor<MemoryRows>,
        queue: &str,
        follow_ups: Vec<NewJob>,
    ) -> Result<Settled> {
        settle(executor, queue, Outcome::DONE, follow_ups)
    }

    fn settle(
        executor: &mut Executor<MemoryRows>,
        queue: &str,
        outcome: Outcome,
        follow_ups: Vec<NewJob>,
    ) -> Result<Settled> {
        let claim_id = ClaimId::random(&Seeded::new(2));
        let by = Claimant::Alone { claim_id, worker: "w".into(), lease_ms: 60_000 };
        let claimed = executor.claim(&Claim::new(by, queue, 1), NOW).unwrap().jobs.remove(0);
        let mut item = SettleItem::new(claimed.header.id, claimed.lease, outcome);
        item.follow_ups = follow_ups;
        executor.settle(&Settle::new([item]), NOW).unwrap().items.remove(0)
    }

    fn change(executor: &mut Executor<MemoryRows>, id: JobId, change: Change) -> Result<Changed> {
        executor.change(vec![ChangeItem::new(id, change)], NOW).unwrap().remove(0)
    }

    fn maintain(executor: &mut Executor<MemoryRows>, work: Work, now: Timestamp) {
        while executor.maintain(MaintainRequest::new(work, 1_000), now).unwrap().more {}
    }

    fn state(executor: &Executor<MemoryRows>, id: JobId) -> Option<State> {
        executor.rows().with_job(id, |entry| entry.job.state).unwrap()
    }

    #[test]
    #[should_panic(expected = "a step of queue a touches rows of queue \"b\"")]
    fn a_step_that_leaves_its_queue_panics() {
        let mut executor = executor();
        let id = enqueue(&mut executor, job("b"));
        let rows = executor.rows_mut();
        rows.enter(&"a".into()).unwrap();
        let _ = rows.take(id);
    }

    #[test]
    #[should_panic(expected = "rows of queue b change outside of a step")]
    fn a_change_outside_of_a_step_panics() {
        let mut executor = executor();
        let id = enqueue(&mut executor, job("b"));
        let _ = executor.rows_mut().take(id);
    }

    #[test]
    fn a_job_stays_until_its_messages_are_delivered() {
        let mut executor = executor();
        let parent = enqueue(&mut executor, job("a"));
        let child = complete(&mut executor, "a", vec![job("b")]).unwrap().follow_ups.remove(0);
        assert_eq!((child.disposition, child.state), (Disposition::Deferred, None));
        assert_eq!(change(&mut executor, parent, Change::Discard).unwrap_err().code(), "refused");
        let later = NOW.plus(RETENTION_FINISHED_DEFAULT_MS);
        maintain(&mut executor, Work::Retain, later);
        assert_eq!(state(&executor, parent), Some(State::Completed));
        maintain(&mut executor, Work::Promote, NOW);
        assert_eq!(state(&executor, child.id), Some(State::Available));
        maintain(&mut executor, Work::Retain, later);
        assert_eq!(state(&executor, parent), None);
    }

    #[test]
    fn a_dependent_does_not_wait_for_a_job_that_is_removed_before_it_is_followed() {
        let mut executor = executor();
        let upstream = enqueue(&mut executor, job("a"));
        complete(&mut executor, "a", Vec::new()).unwrap();
        let dependent = enqueue(&mut executor, job("b").after(upstream));
        assert_eq!(state(&executor, dependent), Some(State::Blocked));
        change(&mut executor, upstream, Change::Discard).unwrap();
        maintain(&mut executor, Work::Promote, NOW);
        assert_eq!(state(&executor, dependent), Some(State::Dead));
        let inputs = executor.rows().inputs(dependent).unwrap();
        assert_eq!(inputs[0].outcome, Some(State::Cancelled));
    }

    #[test]
    fn a_message_that_is_delivered_again_is_not_applied_again() {
        let mut executor = executor();
        enqueue(&mut executor, job("a"));
        let child = complete(&mut executor, "a", vec![job("b")]).unwrap().follow_ups[0].id;
        let route = Route { from: "a".into(), to: "b".into() };
        let posted = executor.rows().first(&route, 9).unwrap();
        assert_eq!(posted.len(), 1);
        maintain(&mut executor, Work::Promote, NOW);
        complete(&mut executor, "b", Vec::new()).unwrap();
        change(&mut executor, child, Change::Discard).unwrap();
        // As if the removal of the message had been lost.
        let sent = executor.rows_mut().boxes_mut().sent.get_mut("a").unwrap();
        sent.messages.insert((route.to.clone(), posted[0].number), posted[0].clone());
        maintain(&mut executor, Work::Promote, NOW);
        assert_eq!(state(&executor, child), None);
        assert!(executor.rows().routes(1).unwrap().is_empty());
    }

    #[test]
    fn a_result_is_kept_for_all_readers_although_they_are_resolved_one_by_one() {
        let mut executor = executor();
        let fitting = INPUT_BYTES_MAX / RESULT_BYTES_MAX;
        let upstream: Vec<JobId> =
            (0..=fitting).map(|_| enqueue(&mut executor, job("a"))).collect();
        let reader = || upstream.iter().fold(job("b"), |job, id| job.after(*id));
        for _ in 0..3 {
            enqueue(&mut executor, reader());
        }
        maintain(&mut executor, Work::Promote, NOW);
        let result = Some(Part::new(vec![b'1'; RESULT_BYTES_MAX]));
        for _ in &upstream {
            settle(&mut executor, "a", Outcome::Complete { result: result.clone() }, vec![])
                .unwrap();
            while executor.maintain(MaintainRequest::new(Work::Promote, 1), NOW).unwrap().more {}
        }
        let readers = |executor: &Executor<MemoryRows>, id| {
            executor.rows().with_job(id, |entry| entry.job.dependencies.readers).unwrap()
        };
        assert_eq!(readers(&executor, upstream[0]), Some(0));
        assert_eq!(readers(&executor, upstream[fitting]), Some(3));
        assert_eq!(executor.check(false, NOW).unwrap().findings, []);
    }

    /// Fills the outbox of a queue.
    fn fill(executor: &mut Executor<MemoryRows>, queue: &str, to: &str) {
        for _ in 0..OUTBOX_MAX as usize / FOLLOW_UPS_MAX {
            enqueue(executor, job(queue).priority(-1));
            complete(executor, queue, vec![job(to); FOLLOW_UPS_MAX]).unwrap();
        }
    }

    #[test]
    fn an_end_that_needs_messages_waits_for_room_in_a_full_outbox() {
        let mut executor = executor();
        let fitting = INPUT_BYTES_MAX / RESULT_BYTES_MAX;
        let upstream: Vec<JobId> =
            (0..=fitting).map(|_| enqueue(&mut executor, job("a"))).collect();
        let result = Some(Part::new(vec![b'1'; RESULT_BYTES_MAX]));
        for _ in &upstream {
            settle(&mut executor, "a", Outcome::Complete { result: result.clone() }, vec![])
                .unwrap();
        }
        let reader = upstream.iter().fold(job("b"), |job, id| job.after(*id));
        let reader = enqueue(&mut executor, reader);
        let behind = enqueue(&mut executor, job("c").after(reader));
        maintain(&mut executor, Work::Promote, NOW);
        let last = upstream[fitting];
        let readers = |executor: &Executor<MemoryRows>| {
            executor.rows().with_job(last, |entry| entry.job.dependencies.readers).unwrap()
        };
        assert_eq!(
            (state(&executor, reader), readers(&executor)),
            (Some(State::Available), Some(1))
        );
        fill(&mut executor, "b", "d");
        change(&mut executor, reader, Change::Cancel).unwrap();
        let sent =
            |executor: &Executor<MemoryRows>| executor.rows().boxes().sent["b"].messages.len();
        assert_eq!(sent(&executor), OUTBOX_MAX as usize);
        assert_eq!(state(&executor, behind), Some(State::Blocked));
        maintain(&mut executor, Work::Promote, NOW);
        assert_eq!((state(&executor, behind), readers(&executor)), (Some(State::Dead), Some(0)));
        assert_eq!(executor.check(false, NOW).unwrap().findings, []);
    }

    #[test]
    fn a_full_outbox_refuses_what_would_append_to_it_and_nothing_else() {
        let mut executor = executor();
        fill(&mut executor, "a", "b");
        let last = enqueue(&mut executor, job("a"));
        let upstream = enqueue(&mut executor, job("b"));
        let refused = executor.enqueue(Enqueue::each([job("a").after(upstream)]), NOW).unwrap();
        assert!(matches!(refused[0], Err(Error::Busy { .. })), "{refused:?}");
        // Others may still run after jobs of this queue, and its jobs still complete.
        let dependent = enqueue(&mut executor, job("c").after(last));
        let from_c = Route { from: "c".into(), to: "a".into() };
        assert_eq!(executor.rows().first(&from_c, 9).unwrap().len(), 1);
        complete(&mut executor, "a", Vec::new()).unwrap();
        maintain(&mut executor, Work::Promote, NOW);
        assert_eq!(state(&executor, dependent), Some(State::Available));
        assert_eq!(executor.rows().depth(&"b".into()), OUTBOX_MAX + 1);
        enqueue(&mut executor, job("a"));
        complete(&mut executor, "a", vec![job("b")]).unwrap();
    }
}

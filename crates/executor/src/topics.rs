//! Topics: new jobs for a queue with subscriptions are replaced by one copy per subscription that wants them, before
//! anything is checked or stored. From then on, copies are jobs like any others.

use crate::executor::Executor;
use crate::rows::Rows;
use windlass_core::engine::{Capability, Enqueued, Item, TopicCopy};
use windlass_core::limits::CALL_COPIES_MAX;
use windlass_core::model::{Name, NewJob, QueueSettings, Subscription};
use windlass_core::{Error, JobId, Result, Timestamp};

/// Jobs to store: those of a request, with copies in place of jobs for topics.
#[derive(Default)]
pub(crate) struct Expanded {
    pub(crate) jobs: Vec<NewJob>,
    /// The jobs of the request, in their order; empty if none is for a topic.
    origins: Vec<Origin>,
}

/// What became of a job of the request.
enum Origin {
    /// It is stored itself.
    Itself,
    /// It is for a topic: the subscriptions and the queues that get a copy.
    Topic { id: JobId, copies: Vec<(Name, Name)> },
}

impl Origin {
    const fn count(&self) -> usize {
        match self {
            Self::Itself => 1,
            Self::Topic { id: _, copies } => copies.len(),
        }
    }
}

impl Expanded {
    /// The index in the request of the job at this index.
    pub(crate) fn index_of(&self, index: usize) -> usize {
        if self.origins.is_empty() {
            return index;
        }
        let ends = self.origins.iter().scan(0, |end, origin| {
            *end += origin.count();
            Some(*end)
        });
        ends.take_while(|end| *end <= index).count()
    }

    /// The results of the request, from those of the stored jobs. The result of a topic is the first error of its copies, if
    /// there is any.
    pub(crate) fn results(self, stored: Vec<Item<Enqueued>>) -> Vec<Item<Enqueued>> {
        if self.origins.is_empty() {
            return stored;
        }
        let mut stored = stored.into_iter();
        let mut result = |origin| match origin {
            Origin::Itself => stored.next(),
            Origin::Topic { id, copies } => {
                let copy = |((name, queue), stored): (_, Item<Enqueued>)| {
                    stored.map(|stored| TopicCopy::new(name, queue, &stored))
                };
                // As many as there are copies are taken, also if one of them failed.
                let stored: Vec<_> = stored.by_ref().take(copies.len()).collect();
                let copies: Result<Vec<_>> = copies.into_iter().zip(stored).map(copy).collect();
                Some(copies.map(|copies| Enqueued::published(id, copies)))
            }
        };
        self.origins.into_iter().filter_map(&mut result).collect()
    }
}

impl<R: Rows> Executor<R> {
    /// The subscriptions of a queue; none if it is not a topic.
    fn subscriptions(&self, queue: &Name) -> &[Subscription] {
        self.queues.get(queue).map_or(&[], |settings| &settings.subscriptions)
    }

    /// Whether new jobs for this queue are copied into others.
    pub(crate) fn is_topic(&self, queue: &Name) -> bool {
        !self.subscriptions(queue).is_empty()
    }

    /// Refuses subscriptions that lead from topic to topic: copies are stored where they are sent.
    pub(crate) fn check_subscriptions(
        &self,
        topic: &Name,
        subscriptions: &[Subscription],
    ) -> Result<()> {
        if !subscriptions.is_empty() && !self.capabilities.has(Capability::Topics) {
            return Err(Error::Unsupported {
                engine: self.capabilities.engine,
                capability: Capability::Topics,
                hint: "enqueue one job for each queue, all or nothing",
            });
        }
        let refused = |queue: &Name, expected: String| {
            Err(Error::invalid("subscriptions.queue", queue, expected))
        };
        for subscription in subscriptions {
            if self.is_topic(&subscription.queue) || subscription.queue == *topic {
                let expected = "it is a topic: subscribe with a queue that has no subscriptions";
                return refused(&subscription.queue, expected.to_owned());
            }
        }
        let leads_here = |(name, settings): (_, &QueueSettings)| {
            settings.subscriptions.iter().any(|it| it.queue == *topic).then_some(name)
        };
        match self.queues.iter().find_map(leads_here).filter(|_| !subscriptions.is_empty()) {
            None => Ok(()),
            Some(other) => refused(
                topic,
                format!("it gets jobs of topic {other}, so it cannot be one: subscribe to {other}"),
            ),
        }
    }

    /// Refuses a job that already exists and would move to a topic: only new jobs are copied.
    pub(crate) fn check_moves_to(&self, queue: &Name) -> Result<()> {
        if !self.is_topic(queue) {
            return Ok(());
        }
        let expected =
            "it is a topic, which stores no jobs: move the job to the queue of a subscription";
        Err(Error::invalid("queue", queue, expected))
    }

    /// Replaces jobs for topics, which have ids, by their copies. The error has the index of the job that it concerns.
    /// `copied`: the number of copies that the call has stored already.
    pub(crate) fn expand(
        &self,
        jobs: Vec<NewJob>,
        copied: usize,
        now: Timestamp,
    ) -> Result<Expanded, (usize, Error)> {
        if !jobs.iter().any(|job| self.is_topic(&job.queue)) {
            return Ok(Expanded { jobs, origins: Vec::new() });
        }
        let (mut expanded, mut copied) = (Expanded::default(), copied);
        for (index, job) in jobs.into_iter().enumerate() {
            if !self.is_topic(&job.queue) {
                expanded.origins.push(Origin::Itself);
                expanded.jobs.push(job);
                continue;
            }
            let room = CALL_COPIES_MAX.saturating_sub(copied);
            let (origin, copies) =
                self.copies_of(&job, room, now).map_err(|error| (index, error))?;
            copied += copies.len();
            expanded.origins.push(origin);
            expanded.jobs.extend(copies);
        }
        Ok(expanded)
    }

    /// The copies of a job for a topic, of which there may be at most `room`.
    fn copies_of(
        &self,
        job: &NewJob,
        room: usize,
        now: Timestamp,
    ) -> Result<(Origin, Vec<NewJob>)> {
        // Before its id is used: copies have derived ids, which are checked less strictly.
        job.check(now, self.capabilities.payload_bytes_max)?;
        let no_id = || Error::invalid("id", "none", "a job gets an id before it is copied");
        let id = job.id.ok_or_else(no_id)?;
        let mut copies = Vec::new();
        let mut names = Vec::new();
        for subscription in self.subscriptions(&job.queue) {
            if !subscription.wants(job) {
                continue;
            }
            names.push((subscription.name.clone(), subscription.queue.clone()));
            copies.push(subscription.copy_of(job, id));
            // A store that creates lanes before a run learns here which ones, all at once. Whether there is room for them is
            // checked with the copies.
            let _ = self.rows.lanes_before(&(subscription.queue.clone(), job.kind.clone()));
        }
        if copies.len() > room {
            return Err(Error::TooLarge {
                field: "jobs".into(),
                size: (CALL_COPIES_MAX - room + copies.len()) as u64,
                limit: CALL_COPIES_MAX as u64,
                hint: "every subscription counts: enqueue fewer jobs per call to this topic",
            });
        }
        Ok((Origin::Topic { id, copies: names }, copies))
    }
}

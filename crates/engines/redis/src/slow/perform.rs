//! Runs a verb: load and run until nothing is missing, commit, and repeat it after a conflict.

use crate::conn::Link;
use crate::conn::error::{Trouble, Try};
use crate::conn::library::Function;
use crate::conn::script::{Commands, Reads};
use crate::keys::Keys;
use crate::rows::record::JobRow;
use crate::slow::settings::Settings;
use crate::slow::transaction::{Loaded, Transaction};
use crate::wake;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass_core::Result;
use windlass_core::engine::{Capabilities, Stamped};
use windlass_core::model::{Name, PartSet};
use windlass_core::random::Random;
use windlass_core::sync::lock;
use windlass_core::time::Clock;
use windlass_workset::{Context, Ran, Store as _, Wants, pause_ms, rounds};

/// Maximum runs of a verb after conflicts.
pub(crate) const TRIES_MAX: u32 = 200;

/// The executor of one run.
pub(crate) type Run<'l> = windlass_workset::Run<'l, JobRow>;

/// The body of a verb.
pub(crate) type Act<'a, T> = windlass_workset::Act<'a, JobRow, T>;

/// A verb, apart from its body.
#[derive(Clone, Debug)]
pub(crate) struct Verb {
    pub(crate) wants: Wants,
    /// Whether it must work when the memory of the server is full.
    pub(crate) drains: bool,
    /// Whether it may change which lanes count groups.
    pub(crate) relists: bool,
}

impl Verb {
    /// A verb that adds data.
    pub(crate) const fn adding(wants: Wants) -> Self {
        Self { wants, drains: false, relists: false }
    }

    /// A verb that must work when the memory of the server is full.
    pub(crate) const fn draining(wants: Wants) -> Self {
        Self { wants, drains: true, relists: false }
    }
}

/// State shared by all verbs.
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) keys: Keys,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) random: Arc<dyn Random>,
    settings: Mutex<Option<Arc<Settings>>>,
    /// Held by verbs that had a conflict, so that those of one process do not disturb each other again and again.
    contended: tokio::sync::Mutex<()>,
}

/// The result of a verb.
pub(crate) struct Done<T> {
    pub(crate) reply: Stamped<T>,
    /// Whether jobs may have become claimable.
    pub(crate) readied: bool,
    /// Queues whose events have news for readers.
    pub(crate) events: BTreeSet<Name>,
}

impl Shared {
    pub(crate) fn new(
        link: Arc<Link>,
        keys: Keys,
        capabilities: Capabilities,
        clock: Option<Arc<dyn Clock>>,
        random: Arc<dyn Random>,
    ) -> Self {
        let (settings, contended) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { link, keys, capabilities, clock, random, settings, contended }
    }

    /// Begins an attempt.
    pub(crate) async fn begin(&self) -> Try<Transaction<'_>> {
        let live = self.link.live().await?;
        let cached = lock(&self.settings).clone();
        let settings = match cached {
            Some(settings) => settings,
            None => {
                let settings = Settings::read(&self.link, &live, &self.keys).await?;
                *lock(&self.settings) = Some(Arc::clone(&settings));
                settings
            }
        };
        Ok(Transaction::new(&self.link, live, &self.keys, settings, self.clock.as_ref()))
    }

    /// The settings are read again by the next attempt.
    pub(crate) fn forget_settings(&self) {
        *lock(&self.settings) = None;
    }

    /// Runs a verb. `act` may be called several times: only the changes of the last call are saved.
    pub(crate) async fn perform<T>(&self, verb: &Verb, act: &mut Act<'_, T>) -> Result<Done<T>> {
        let mut turn = None;
        for tries in 0..TRIES_MAX {
            // Boxed: the future contains a working set, and debug builds copy futures on the stack of every caller.
            match Box::pin(self.attempt(verb, act)).await {
                Ok(done) => return Ok(done),
                Err(Trouble::Conflict) => self.forget_settings(),
                Err(Trouble::Fatal(error)) => return Err(error),
            }
            if turn.is_none() {
                turn = Some(self.contended.lock().await);
            } else {
                let pause = pause_ms(tries / 4, &*self.random);
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
        Err(Trouble::Conflict.into_error())
    }

    async fn attempt<T>(&self, verb: &Verb, act: &mut Act<'_, T>) -> Try<Done<T>> {
        let mut transaction = self.begin().await?;
        transaction.relists = verb.relists;
        let mut loaded = Loaded::default();
        transaction.load(&verb.wants, &mut loaded).await?;
        let Ran { value, mut saves, readied } =
            rounds(&transaction, self.context(), &mut loaded, verb.wants.parts, act).await?;
        if readied && !saves.is_empty() {
            saves.push("PUBLISH", &self.keys.one("wake"), &[b""]);
        }
        let events = std::mem::take(&mut *lock(&transaction.news));
        for queue in &events {
            let message = wake::of_events(queue);
            saves.push("PUBLISH", &self.keys.one("wake"), &[&message]);
        }
        // A refusal is verified, too: it may rest on rows that have changed.
        let function = if verb.drains { Function::Drain } else { Function::Commit };
        transaction.commit(function, saves).await?;
        Ok(Done { reply: transaction.stamp(&loaded, value?), readied, events })
    }

    /// Begins reads. Their settings are those of the first of them.
    pub(crate) async fn look(&self) -> Result<(Transaction<'_>, Loaded)> {
        for _ in 0..TRIES_MAX {
            let attempt = async {
                let mut transaction = self.begin().await?;
                transaction.numbers = false;
                let mut loaded = Loaded::default();
                transaction.read(Reads::default(), &mut loaded).await?;
                Ok((transaction, loaded))
            };
            match attempt.await {
                Ok(begun) => return Ok(begun),
                Err(Trouble::Conflict) => self.forget_settings(),
                Err(Trouble::Fatal(error)) => return Err(error),
            }
        }
        Err(Trouble::Conflict.into_error())
    }

    /// Asks the executor over the loaded rows, and loads those that it lacks; `None` if they have changed meanwhile.
    pub(crate) async fn ask<T>(
        &self,
        transaction: &Transaction<'_>,
        loaded: &mut Loaded,
        act: &mut Act<'_, T>,
    ) -> Result<Option<Stamped<T>>> {
        let attempt = async {
            let ran = rounds(transaction, self.context(), loaded, PartSet::NONE, act).await?;
            transaction.commit(Function::Drain, Commands::default()).await?;
            Ok(ran.value?)
        };
        match Box::pin(attempt).await {
            Ok(value) => Ok(Some(transaction.stamp(loaded, value))),
            Err(Trouble::Conflict) => Ok(None),
            Err(Trouble::Fatal(error)) => Err(error),
        }
    }

    /// The parameters of an executor.
    const fn context(&self) -> Context<'_> {
        Context { capabilities: &self.capabilities, random: &self.random }
    }
}

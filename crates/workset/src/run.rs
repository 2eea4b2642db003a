//! Runs a verb over loaded rows until no row is missing.

use crate::loaded::Loaded;
use crate::set::{Lanes, WorkingSet};
use crate::wants::Wants;
use std::collections::HashMap;
use std::sync::Arc;
use windlass_core::engine::Capabilities;
use windlass_core::limits::CASCADE_MAX;
use windlass_core::model::{Name, PartSet};
use windlass_core::random::Random;
use windlass_core::{Error, Result, Timestamp};
use windlass_executor::{Executor, Turns};

/// Runs of one verb in one transaction. Each run follows one more link: from a job to its keys, from a key to the
/// next job in line. Jobs that end because of each other take up to six runs per level.
pub const ROUNDS_MAX: usize = 16 + 6 * CASCADE_MAX as usize;
/// The longest pause before a verb is retried after a conflict.
const PAUSE_MAX_MS: u64 = 50;

/// The executor of one run.
pub type Run<'l, X> = Executor<WorkingSet<'l, X>>;

/// A verb. It may be called several times; only the changes of its last call are saved.
pub type Act<'a, X, T> = dyn FnMut(&mut Run<'_, X>, Timestamp) -> Result<T> + Send + 'a;

/// A store with many writers, within one transaction.
pub trait Store: Sync {
    /// The columns of a job's row that only the store needs.
    type Row: Send + Sync;
    /// The writes that save the changes of a run.
    type Saves: Default + Send;
    /// The reason why the transaction failed.
    type Error: From<Error> + Send;

    /// Adds the wanted rows that are not loaded yet.
    fn load(
        &self,
        wants: &Wants,
        loaded: &mut Loaded<Self::Row>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The lanes that exist.
    fn lanes(&self) -> &dyn Lanes;

    /// The writes that save the difference between the loaded rows and the working set.
    fn saves(
        &self,
        set: &WorkingSet<'_, Self::Row>,
        turns: &HashMap<Name, Turns>,
    ) -> Result<Self::Saves, Self::Error>;
}

/// The parameters of an executor.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The capabilities of the engine.
    pub capabilities: &'a Capabilities,
    /// The source of randomness.
    pub random: &'a Arc<dyn Random>,
}

/// A verb that was run over all rows it needs.
pub struct Ran<T, S> {
    /// The reply, or the error that refuses the whole request.
    pub value: Result<T>,
    /// The writes to commit; none if the request was refused.
    pub saves: S,
    /// Whether a job became ready or a gate opened.
    pub readied: bool,
}

/// Runs a verb over the loaded rows, and loads missing rows and repeats it until none is missing.
pub async fn rounds<S: Store, T>(
    store: &S,
    context: Context<'_>,
    loaded: &mut Loaded<S::Row>,
    parts: PartSet,
    act: &mut Act<'_, S::Row, T>,
) -> Result<Ran<T, S::Saves>, S::Error> {
    for _ in 0..ROUNDS_MAX {
        loaded.count_running_jobs();
        let missing = match run(store, context, loaded, act)? {
            Round::Complete(ran) => return Ok(ran),
            Round::Missing(wants) => wants,
        };
        store.load(&Wants { parts, ..*missing }, loaded).await?;
    }
    let reason = format!("the request needs more than {ROUNDS_MAX} rounds of loading");
    let store = context.capabilities.engine.to_owned();
    Err(Error::Unavailable { store, reason }.into())
}

/// One run of a verb.
enum Round<T, S> {
    Complete(Ran<T, S>),
    /// The run is void: it needs these rows, too.
    Missing(Box<Wants>),
}

fn run<S: Store, T>(
    store: &S,
    context: Context<'_>,
    loaded: &Loaded<S::Row>,
    act: &mut Act<'_, S::Row, T>,
) -> Result<Round<T, S::Saves>, S::Error> {
    let set = WorkingSet::over(loaded, store.lanes());
    let (capabilities, random) = (context.capabilities.clone(), Arc::clone(context.random));
    let mut run = Executor::new(capabilities, random, set, loaded.seq);
    let queues = loaded.queues.clone().unwrap_or_default();
    run.restore(loaded.sessions.clone(), queues, loaded.kinds.clone());
    run.restore_limits(loaded.limits.clone());
    let value = act(&mut run, loaded.now);
    let readied = run.readied() > 0;
    let (set, turns) = run.into_parts();
    let missing = set.missing();
    if !missing.is_empty() {
        return Ok(Round::Missing(Box::new(missing)));
    }
    // A request that is refused as a whole changes nothing.
    let saves = match value.is_ok() {
        true => store.saves(&set, &turns)?,
        false => S::Saves::default(),
    };
    Ok(Round::Complete(Ran { value, saves, readied }))
}

/// The pause before the retry that follows `tries` conflicts: random, and up to 50 ms.
pub fn pause_ms(tries: u32, random: &dyn Random) -> u64 {
    random.below(PAUSE_MAX_MS.min(1 << tries.min(16)) + 1)
}

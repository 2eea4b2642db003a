//! What can be wrong with the way a worker is put together, in words that name the option.

/// Why a worker could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// It has nothing to do.
    #[error("a worker needs a handler: add one with `handle`, `handle_kind` or `handle_blocking`")]
    NoHandlers,
    /// Two handlers for one kind.
    #[error(
        "kind {kind:?} has two handlers: remove one, or give it a kind of its own with `handle_kind`"
    )]
    TwoHandlers {
        /// The kind.
        kind: String,
    },
    /// A handler takes state that the worker was not given.
    #[error(
        "the handler of kind {kind:?} takes State<{state}>, but the worker has none: add it with `.state(…)`"
    )]
    MissingState {
        /// The kind.
        kind: String,
        /// The type.
        state: &'static str,
    },
    /// Two values of one type of state.
    #[error(
        "state of type {state} was given twice: handlers could not tell them apart; wrap one in a type of its own"
    )]
    StateTwice {
        /// The type.
        state: &'static str,
    },
    /// Queues with and without weights.
    #[error(
        "queue {queue:?} has no weight, but others have: use either `queue` or `weighted` for all of them"
    )]
    MixedQueues {
        /// The queue.
        queue: String,
    },
    /// An option for a queue or kind the worker does not have.
    #[error(
        "{option} names {name:?}, which this worker does not serve: add it, or remove the option"
    )]
    Unknown {
        /// The option.
        option: &'static str,
        /// The name.
        name: String,
    },
    /// An option with a value it cannot have.
    #[error("{option} is {value}: {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// What it must be instead.
        expected: String,
    },
    /// A command is to run jobs, but this program has no place where it could be started.
    #[error(
        "kind {kind:?} is handled by a process, but this program has not called `process::enter()`: \
         make that call the first line of main, before arguments are read"
    )]
    NotEntered {
        /// The kind.
        kind: String,
    },
    /// A name or number that no engine would take.
    #[error(transparent)]
    Invalid(#[from] windlass_core::Error),
}

//! Errors of building a worker, with messages that name the option.

/// Why a worker could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No handler was added.
    #[error("a worker needs a handler: add one with `handle`, `handle_kind` or `handle_blocking`")]
    NoHandlers,
    /// One kind has two handlers.
    #[error(
        "kind {kind:?} has two handlers: remove one, or give it a kind of its own with `handle_kind`"
    )]
    TwoHandlers {
        /// The kind.
        kind: String,
    },
    /// No job of the handler's type reaches this worker.
    #[error(
        "the handler of kind {kind:?} can never run: its jobs go to queue {queue:?}, but this worker serves \
         only {served}; add `.queue({queue:?})`, or, if its jobs are enqueued on one of these queues, add the \
         handler with `handle_kind`"
    )]
    Unreachable {
        /// The kind.
        kind: String,
        /// The queue that its jobs go to.
        queue: String,
        /// The queues that the worker serves, in quotes.
        served: String,
    },
    /// A handler takes data that the worker does not have.
    #[error(
        "the handler of kind {kind:?} takes Data<{data}>, but the worker has none: add it with `.data(…)`"
    )]
    MissingData {
        /// The kind.
        kind: String,
        /// The type.
        data: &'static str,
    },
    /// Two values of shared data have the same type.
    #[error(
        "data of type {data} was given twice: handlers cannot distinguish them; wrap one in a type of its own"
    )]
    DataTwice {
        /// The type.
        data: &'static str,
    },
    /// Some queues have weights and some do not.
    #[error(
        "queue {queue:?} has no weight, but others have: use either `queue` or `weighted` for all of them"
    )]
    MixedQueues {
        /// The queue.
        queue: String,
    },
    /// An option names a queue or kind that the worker does not serve.
    #[error(
        "{option} names {name:?}, which this worker does not serve: add it, or remove the option"
    )]
    Unknown {
        /// The option.
        option: &'static str,
        /// The name.
        name: String,
    },
    /// An option has an invalid value.
    #[error("{option} is {value}: {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// A handler is a command, but the program never called `process::enter`.
    #[error(
        "kind {kind:?} is handled by a process, but this program has not called `process::enter()`: \
         make that call the first line of main, before arguments are read"
    )]
    NotEntered {
        /// The kind.
        kind: String,
    },
    /// A name or number that violates the limits of the engine contract.
    #[error(transparent)]
    Invalid(#[from] windlass_core::Error),
}

//! The slow path: loads rows, runs the executor over them, and commits the difference. Makes no decisions about jobs.

mod due;
pub(crate) mod edges;
mod events;
mod groups;
mod heads;
pub(crate) mod load;
pub(crate) mod perform;
mod save;
pub(crate) mod settings;
pub(crate) mod transaction;

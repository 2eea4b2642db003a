//! The slow path, which handles every request: `wants` lists the rows that a verb needs, `load` reads and locks them,
//! `working_set` gives them to the executor, `save` writes the difference, and `perform` repeats until nothing is missing.

pub(crate) mod heartbeat_cache;
pub(crate) mod keyed;
pub(crate) mod load;
pub(crate) mod perform;
pub(crate) mod save;
pub(crate) mod wants;
pub(crate) mod working_set;

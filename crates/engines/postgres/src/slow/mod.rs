//! The slow path, which handles every request: `windlass-workset` lists the rows that a verb needs, `load` reads
//! and locks them, `windlass-workset` gives them to the executor, `save` writes the difference, and `perform` repeats
//! until no row is missing.

mod claim;
pub(crate) mod heartbeat_cache;
pub(crate) mod joined;
pub(crate) mod keyed;
pub(crate) mod load;
pub(crate) mod moves;
pub(crate) mod perform;
pub(crate) mod replaced;
pub(crate) mod save;
#[cfg(test)]
mod silent;
mod wide;

//! Removal of finished jobs whose retention has passed: row by row (`removal`, resumed at `cursor`) or by dropping
//! whole partitions (`partitions`).

pub(crate) mod cursor;
pub(crate) mod partitions;
pub(crate) mod removal;

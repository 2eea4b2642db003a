//! How jobs and lanes are stored in rows, and read back. Shared by the slow and the fast path.

pub(crate) mod codec;
pub(crate) mod entries;
pub(crate) mod lanes;

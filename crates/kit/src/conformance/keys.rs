//! Ordering keys: one job per key at a time, in order of entry.

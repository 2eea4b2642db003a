//! Unique keys: at most one job, and what becomes of the next.

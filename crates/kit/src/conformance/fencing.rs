//! Leases: only the current one counts.

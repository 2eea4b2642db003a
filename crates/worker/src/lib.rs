//! The worker runtime: claim, run, settle.

//! PostgreSQL against random stories.

mod common;

/// Stories told in an ordinary test run.
const CASES: u32 = 12;

windlass_kit::model!(CASES, common::fresh);

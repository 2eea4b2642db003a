//! PostgreSQL against random stories.

/// Number of stories in an ordinary test run.
const CASES: u32 = 12;

windlass_kit::model!(CASES, crate::common::fresh);

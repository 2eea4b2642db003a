//! The memory engine against random stories.

mod common;

/// Number of stories in an ordinary test run.
const CASES: u32 = 1_500;

windlass_kit::model!(CASES, common::fresh);

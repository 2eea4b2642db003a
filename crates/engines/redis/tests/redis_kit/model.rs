//! Redis against random stories.

/// Number of stories in an ordinary test run.
const CASES: u32 = 30;

windlass_kit::model!(CASES, crate::common::fresh);

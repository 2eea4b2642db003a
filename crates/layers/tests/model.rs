//! Coalesce over the memory engine against random stories.

mod common;

/// Number of stories in an ordinary test run; the engine under the layer has its own, longer run.
const CASES: u32 = 300;

windlass_kit::model!(CASES, common::fresh);

//! The model-based test on the local engine.

mod common;

/// Random sequences of calls in a default test run.
const CASES: u32 = 150;

windlass_kit::model!(CASES, common::fresh);

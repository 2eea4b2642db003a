//! Random stories through a server.

mod common;

/// Number of stories in an ordinary test run; each verb of each is a round trip.
const CASES: u32 = 25;

windlass_kit::model!(CASES, common::fresh);

//! `windlass torture`: what it proves about our own engines, and that it can fail: the kit's broken engines,
//! served by a server in this process, are found out by the real binary.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod broken;
#[path = "../database/mod.rs"]
mod database;
mod ends;
mod engines;
// The very engines that the kit's own tests are about.
#[path = "../../../kit/tests/broken/faults.rs"]
mod faults;
#[allow(dead_code, reason = "not every fault falls into this verdict")]
#[path = "../../../kit/tests/broken/faulty.rs"]
mod faulty;
#[allow(dead_code, reason = "one of its faults is to have none")]
#[path = "../../../kit/tests/history/faulty.rs"]
mod faulty_history;
mod refusals;
mod run;

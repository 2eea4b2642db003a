//! Values one step beyond what the contract allows.

use serde::{Deserialize, Serialize};
use windlass::Job;

#[derive(Job, Serialize, Deserialize)]
#[job(max_attempts = 1_000_001)]
struct TooManyAttempts;

#[derive(Job, Serialize, Deserialize)]
#[job(max_attempts = 0)]
struct NoAttempt;

#[derive(Job, Serialize, Deserialize)]
#[job(max_crashes = 1_000_001)]
struct TooManyCrashes;

#[derive(Job, Serialize, Deserialize)]
#[job(timeout = "7d1ms")]
struct TooLong;

#[derive(Job, Serialize, Deserialize)]
#[job(timeout = "0s")]
struct TooShort;

#[derive(Job, Serialize, Deserialize)]
#[job(max_wait = "3653d1ms")]
struct TooPatient;

#[derive(Job, Serialize, Deserialize)]
#[job(retention = "3653d1ms")]
struct TooLongKept;

#[derive(Job, Serialize, Deserialize)]
#[job(backoff = "fixed(365d1ms)")]
struct TooLongApart;

fn main() {}

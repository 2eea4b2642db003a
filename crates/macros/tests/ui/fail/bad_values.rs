//! Values of the wrong form.

use serde::{Deserialize, Serialize};
use windlass::Job;

#[derive(Job, Serialize, Deserialize)]
#[job(timeout = "30")]
struct NoUnit;

#[derive(Job, Serialize, Deserialize)]
#[job(timeout = 30)]
struct NotText;

#[derive(Job, Serialize, Deserialize)]
#[job(backoff = "linear(1s)")]
struct OddBackoff;

#[derive(Job, Serialize, Deserialize)]
#[job(backoff = "exponential(1h, 30s)")]
struct Backwards;

#[derive(Job, Serialize, Deserialize)]
#[job(max_attempts = "three")]
struct NotANumber;

#[derive(Job, Serialize, Deserialize)]
#[job(kind = send_email)]
struct NotQuoted;

#[derive(Job, Serialize, Deserialize)]
#[job(queue)]
struct NoValue;

fn main() {}

//! Words that are not known, or known and said twice.

use serde::{Deserialize, Serialize};
use windlass::Job;

#[derive(Job, Serialize, Deserialize)]
#[job(max_attempt = 3)]
struct NearMiss;

#[derive(Job, Serialize, Deserialize)]
#[job(colour = "red")]
struct FarMiss;

#[derive(Job, Serialize, Deserialize)]
#[job(retention(finish = "1d"))]
struct NearMissInside;

#[derive(Job, Serialize, Deserialize)]
#[job(queue = "a", queue = "b")]
struct Twice;

fn main() {}

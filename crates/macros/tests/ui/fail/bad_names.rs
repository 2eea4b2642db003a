//! Names that no store would take.

use serde::{Deserialize, Serialize};
use windlass::Job;

#[derive(Job, Serialize, Deserialize)]
#[job(kind = "send email")]
struct Spaced;

#[derive(Job, Serialize, Deserialize)]
#[job(kind = "")]
struct Empty;

#[derive(Job, Serialize, Deserialize)]
#[job(kind = "-x")]
struct Dashed;

#[derive(Job, Serialize, Deserialize)]
#[job(kind = "é")]
struct Accented;

#[derive(Job, Serialize, Deserialize)]
#[job(kind = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")]
struct Long;

#[derive(Job, Serialize, Deserialize)]
#[job(queue = "my queue")]
struct OddQueue;

#[derive(Job, Serialize, Deserialize)]
struct Überraschung;

fn main() {}

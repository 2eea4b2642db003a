//! A type that serde can write and not read.

use serde::Serialize;
use windlass::Job;

#[derive(Job, Serialize)]
struct SendEmail {
    to: String,
}

fn main() {}

//! Types that cannot be the payload of one kind.

use serde::{Deserialize, Serialize};
use windlass::Job;

#[derive(Job, Serialize, Deserialize)]
struct Generic<T> {
    inner: T,
}

#[derive(Job, Serialize, Deserialize)]
struct Borrowed<'a> {
    text: &'a str,
}

#[derive(Clone, Copy, Job)]
union Either {
    one: u32,
    other: f32,
}

fn main() {}

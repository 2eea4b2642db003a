//! A type that serde can neither write nor read.

use windlass::Job;

#[derive(Job)]
struct SendEmail {
    to: String,
}

fn main() {}

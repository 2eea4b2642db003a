//! `#[derive(Job)]`: makes a type the payload of a kind of jobs.

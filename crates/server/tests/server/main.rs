//! The server as its clients see it: requests over TCP, real engines behind it.

mod bad_input;
mod bounds;
mod jobs;
mod spy;
mod support;
mod waiting;

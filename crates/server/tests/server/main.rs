//! The server as its clients see it: requests over TCP, with real engines.

mod bad_input;
mod bounds;
mod bulk;
mod connection_limit;
mod dead;
mod described;
mod events;
mod flows;
mod jobs;
mod kinds;
mod metrics;
mod overload;
mod pace;
mod pages;
mod parts;
mod queues;
#[path = "../../../services/tests/services/rescued.rs"]
mod rescued;
mod retention;
mod run_time;
mod schedules;
mod search;
mod series;
mod several;
mod slow;
mod spy;
mod support;
mod traces;
mod waiting;

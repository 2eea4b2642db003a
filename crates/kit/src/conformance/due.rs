//! Delays: jobs that wait for their time.

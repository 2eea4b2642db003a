//! Durable background jobs.

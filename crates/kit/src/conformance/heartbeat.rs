//! Heartbeats and leases nobody declares.

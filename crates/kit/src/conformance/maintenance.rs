//! Maintenance in bounded steps.

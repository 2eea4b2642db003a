//! Waiting for something to claim.

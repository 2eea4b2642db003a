//! Pausing and gating lanes.

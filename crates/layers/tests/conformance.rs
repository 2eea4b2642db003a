//! Coalesce over the memory engine against the whole contract.

mod common;

windlass_kit::conformance!(common::fresh);

//! PostgreSQL against the whole contract.

mod common;

windlass_kit::conformance!(common::fresh);

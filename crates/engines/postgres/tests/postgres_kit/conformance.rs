//! PostgreSQL against the whole contract.

windlass_kit::conformance!(crate::common::fresh);

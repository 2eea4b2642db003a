//! Redis held to every promise of the contract.

windlass_kit::conformance!(crate::common::fresh);

//! The conformance suite on the local engine.

mod common;

windlass_kit::conformance!(common::fresh);

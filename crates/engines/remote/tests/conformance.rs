//! The whole contract through a server: what holds for an engine holds for it over HTTP.

mod common;

windlass_kit::conformance!(common::fresh);

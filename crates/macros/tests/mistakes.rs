//! Mistakes in `#[derive(Job)]` are compile errors that help.
//!
//! The test is in this crate because trybuild compiles everything the package depends on once more, with the
//! features of the test run: here that is `windlass` without its engines.

#[test]
fn mistakes_are_compile_errors_that_help() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
}

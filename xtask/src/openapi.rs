//! `cargo xtask openapi`: writes the committed OpenAPI document anew, by the test that compares it.

use anyhow::Result;

use crate::process;

/// Tells the test to write instead of compare.
const UPDATE_VAR: &str = "WINDLASS_UPDATE_OPENAPI";

pub(crate) fn run() -> Result<()> {
    let mut test = process::cargo(&["test", "--package", "windlass-server", "--test", "server"])?;
    test.arg("the_committed_document_is_the_one_that_is_served").env(UPDATE_VAR, "1");
    process::stream(&mut test)
}

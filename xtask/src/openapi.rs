//! `cargo xtask openapi`: regenerates the committed OpenAPI document, through the test that compares it.

use anyhow::Result;

use crate::process;

/// Environment variable that makes the test write the document instead of comparing it.
const UPDATE_VAR: &str = "WINDLASS_UPDATE_OPENAPI";

pub(crate) fn run() -> Result<()> {
    let mut test = process::cargo(&["test", "--package", "windlass-server", "--test", "server"])?;
    test.arg("the_committed_document_is_the_one_that_is_served").env(UPDATE_VAR, "1");
    process::stream(&mut test)
}

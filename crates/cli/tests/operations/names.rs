//! The names of metrics, wherever they are: in the code, the guide, and expressions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Prefix of our metric names.
const PREFIX: &str = "windlass_";

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the repository.
pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every word of a text that could be the name of a metric.
pub(crate) fn in_text(text: &str) -> BTreeSet<String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c: char| !fits(c));
    words.filter(|word| word.starts_with(PREFIX)).map(str::to_owned).collect()
}

/// Whether a name is that of a function in a Redis server, which begins with a version: `windlass_1_load`.
fn is_function(name: &str) -> bool {
    name[PREFIX.len()..].starts_with(|c: char| c.is_ascii_digit())
}

/// Names of metrics in the code: literals that are a name and nothing else.
pub(crate) fn in_code() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let crates = [root().join("crates"), root().join("crates/engines")];
    for place in crates.iter().flat_map(|dir| fs::read_dir(dir).unwrap().flatten()) {
        sources(&place.path().join("src"), &mut |source| {
            let literals = source.split('"').filter(|it| in_text(it).contains(*it));
            let literals = literals.filter(|name| !is_function(name));
            names.extend(literals.map(str::to_owned));
        });
    }
    names
}

fn sources(dir: &Path, see: &mut impl FnMut(&str)) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, see);
        } else if path.extension().is_some_and(|it| it == "rs") {
            see(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Names in the tables of the guide.
pub(crate) fn in_guide() -> BTreeSet<String> {
    let guide = text("docs/guides/metrics.md");
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split(['`', '{']).next()).map(str::to_owned).collect()
}

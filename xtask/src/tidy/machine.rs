//! Machine names: paths and hosts of a particular machine must not occur in the repository.

use super::Finding;
use super::tree::Tree;

/// Concatenated, so that this file does not match itself.
const DIRECTORIES: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const HOSTS: &[&str] = &[concat!("index.cra", "tes.io"), concat!("arti", "factory")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for (line, text) in file.lines() {
            let directories = DIRECTORIES.iter().filter(|it| starts_a_path(text, it));
            let hosts = HOSTS.iter().filter(|it| text.contains(**it));
            findings.extend(directories.chain(hosts).map(|name| Finding {
                path: file.path.clone(),
                line,
                what: format!("`{name}` is specific to one machine"),
                way_out: "use a path inside the repository, or a public name".to_owned(),
            }));
        }
    }
    findings
}

/// Whether an absolute path starts with `directory`; the same text within a relative path does not count.
fn starts_a_path(text: &str, directory: &str) -> bool {
    text.match_indices(directory).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_hosts_of_a_machine_are_found_in_any_file() {
        for name in DIRECTORIES.iter().chain(HOSTS) {
            let tree = Tree::of(&[("docs/a.md", &format!("fine\nsee `{name}x`\n"))]);
            let found = check(&tree);
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].line, 2, "{name}");
        }
    }

    #[test]
    fn the_same_letters_inside_a_relative_path_are_fine() {
        let text = format!("https://example.com{0}a ..{0}b", DIRECTORIES[0]);
        assert!(check(&Tree::of(&[("a.md", &text)])).is_empty());
    }
}

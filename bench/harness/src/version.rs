//! The version of a crate that a driver was built with.

/// The version of `name` in the text of a Cargo.lock.
pub fn locked_version(lock: &str, name: &str) -> String {
    let wanted = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|line| *line != wanted);
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = \""));
    version.and_then(|rest| rest.strip_suffix('"')).unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_the_lock() {
        let lock = "[[package]]\nname = \"awa\"\nversion = \"0.6.9\"\n";
        assert_eq!(locked_version(lock, "awa"), "0.6.9");
        assert_eq!(locked_version(lock, "aw"), "unknown");
    }
}

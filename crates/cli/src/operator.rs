//! The principal of commands that open a store directly, without a server: the operating system user and the host.

use windlass_services::Principal;

/// File with the local users.
const USERS_FILE: &str = "/etc/passwd";

/// The user of this process, as `cli:USER@HOST`. `$USER` is not used: the user can set it to any name.
pub(crate) fn principal() -> Principal {
    let uid = rustix::process::geteuid().as_raw();
    let users = std::fs::read_to_string(USERS_FILE).unwrap_or_default();
    let user = name(&users, uid).unwrap_or_else(|| format!("uid-{uid}"));
    let host = windlass_services::host_name();
    Principal::direct(format!("cli:{user}@{}", host.as_deref().unwrap_or("localhost")))
}

/// Finds the name of a user in the content of the users file. Users of other directories (LDAP) are not in it.
fn name(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_if_the_system_knows_the_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(name(users, 1000).as_deref(), Some("ada"));
        assert_eq!(name(users, 7), None);
        let who = principal();
        let who = who.name().strip_prefix("cli:").and_then(|who| who.split_once('@'));
        assert!(who.is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()), "{who:?}");
    }
}

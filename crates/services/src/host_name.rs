//! The name of the host that this process runs on.

use windlass_core::check_text;
use windlass_core::limits::NAME_BYTES_MAX;

/// Files that contain the host name; the first readable one is used.
const FILES: [&str; 2] = ["/proc/sys/kernel/hostname", "/etc/hostname"];

/// The name of this host, if the system returns it and it can be shown.
pub fn host_name() -> Option<String> {
    let name = FILES.iter().find_map(|path| std::fs::read_to_string(path).ok())?;
    let name = name.trim();
    check_text("host", name, NAME_BYTES_MAX).is_ok().then(|| name.to_owned())
}

//! A small file system in memory, for tests that fill it. Mounting needs root.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

const FILLER: &str = "filler";

/// A mounted file system, unmounted on drop.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts the file system; `None`, with the reason printed, where mounting is not allowed.
    pub(crate) fn mount(megabytes: u32) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "windlass-faults"]);
        let reason = match mount.arg(dir.path()).output() {
            Ok(output) if output.status.success() => return Some(Self(dir)),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("not checked: no small disk can be mounted here: {reason}");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Simulates another user that takes every free byte.
    pub(crate) fn fill(&self) {
        let file = File::options().create(true).append(true).open(self.path().join(FILLER));
        let mut file = file.expect("a file");
        for size in [1024 * 1024, 64 * 1024, 4 * 1024, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }

    /// Simulates another user that takes free bytes until only `left` remain.
    pub(crate) fn fill_to(&self, left: u64) {
        self.fill();
        let filler = File::options().write(true).open(self.path().join(FILLER)).expect("a file");
        let length = filler.metadata().expect("its length").len();
        filler.set_len(length - left).expect("a shorter one");
    }

    /// Frees the space taken by the other user.
    pub(crate) fn free(&self) {
        std::fs::remove_file(self.path().join(FILLER)).expect("it was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

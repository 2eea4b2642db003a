//! The terminal of `windlass top`: raw mode, the alternate screen, and keys.

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::Write as _;
use std::time::Duration;

/// Enters the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the cursor and leaves the alternate screen.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Moves to the first cell.
const HOME: &str = "\x1b[H";
/// Clears the rest of a line, and of the screen.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// Size of a terminal that does not tell it.
const SIZE_DEFAULT: (usize, usize) = (80, 24);
/// Maximum number of bytes that one key sends.
const KEY_BYTES_MAX: usize = 16;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    Escape,
    Char(u8),
}

/// The terminal, restored on drop.
pub(super) struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Takes over the terminal of this process.
    pub(super) fn take() -> Result<Self> {
        let before = tcgetattr(std::io::stdin()).context("stdin is not a terminal")?;
        let mut raw = before.clone();
        raw.make_raw();
        let stdin = std::io::stdin();
        tcsetattr(&stdin, OptionalActions::Flush, &raw).context("cannot take over the terminal")?;
        let terminal = Self { before };
        write(ENTER)?;
        Ok(terminal)
    }

    /// Width and height, in cells.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => SIZE_DEFAULT,
        }
    }

    /// Shows these lines.
    pub(super) fn draw(&self, lines: &[String]) -> Result<()> {
        // Raw mode does not return to the first column at the end of a line.
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}{CLEAR_LINE}")).collect();
        write(&format!("{HOME}{}{CLEAR_BELOW}", lines.join("\r\n")))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Nothing else can be done if the terminal is gone.
        let _ = write(LEAVE);
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before);
    }
}

fn write(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.context("cannot draw")
}

/// Waits for a key; `None` when the time is up. Blocks.
pub(super) fn key(wait: Duration) -> std::io::Result<Option<Key>> {
    let stdin = std::io::stdin();
    let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    };
    match poll(&mut watched, Some(&wait)) {
        // A signal, such as a new size of the terminal: draw again.
        Ok(0) | Err(Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut bytes = [0; KEY_BYTES_MAX];
    match rustix::io::read(&stdin, &mut bytes) {
        Ok(0) => Err(std::io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(parsed(&bytes[..count])),
        Err(Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn parsed(bytes: &[u8]) -> Option<Key> {
    match bytes {
        b"\x1b" => Some(Key::Escape),
        b"\x1b[A" | b"\x1bOA" => Some(Key::Up),
        b"\x1b[B" | b"\x1bOB" => Some(Key::Down),
        [0x1b, ..] => None,
        [byte, ..] => Some(Key::Char(*byte)),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_their_bytes() {
        let keys = [&b"\x1b"[..], b"\x1b[A", b"\x1bOB", b"q", b"\x03", b"\x1b[5~", b""];
        let expected = [
            Some(Key::Escape),
            Some(Key::Up),
            Some(Key::Down),
            Some(Key::Char(b'q')),
            Some(Key::Char(3)),
            None,
            None,
        ];
        assert_eq!(keys.map(parsed), expected);
    }
}

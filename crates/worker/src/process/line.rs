//! The protocol between host and supervisor.
//!
//! The supervisor sends a greeting, the host sends the payload, and the command runs. The host may request
//! the end of the command; a closed connection means that the host is gone and kills the command at once. The
//! last message of the supervisor is a [`Report`].

use std::fmt;
use std::io;
use std::str::FromStr;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use windlass_core::limits::PAYLOAD_BYTES_MAX;

/// Confirms that the host's program has reached `enter`.
pub(super) const GREETING: u8 = b'w';
/// Requests the end of the command: SIGTERM, then SIGKILL for processes that are still running.
pub(super) const END: u8 = b'e';
/// Maximum size of a report in bytes.
const REPORT_BYTES_MAX: u64 = 4 * 1024;

/// Sends the stdin of the command.
pub(super) async fn send_payload(
    to: &mut (impl AsyncWrite + Unpin),
    payload: &[u8],
) -> io::Result<()> {
    to.write_u64(payload.len() as u64).await?;
    to.write_all(payload).await
}

/// Receives the stdin of the command.
pub(super) async fn receive_payload(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = from.read_u64().await?;
    let length = usize::try_from(length).ok().filter(|it| *it <= PAYLOAD_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("a payload too large for any job"))?;
    let mut payload = vec![0; length];
    from.read_exact(&mut payload).await?;
    Ok(payload)
}

/// Receives the report; `None` if the supervisor exited without one.
pub(super) async fn receive_report(from: &mut (impl AsyncRead + Unpin)) -> Option<Report> {
    let mut text = String::new();
    from.take(REPORT_BYTES_MAX).read_to_string(&mut text).await.ok()?;
    text.parse().ok()
}

/// How a command ended, or why it was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// Exited with this code.
    Exit(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Not started: no free user to run it as.
    NoUser,
    /// Not started, for this reason.
    Failed(String),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::NoUser => f.write_str("nouser "),
            Self::Failed(why) => write!(f, "failed {why}"),
        }
    }
}

impl FromStr for Report {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split_once(' ').ok_or(())? {
            ("exit", code) => code.parse().map(Self::Exit).map_err(drop),
            ("signal", signal) => signal.parse().map(Self::Signal).map_err(drop),
            ("nouser", "") => Ok(Self::NoUser),
            ("failed", why) => Ok(Self::Failed(why.to_owned())),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sent_lines_are_received() {
        for payload in [vec![], vec![7; 100_000]] {
            let mut sent = Vec::new();
            send_payload(&mut sent, &payload).await.unwrap();
            assert_eq!(receive_payload(&mut &sent[..]).await.unwrap(), payload);
            sent.pop();
            receive_payload(&mut &sent[..]).await.unwrap_err();
        }
        let too_long = (PAYLOAD_BYTES_MAX as u64 + 1).to_be_bytes();
        receive_payload(&mut &too_long[..]).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_report_is_read_as_it_was_written() {
        let failed = Report::Failed("no such file\nor directory".to_owned());
        for report in
            [Report::Exit(0), Report::Exit(255), Report::Signal(9), Report::NoUser, failed]
        {
            let text = report.to_string();
            assert_eq!(receive_report(&mut text.as_bytes()).await, Some(report));
        }
        for text in ["", "exit", "exit x", "nouser 1", "done 0"] {
            assert_eq!(receive_report(&mut text.as_bytes()).await, None, "{text:?}");
        }
    }
}

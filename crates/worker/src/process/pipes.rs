//! Reads the output of a command to its end and keeps a bounded part of it.

use std::collections::VecDeque;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes read at a time.
const CHUNK_BYTES: usize = 8 * 1024;

/// The beginning of a stream.
#[derive(Debug)]
pub(super) struct Head {
    /// The kept bytes.
    pub(super) kept: Vec<u8>,
    /// Total number of bytes read.
    pub(super) total: u64,
    max: usize,
}

impl Head {
    /// Keeps at most `max` bytes.
    pub(super) const fn new(max: usize) -> Self {
        Self { kept: Vec::new(), total: 0, max }
    }

    /// Whether all bytes were kept.
    pub(super) const fn is_whole(&self) -> bool {
        self.total <= self.max as u64
    }

    /// Reads to the end of the stream. An error, or no stream at all, counts as the end.
    pub(super) async fn read(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut chunk = [0; CHUNK_BYTES];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            self.total += count as u64;
            let room = self.max.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&chunk[..count.min(room)]);
        }
    }
}

/// The end of a stream.
#[derive(Debug)]
pub(super) struct Tail {
    kept: VecDeque<u8>,
    cut: bool,
    max: usize,
}

impl Tail {
    /// Keeps at most `max` bytes.
    pub(super) const fn new(max: usize) -> Self {
        Self { kept: VecDeque::new(), cut: false, max }
    }

    /// Reads to the end of the stream. An error, or no stream at all, counts as the end.
    pub(super) async fn read(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut chunk = [0; CHUNK_BYTES];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            self.kept.extend(&chunk[..count]);
            let surplus = self.kept.len().saturating_sub(self.max);
            self.cut |= surplus > 0;
            self.kept.drain(..surplus);
        }
    }

    /// The kept bytes as text, from the first complete line if the beginning was dropped.
    pub(super) fn text(&self) -> String {
        let bytes: Vec<u8> = self.kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let whole = match self.cut.then(|| text.split_once('\n')).flatten() {
            Some((_, whole)) if !whole.trim().is_empty() => whole,
            _ => &text,
        };
        whole.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_head_keeps_the_beginning_and_counts_the_rest() {
        let mut head = Head::new(3);
        head.read(Some(&b"abcdef"[..])).await;
        assert_eq!((&head.kept[..], head.total, head.is_whole()), (&b"abc"[..], 6, false));
    }

    #[tokio::test]
    async fn a_tail_keeps_whole_lines_of_the_end() {
        let mut tail = Tail::new(12);
        tail.read(Some(&b"a long line\nlast one\n"[..])).await;
        assert_eq!(tail.text(), "last one");
        let mut tail = Tail::new(4);
        tail.read(Some(&b"one line"[..])).await;
        assert_eq!(tail.text(), "line");
    }
}

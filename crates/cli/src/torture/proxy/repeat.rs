//! Which bytes are one whole HTTP request. It reads no more of it than that.

/// The requests that are sent twice: those that mean the same however late they come, because an id, a
/// claim's name or a lease says what they belong to. (A change from outside does not: a second replay
/// would be another life.)
const BEGINNINGS: [&[u8]; 6] = [
    ENQUEUE,
    b"POST /v1/sessions ",
    b"POST /v1/heartbeat ",
    b"POST /v1/claim ",
    b"POST /v1/settle ",
    b"POST /v1/update ",
];
const ENQUEUE: &[u8] = b"POST /v1/jobs/batch ";
/// What a repeated request must not contain: a job with a unique key may be refused now and stored later.
const UNIQUE: &[u8] = b"\"unique\"";
const HEAD_END: &[u8] = b"\r\n\r\n";
const LENGTH: &str = "content-length:";

/// Whether these bytes begin an enqueue.
pub(super) fn is_enqueue(bytes: &[u8]) -> bool {
    bytes.starts_with(ENQUEUE)
}

/// Whether these bytes are one such request from its first byte to its last.
pub(super) fn whole_request(bytes: &[u8]) -> bool {
    if !BEGINNINGS.iter().any(|beginning| bytes.starts_with(beginning)) {
        return false;
    }
    let Some(end) = bytes.windows(HEAD_END.len()).position(|it| it == HEAD_END) else {
        return false;
    };
    let body = bytes.len() - end - HEAD_END.len();
    let Ok(head) = std::str::from_utf8(&bytes[..end]) else { return false };
    let length = head.lines().find_map(|line| {
        let name = line.get(..LENGTH.len())?;
        name.eq_ignore_ascii_case(LENGTH).then(|| line[LENGTH.len()..].trim().parse().ok())?
    });
    length == Some(body) && !bytes.windows(UNIQUE.len()).any(|it| it == UNIQUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_request_that_may_be_repeated_is_one() {
        assert!(whole_request(b"POST /v1/claim HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"));
        let others: [&[u8]; 8] = [
            b"POST /v1/jobs/batch HTTP/1.1\r\ncontent-length: 10\r\n\r\n{\"unique\"}",
            b"POST /v1/jobs/change HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
            b"POST /v1/claim HTTP/1.1\r\ncontent-length: 3\r\n\r\n{}",
            b"POST /v1/claim HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}{}",
            b"POST /v1/claim HTTP/1.1\r\ncontent-length: 2",
            b"POST /v1/claim HTTP/1.1\r\n\r\n",
            b"GET /v1/jobs HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
            b"{}",
        ];
        for other in others {
            assert!(!whole_request(other), "{:?}", String::from_utf8_lossy(other));
        }
    }
}

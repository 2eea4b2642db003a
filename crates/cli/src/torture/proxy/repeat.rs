//! Recognises whole HTTP requests that may be repeated. It parses nothing else.

/// Requests that may be repeated: they are idempotent however late they arrive, because they name a job id, a
/// claim or a lease. (Changes are not: a second replay would run the job again.)
const BEGINNINGS: [&[u8]; 6] = [
    ENQUEUE,
    b"POST /v1/sessions ",
    b"POST /v1/heartbeat ",
    b"POST /v1/claim ",
    b"POST /v1/settle ",
    b"POST /v1/update ",
];
const ENQUEUE: &[u8] = b"POST /v1/jobs/batch ";
/// A repeated request must not contain this: a job with a unique key may be refused now and stored later.
const UNIQUE: &[u8] = b"\"unique\"";
const HEAD_END: &[u8] = b"\r\n\r\n";
const LENGTH: &str = "content-length:";

/// Whether these bytes start an enqueue request.
pub(super) fn is_enqueue(bytes: &[u8]) -> bool {
    bytes.starts_with(ENQUEUE)
}

/// Whether these bytes are exactly one repeatable request.
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

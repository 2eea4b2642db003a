//! Calls of the Lua functions: commands and their keys, and the values of replies.

use crate::conn::error::{Trouble, Try, corrupt};
use redis::Value;

/// Maximum arguments of one command: Lua cannot unpack more than about 8,000.
pub(crate) const ARGS_MAX: usize = 4_000;

/// Commands for one call, each with one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commands {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
}

impl Commands {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds a command, and returns its number.
    pub(crate) fn push(&mut self, name: &str, key: &[u8], args: &[&[u8]]) -> usize {
        self.keys.push(key.to_vec());
        self.args.push(name.as_bytes().to_vec());
        self.args.push(args.len().to_string().into_bytes());
        self.args.extend(args.iter().map(|arg| arg.to_vec()));
        self.keys.len() - 1
    }

    /// Adds a write with any number of arguments in groups of `size`, as several commands if there are many.
    pub(crate) fn push_all(&mut self, name: &str, key: &[u8], size: usize, args: &[Vec<u8>]) {
        for chunk in args.chunks(ARGS_MAX / size * size) {
            let chunk: Vec<&[u8]> = chunk.iter().map(Vec::as_slice).collect();
            self.push(name, key, &chunk);
        }
    }

    /// Adds the commands of another list.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.keys.append(&mut other.keys);
        self.args.append(&mut other.args);
    }
}

/// Reads of one load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads(pub(crate) Commands);

impl Reads {
    /// Adds a read that a commit verifies.
    pub(crate) fn expect(&mut self, name: &str, key: &[u8], args: &[&[u8]]) -> usize {
        self.0.push(&format!("={name}"), key, args)
    }

    /// Adds a read that may be out of date when the commit happens.
    pub(crate) fn peek(&mut self, name: &str, key: &[u8], args: &[&[u8]]) -> usize {
        self.0.push(&format!("?{name}"), key, args)
    }

    /// Those that a commit verifies.
    pub(crate) fn verified(self) -> Self {
        let (mut kept, mut args) = (Commands::default(), self.0.args.into_iter());
        for key in self.0.keys {
            let (Some(name), Some(count)) = (args.next(), args.next()) else { break };
            let number = std::str::from_utf8(&count).ok().and_then(|count| count.parse().ok());
            let of_command = args.by_ref().take(number.unwrap_or(0));
            if name.first() == Some(&b'=') {
                kept.keys.push(key);
                kept.args.extend([name, count]);
                kept.args.extend(of_command);
            } else {
                of_command.for_each(drop);
            }
        }
        Self(kept)
    }
}

/// Replies of one load, by the number of the read.
#[derive(Debug)]
pub(crate) struct Replies(pub(crate) Vec<Value>);

impl Replies {
    fn value(&self, at: usize) -> Try<&Value> {
        self.0.get(at).ok_or_else(|| corrupt(&"a reply is missing").into())
    }

    /// The bytes of a reply; `None` for a missing key, field or member.
    pub(crate) fn bytes(&self, at: usize) -> Try<Option<&[u8]>> {
        bytes(self.value(at)?)
    }

    /// The list of a reply.
    pub(crate) fn list(&self, at: usize) -> Try<Vec<Option<&[u8]>>> {
        match self.value(at)? {
            Value::Array(values) => values.iter().map(bytes).collect(),
            Value::Nil => Ok(Vec::new()),
            other => Err(unexpected(other)),
        }
    }

    /// The list of a reply without missing values.
    pub(crate) fn members(&self, at: usize) -> Try<Vec<&[u8]>> {
        Ok(self.list(at)?.into_iter().flatten().collect())
    }

    /// The pairs of a reply: fields and values, or members and scores.
    pub(crate) fn pairs(&self, at: usize) -> Try<Vec<(&[u8], &[u8])>> {
        let list = self.members(at)?;
        Ok(list.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    }

    /// The members of a reply with their scores.
    pub(crate) fn scores(&self, at: usize) -> Try<Vec<(&[u8], f64)>> {
        self.pairs(at)?.into_iter().map(|(member, score)| Ok((member, number(score)?))).collect()
    }

    /// The number of a reply; 0 for a missing value.
    pub(crate) fn int(&self, at: usize) -> Try<i64> {
        match self.value(at)? {
            Value::Int(value) => Ok(*value),
            Value::Nil => Ok(0),
            value => Ok(number(bytes(value)?.unwrap_or(b"0"))? as i64),
        }
    }

    /// The score of a reply, if the member exists.
    pub(crate) fn score(&self, at: usize) -> Try<Option<f64>> {
        self.bytes(at)?.map(number).transpose()
    }
}

fn bytes(value: &Value) -> Try<Option<&[u8]>> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        Value::SimpleString(text) => Ok(Some(text.as_bytes())),
        other => Err(unexpected(other)),
    }
}

fn unexpected(value: &Value) -> Trouble {
    corrupt(&format_args!("unexpected reply {value:?}")).into()
}

/// A number as Redis writes scores.
pub(crate) fn number(text: &[u8]) -> Try<f64> {
    let text = std::str::from_utf8(text).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| corrupt(&"a score that is no number").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_repeats_what_it_verifies_and_nothing_else() {
        let mut reads = Reads::default();
        reads.peek("ZRANGE", b"a", &[b"0", b"=5"]);
        reads.expect("HGET", b"b", &[b"f"]);
        reads.peek("INCR", b"c", &[]);
        reads.expect("GET", b"d", &[]);
        let mut wanted = Reads::default();
        wanted.expect("HGET", b"b", &[b"f"]);
        wanted.expect("GET", b"d", &[]);
        let kept = reads.verified().0;
        assert_eq!((kept.keys, kept.args), (wanted.0.keys, wanted.0.args));
    }
}

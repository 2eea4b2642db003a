//! Packed values: numbers of variable length, texts and tokens, one after the other in a byte string.

use crate::codec::{Damaged, Decoded, token_bits, token_of};
use windlass_core::{JobId, Timestamp};

/// Encodes values one after the other.
#[derive(Debug, Default)]
pub struct Pack(Vec<u8>);

impl Pack {
    /// A byte.
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    /// An integer: seven bits per byte, zigzag encoded, so that small numbers of either sign are short.
    pub fn int(&mut self, value: i64) {
        let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
        while rest >= 0x80 {
            self.u8(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.u8(rest as u8);
    }

    /// Bytes of a known length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Bytes with their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.int(bytes.len() as i64);
        self.raw(bytes);
    }

    /// A text with its length.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// A token: 16 bytes if it is 32 hexadecimal digits, otherwise its text.
    pub fn token(&mut self, text: &str) {
        match token_bits(text) {
            Some(bits) => {
                self.u8(1);
                self.raw(&bits.to_be_bytes());
            }
            None => {
                self.u8(0);
                self.text(text);
            }
        }
    }

    /// An optional time as its difference to `since`; one byte if there is none.
    pub fn time(&mut self, at: Option<Timestamp>, since: Timestamp) {
        self.u8(at.is_some().into());
        if let Some(at) = at {
            self.int(at.as_millis().wrapping_sub(since.as_millis()));
        }
    }

    /// The encoded values.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Decodes values in the order in which they were encoded.
#[derive(Clone, Copy, Debug)]
pub struct Unpack<'a>(pub &'a [u8]);

impl<'a> Unpack<'a> {
    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of a known length.
    pub fn raw(&mut self, len: usize) -> Decoded<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// An id.
    pub fn id(&mut self) -> Decoded<JobId> {
        self.array().map(JobId::from_bytes)
    }

    /// A byte.
    pub fn u8(&mut self) -> Decoded<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Eight bytes, the highest first.
    pub fn u64(&mut self) -> Decoded<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// An integer.
    pub fn int(&mut self) -> Decoded<i64> {
        let (mut bits, mut shift) = (0_u64, 0);
        loop {
            let byte = self.u8()?;
            bits |= u64::from(byte & 0x7F).checked_shl(shift).ok_or_else(cut_short)?;
            if byte & 0x80 == 0 {
                break Ok((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed());
            }
            shift += 7;
        }
    }

    /// Bytes with their length.
    pub fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let len = usize::try_from(self.int()?).map_err(|_| cut_short())?;
        self.raw(len)
    }

    /// A text with its length.
    pub fn text(&mut self) -> Decoded<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|error| Damaged::new(&error))
    }

    /// A token.
    pub fn token(&mut self) -> Decoded<String> {
        match self.u8()? {
            0 => self.text().map(str::to_owned),
            _ => self.array().map(|bits| token_of(u128::from_be_bytes(bits))),
        }
    }

    /// An optional time.
    pub fn time(&mut self, since: Timestamp) -> Decoded<Option<Timestamp>> {
        Ok(match self.u8()? {
            0 => None,
            _ => Some(Timestamp::from_millis(since.as_millis().wrapping_add(self.int()?))),
        })
    }
}

fn cut_short() -> Damaged {
    Damaged::new(&"a packed value that ends too soon")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_values_are_unpacked_and_nothing_beyond_them() {
        let since = Timestamp::from_millis(1_000);
        let mut pack = Pack::default();
        let numbers = [-3, 0, 1, 63, 64, 1 << 40, i64::MAX, i64::MIN];
        numbers.into_iter().for_each(|number| pack.int(number));
        pack.text("four");
        pack.token("0123456789abcdef0123456789abcdef");
        pack.token("five");
        let times = [None, Some(Timestamp::from_millis(7)), Some(Timestamp::MAX)];
        times.into_iter().for_each(|at| pack.time(at, since));
        let bytes = pack.into_bytes();
        let mut list = Unpack(&bytes);
        assert_eq!(numbers.map(|_| list.int().unwrap()), numbers);
        assert_eq!(list.text().unwrap(), "four");
        assert_eq!(list.token().unwrap(), "0123456789abcdef0123456789abcdef");
        assert_eq!(list.token().unwrap(), "five");
        assert_eq!(times.map(|_| list.time(since).unwrap()), times);
        assert!(list.is_empty() && list.u8().is_err());
        assert!(Unpack(&[9, 0, 0, 0]).text().is_err());
        assert!(Unpack(&[0xFF; 11]).int().is_err());
    }
}

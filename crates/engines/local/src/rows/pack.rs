//! Packed lists in one column, in place of many narrow rows that are always read and written together.

use super::codec::{self, corrupt};
use windlass_core::{JobId, Result};

/// Encodes values one after the other.
#[derive(Default)]
pub(super) struct Pack(Vec<u8>);

impl Pack {
    pub(super) fn id(&mut self, id: JobId) {
        self.0.extend_from_slice(id.as_bytes());
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A variable-length integer, seven bits per byte.
    pub(super) fn int(&mut self, value: i64) {
        // Zigzag encoding, so that small negative numbers are short too.
        let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
        while rest >= 0x80 {
            self.u8(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.u8(rest as u8);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.int(text.len() as i64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// A token: 16 bytes if it is 32 hexadecimal digits, otherwise its text.
    pub(super) fn token(&mut self, text: &str) {
        match codec::token_bits(text) {
            Some(bits) => {
                self.u8(1);
                self.0.extend_from_slice(&bits.to_be_bytes());
            }
            None => {
                self.u8(0);
                self.text(text);
            }
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Decodes values in the order in which they were encoded.
pub(super) struct Unpack<'a>(pub(super) &'a [u8]);

impl Unpack<'_> {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(super) fn id(&mut self) -> Result<JobId> {
        self.bytes().map(JobId::from_bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        self.bytes().map(u8::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(super) fn int(&mut self) -> Result<i64> {
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

    pub(super) fn text(&mut self) -> Result<String> {
        let len = usize::try_from(self.int()?).map_err(|_| cut_short())?;
        let (text, rest) = self.0.split_at_checked(len).ok_or_else(cut_short)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|error| corrupt(&error))
    }

    pub(super) fn token(&mut self) -> Result<String> {
        match self.u8()? {
            0 => self.text(),
            _ => self.bytes().map(|bits| codec::token_of(u128::from_be_bytes(bits))),
        }
    }
}

fn cut_short() -> windlass_core::Error {
    corrupt(&"a list that ends too soon")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_values_are_unpacked_and_nothing_beyond_them() {
        let id = JobId::from_bytes([7; 16]);
        let mut pack = Pack::default();
        pack.id(id);
        pack.u8(1);
        pack.u32(2);
        let numbers = [-3, 0, 1, 63, 64, 1 << 40, i64::MAX, i64::MIN];
        numbers.into_iter().for_each(|number| pack.int(number));
        pack.text("four");
        pack.token("0123456789abcdef0123456789abcdef");
        pack.token("five");
        let bytes = pack.into_bytes();
        let mut list = Unpack(&bytes);
        assert_eq!((list.id().unwrap(), list.u8().unwrap()), (id, 1));
        assert_eq!(list.u32().unwrap(), 2);
        assert_eq!(numbers.map(|_| list.int().unwrap()), numbers);
        assert_eq!(list.text().unwrap(), "four");
        assert_eq!(list.token().unwrap(), "0123456789abcdef0123456789abcdef");
        assert_eq!(list.token().unwrap(), "five");
        assert!(list.is_empty() && list.u8().is_err());
        assert!(Unpack(&bytes[..10]).id().is_err());
        assert!(Unpack(&[9, 0, 0, 0]).text().is_err());
        assert!(Unpack(&[0xFF; 11]).int().is_err());
    }
}

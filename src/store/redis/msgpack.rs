//! The few `MessagePack` forms that pass between here and the script: integers,
//! texts, and one array around them.

/// Appends the head of an array of `len` items.
pub(super) fn put_array(to: &mut Vec<u8>, len: u32) {
    to.push(0xdd);
    to.extend_from_slice(&len.to_be_bytes());
}

/// Appends a number in its shortest form.
#[expect(clippy::cast_possible_truncation, reason = "each range fits its type")]
pub(super) fn put_number(to: &mut Vec<u8>, number: u64) {
    match number {
        0..=0x7f => to.push(number as u8),
        0x80..=0xff => to.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => {
            to.push(0xcd);
            to.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            to.push(0xce);
            to.extend_from_slice(&(number as u32).to_be_bytes());
        }
        _ => {
            to.push(0xcf);
            to.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// Appends `number` with a minus before it.
pub(super) fn put_negative(to: &mut Vec<u8>, number: u64) {
    to.push(0xd3);
    to.extend_from_slice(&0_i64.saturating_sub_unsigned(number).to_be_bytes());
}

/// What stands in a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// A number, not below zero.
    Number(u64),
    /// A text.
    Text(&'a [u8]),
}

/// Reads a reply from its beginning.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of the items in the array that `bytes` hold. Items that are
    /// missing show when they are read. `None` if there is no array.
    pub(super) fn of_array(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Self { rest: bytes };
        match reader.byte()? {
            0xdc => reader.take(2).map(|_| reader),
            0xdd => reader.take(4).map(|_| reader),
            // Lua has one kind of table; an empty one is written as a map.
            0x90..=0x9f | 0x80 => Some(reader),
            _ => None,
        }
    }

    /// The next item; `None` at the end and where nothing readable stands.
    pub(super) fn item(&mut self) -> Option<Item<'a>> {
        let text_len = match self.byte()? {
            number @ 0..=0x7f => return Some(Item::Number(u64::from(number))),
            0xcc => return self.number(1),
            0xcd => return self.number(2),
            0xce => return self.number(4),
            0xcf => return self.number(8),
            // Some encoders write what is above zero as signed, too.
            0xd0 => return self.signed(1),
            0xd1 => return self.signed(2),
            0xd2 => return self.signed(4),
            0xd3 => return self.signed(8),
            short @ 0xa0..=0xbf => u64::from(short & 0x1f),
            0xd9 => self.big_endian(1)?,
            0xda => self.big_endian(2)?,
            0xdb => self.big_endian(4)?,
            _ => return None,
        };
        self.take(usize::try_from(text_len).ok()?).map(Item::Text)
    }

    /// The next item if it is a number.
    pub(super) fn next_number(&mut self) -> Option<u64> {
        match self.item()? {
            Item::Number(number) => Some(number),
            Item::Text(_) => None,
        }
    }

    fn number(&mut self, len: usize) -> Option<Item<'a>> {
        self.big_endian(len).map(Item::Number)
    }

    fn signed(&mut self, len: usize) -> Option<Item<'a>> {
        let number = self.big_endian(len)?;
        let negative = number >> (8 * len - 1) == 1;
        (!negative).then_some(Item::Number(number))
    }

    fn big_endian(&mut self, len: usize) -> Option<u64> {
        let bytes = self.take(len)?;
        Some(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back() {
        let numbers =
            [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000, 0xffff_ffff, 1 << 32, 1 << 52];
        let mut bytes = Vec::new();
        put_array(&mut bytes, 11);
        for number in numbers {
            put_number(&mut bytes, number);
        }
        let mut reader = Reader::of_array(&bytes).unwrap();
        for number in numbers {
            assert_eq!(reader.next_number(), Some(number));
        }
        assert_eq!(reader.item(), None);
    }

    #[test]
    fn negative_numbers_are_written_in_twos_complement() {
        let mut bytes = Vec::new();
        put_negative(&mut bytes, 2);
        assert_eq!(bytes, [0xd3, 255, 255, 255, 255, 255, 255, 255, 254]);
    }

    #[test]
    fn what_is_cut_off_or_foreign_is_not_read() {
        for bytes in [&[][..], &[0xc0], &[0xdd, 0, 0], &[0xa5, b'x'], &[0x05]] {
            assert!(Reader::of_array(bytes).is_none(), "{bytes:?}");
        }
        // Cut off: numbers and texts. Foreign: nil, a float, a negative number.
        for item in [&[0xce, 0, 0][..], &[0xa5, b'x'], &[0xdb, 255, 255, 255, 255], &[0xc0]] {
            assert_eq!(Reader { rest: item }.item(), None, "{item:?}");
        }
        for item in [&[0xcb, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0xff], &[0xd0, 0x80]] {
            assert_eq!(Reader { rest: item }.item(), None, "{item:?}");
        }
    }

    #[test]
    fn texts_of_every_form_are_read() {
        for head in [&[0xa2][..], &[0xd9, 2], &[0xda, 0, 2], &[0xdb, 0, 0, 0, 2]] {
            let bytes = [head, b"no"].concat();
            assert_eq!(Reader { rest: &bytes }.item(), Some(Item::Text(b"no")));
        }
    }
}

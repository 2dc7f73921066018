//! The names of counters: unambiguous, readable, bounded in length.
//!
//! `domain|key=value|…|limit`, where `limit` is the algorithm with its window.
//! In every part `%`, `|`, `=`, braces and control characters are written as
//! `%XX`, so that no text from a client can imitate another key, forge a hash
//! tag of Redis Cluster or break a line. A key longer than [`MAX_KEY`] bytes is
//! replaced by its BLAKE3 hash.
//!
//! In Redis Cluster the beginning of a key is in braces, up to where its
//! [`HashTag`] says: only that decides on its slot, and no other text of a key
//! has braces. It stays when the rest is replaced, and is replaced by its own
//! hash if it is longer than [`MAX_TAG`] bytes, whatever follows.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::HashTag;
use crate::limit::fixed_window::Align;
use crate::limit::{Limit, Unit};

/// Longest key that is kept as it is, in bytes.
pub const MAX_KEY: usize = 192;

/// Longest hash tag that is kept as it is, in bytes: with it and the hash of the
/// rest, a key is no longer than [`MAX_KEY`].
pub const MAX_TAG: usize = MAX_KEY - 2 - HASH;

/// How long a hash is as text, with the sign before it.
const HASH: usize = 65;

/// The keys of one request, in one buffer.
#[derive(Clone, Debug, Default)]
pub struct KeyBuf {
    bytes: SmallVec<[u8; 256]>,
}

/// One key in a [`KeyBuf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef {
    start: u32,
    end: u32,
}

/// What a key says of its limit, as text: made once for each rule, so that a
/// decision only copies it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag(Cow<'static, str>);

/// A key under construction; dropped unless finished.
#[derive(Debug)]
pub struct KeyWriter<'a> {
    buf: &'a mut KeyBuf,
    start: usize,
    tag: TagState,
}

/// Where the hash tag of a key ends.
#[derive(Clone, Copy, Debug)]
enum TagState {
    /// It has none.
    None,
    /// Further on.
    Open(HashTag),
    /// After so many bytes of the key.
    Closed(usize),
}

impl Tag {
    /// The tag of `limit`: its `Display`. Limits that come with requests, one
    /// epoch-aligned window of one unit each, need not be written out.
    pub fn of(limit: &Limit) -> Self {
        Self(Self::of_unit(limit).map_or_else(|| limit.to_string().into(), Cow::Borrowed))
    }

    fn of_unit(limit: &Limit) -> Option<&'static str> {
        let Limit::FixedWindow(limit) = limit else { return None };
        let unit = Unit::ALL.into_iter().find(|unit| unit.span() == limit.window())?;
        let tag = match unit {
            Unit::Second => "fw1s",
            Unit::Minute => "fw60s",
            Unit::Hour => "fw3600s",
            Unit::Day => "fw86400s",
            Unit::Week => "fw604800s",
            Unit::Month => "fw2592000s",
            Unit::Year => "fw31536000s",
        };
        (limit.align() == Align::Epoch).then_some(tag)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl KeyBuf {
    /// A buffer of one key, whose bytes come from another.
    pub fn of(key: &[u8]) -> (Self, KeyRef) {
        let buf = Self { bytes: SmallVec::from_slice(key) };
        (buf, KeyRef { start: 0, end: offset(key.len()) })
    }

    /// The bytes of a key.
    pub fn get(&self, key: KeyRef) -> &[u8] {
        self.bytes.get(key.start as usize..key.end as usize).unwrap_or_default()
    }

    /// Starts a key of `domain`.
    pub fn writer(&mut self, domain: &str) -> KeyWriter<'_> {
        self.tagged_writer(domain, None)
    }

    /// The same with a hash tag for Redis Cluster, if one is given.
    pub fn tagged_writer(&mut self, domain: &str, tag: Option<HashTag>) -> KeyWriter<'_> {
        let start = self.bytes.len();
        let state = tag.map_or(TagState::None, TagState::Open);
        let mut writer = KeyWriter { buf: self, start, tag: state };
        if tag.is_some() {
            writer.buf.bytes.push(b'{');
        }
        writer.escaped(domain);
        if tag == Some(HashTag::Domain) {
            writer.close_tag();
        }
        writer
    }
}

impl KeyBuf {
    /// Puts the hash of everything from `start` on in the place of everything
    /// from `at` on.
    fn hash(&mut self, start: usize, at: usize) {
        let hash = blake3::hash(&self.bytes[start..]).to_hex();
        self.bytes.truncate(at);
        self.bytes.push(b'#');
        self.bytes.extend_from_slice(hash.as_bytes());
    }
}

impl KeyWriter<'_> {
    /// Adds one entry of the descriptor.
    pub fn entry(&mut self, key: &str, value: &str) {
        self.buf.bytes.push(b'|');
        self.escaped(key);
        self.buf.bytes.push(b'=');
        self.escaped(value);
        if matches!(self.tag, TagState::Open(HashTag::FirstEntry)) {
            self.close_tag();
        }
    }

    /// A key of what was written so far and this limit; further ones may follow.
    pub fn branch(&mut self, tag: &Tag) -> KeyRef {
        let (start, length) = (self.start, self.buf.bytes.len());
        let written = SmallVec::<[u8; 256]>::from_slice(&self.buf.bytes[start..length]);
        let key = KeyWriter { buf: self.buf, start, tag: self.tag }.finish_as(tag);
        self.start = self.buf.bytes.len();
        self.buf.bytes.extend_from_slice(&written);
        key
    }

    /// Ends the key with the limit that it counts for.
    pub fn finish(self, limit: &Limit) -> KeyRef {
        self.finish_as(&Tag::of(limit))
    }

    /// Ends the key with the tag of the limit that it counts for.
    pub fn finish_as(mut self, tag: &Tag) -> KeyRef {
        if matches!(self.tag, TagState::Open(_)) {
            self.close_tag();
        }
        let Self { buf, start, tag: hash_tag } = self;
        buf.bytes.push(b'|');
        buf.bytes.extend_from_slice(tag.as_str().as_bytes());
        if buf.bytes.len() - start > MAX_KEY {
            let kept = if let TagState::Closed(length) = hash_tag { length } else { 0 };
            buf.hash(start, start + kept);
        }
        KeyRef { start: offset(start), end: offset(buf.bytes.len()) }
    }

    /// Ends the hash tag.
    fn close_tag(&mut self) {
        let text = self.start + 1;
        if self.buf.bytes.len() - text > MAX_TAG {
            self.buf.hash(text, text);
        }
        self.buf.bytes.push(b'}');
        self.tag = TagState::Closed(self.buf.bytes.len() - self.start);
    }

    /// Forgets the key.
    pub fn discard(self) {
        self.buf.bytes.truncate(self.start);
    }

    fn escaped(&mut self, part: &str) {
        let mut plain = 0;
        let bytes = part.as_bytes();
        for (at, &byte) in bytes.iter().enumerate() {
            if matches!(byte, b'%' | b'|' | b'=' | b'{' | b'}' | 0..=0x1f | 0x7f) {
                self.buf.bytes.extend_from_slice(&bytes[plain..at]);
                let hex = [hex_digit(byte >> 4), hex_digit(byte & 15)];
                self.buf.bytes.extend_from_slice(&[b'%', hex[0], hex[1]]);
                plain = at + 1;
            }
        }
        self.buf.bytes.extend_from_slice(&bytes[plain..]);
    }
}

const fn hex_digit(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'A' + (nibble - 10),
    }
}

/// Offsets are `u32`: a message is at most a few MiB, and keys are bounded.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::FixedWindow;
    use crate::units::{Hits, Span};

    fn key(domain: &str, entries: &[(&str, &str)]) -> String {
        tagged(None, domain, entries)
    }

    fn tagged(tag: Option<HashTag>, domain: &str, entries: &[(&str, &str)]) -> String {
        let limit =
            Limit::FixedWindow(FixedWindow::new(Hits::new(1), Span::from_secs(60)).unwrap());
        let mut buf = KeyBuf::default();
        let mut writer = buf.tagged_writer(domain, tag);
        for (key, value) in entries {
            writer.entry(key, value);
        }
        let key = writer.finish(&limit);
        String::from_utf8(buf.get(key).to_vec()).unwrap()
    }

    #[test]
    fn a_key_can_be_read() {
        assert_eq!(
            key("shop", &[("path", "/cart"), ("ip", "1.2.3.4")]),
            "shop|path=/cart|ip=1.2.3.4|fw60s"
        );
    }

    #[test]
    fn one_descriptor_has_a_key_for_each_rate() {
        let limit = |secs| FixedWindow::new(Hits::new(1), Span::from_secs(secs)).unwrap();
        let mut buf = KeyBuf::default();
        let mut writer = buf.writer("d");
        writer.entry("k", "v");
        let one = writer.branch(&Tag::of(&Limit::FixedWindow(limit(1))));
        let two = writer.finish(&Limit::FixedWindow(limit(60)));
        assert_eq!((buf.get(one), buf.get(two)), (&b"d|k=v|fw1s"[..], &b"d|k=v|fw60s"[..]));
    }

    #[test]
    fn a_tag_is_what_the_limit_displays() {
        let hits = Hits::new(1);
        let windows = Unit::ALL.map(|unit| FixedWindow::of_unit(hits, unit));
        let others = windows.map(|window| window.with_align(Align::FirstHit));
        let odd = FixedWindow::new(hits, Span::from_millis(1_500)).unwrap();
        for window in windows.into_iter().chain(others).chain([odd]) {
            let limit = Limit::FixedWindow(window);
            assert_eq!(Tag::of(&limit).as_str(), limit.to_string());
        }
    }

    #[test]
    fn parts_cannot_imitate_each_other() {
        let keys = [
            key("a", &[("b", "c|d=e")]),
            key("a", &[("b", "c"), ("d", "e")]),
            key("a|b=c", &[("d", "e")]),
            key("a", &[("b", "c%7Cd=e")]),
            key("a", &[("b=c", "")]),
            key("a", &[("b", "=c")]),
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{keys:#?}");
    }

    #[test]
    fn braces_and_control_characters_are_escaped() {
        assert_eq!(key("a{b}", &[("c", "x\n\0y")]), "a%7Bb%7D|c=x%0A%00y|fw60s");
    }

    #[test]
    fn a_long_key_is_hashed_to_a_bounded_one() {
        let (long, longer) = ("x".repeat(500), "x".repeat(501));
        let (one, two) = (key("a", &[("b", &long)]), key("a", &[("b", &longer)]));
        assert_eq!(one.len(), 65);
        assert_ne!(one, two);
    }

    #[test]
    fn the_hash_tag_is_the_beginning_of_the_key_in_braces() {
        let entries = [("path", "/{x}"), ("ip", "1.2.3.4")];
        for (tag, expected) in [
            (HashTag::Domain, "{shop}|path=/%7Bx%7D|ip=1.2.3.4|fw60s"),
            (HashTag::FirstEntry, "{shop|path=/%7Bx%7D}|ip=1.2.3.4|fw60s"),
            (HashTag::Entries, "{shop|path=/%7Bx%7D|ip=1.2.3.4}|fw60s"),
        ] {
            assert_eq!(tagged(Some(tag), "shop", &entries), expected);
            assert_eq!(HashTag::parse(tag.name()), Some(tag));
        }
        assert_eq!(HashTag::parse("key"), None);
    }

    /// Everything up to the closing brace.
    fn tag_of(key: &str) -> &str {
        let end = key.find('}').unwrap();
        assert_eq!(key.matches(['{', '}']).count(), 2, "{key}");
        &key[..=end]
    }

    #[test]
    fn long_keys_and_tags_are_bounded_and_stay_in_their_slot() {
        let lengths = (0..4).chain(100..260).chain([65_536]);
        for value in lengths.map(|length| "}".repeat(length)) {
            for tag in HashTag::ALL {
                let entries = [("a", &*value), ("b", "1"), ("c", &*value)];
                let key = tagged(Some(tag), "d", &entries);
                assert!(key.len() <= MAX_KEY, "{key}");
                let same = match tag {
                    HashTag::Domain => tagged(Some(tag), "d", &[("x", "y")]),
                    HashTag::FirstEntry => tagged(Some(tag), "d", &[("a", &value), ("x", "y")]),
                    HashTag::Entries => continue,
                };
                assert_eq!(tag_of(&key), tag_of(&same));
                assert_ne!(key, same);
            }
        }
    }

    #[test]
    fn the_rates_of_a_rule_share_a_tag_at_every_length() {
        let limit = |secs| {
            let window = FixedWindow::new(Hits::new(1), Span::from_secs(secs)).unwrap();
            Tag::of(&Limit::FixedWindow(window))
        };
        for length in 0..400 {
            let mut buf = KeyBuf::default();
            let mut writer = buf.tagged_writer("d", Some(HashTag::Entries));
            writer.entry("k", &"x".repeat(length));
            let one = writer.branch(&limit(1));
            let two = writer.finish_as(&limit(31_536_000));
            let text = |key| String::from_utf8(buf.get(key).to_vec()).unwrap();
            assert_eq!(tag_of(&text(one)), tag_of(&text(two)));
            assert_ne!(one, two);
        }
    }
}

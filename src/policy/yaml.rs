//! From text to trees that remember where everything stands.
//!
//! The trees are built from the parser's events: a typed reader reports only
//! its first error, without a place, and rewrites scalars (`010`, `1.10`) that
//! are to be matched as written. Aliases and merge keys are resolved here, and
//! nothing grows without bound: not depth, not size, and not what a few aliases
//! of aliases stand for.

mod build;
mod decode;
mod tabs;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScanError};

use self::build::Builder;
use self::tabs::Tabs;
use super::fault::Position;

/// Largest file, in bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// Deepest nesting of lists and mappings, aliases followed.
pub const MAX_DEPTH: usize = 64;
/// Most that aliases may add to a file, in bytes of text and
/// [`NODE_WEIGHT`] for each node.
pub const MAX_ADDED: usize = 8 << 20;
/// What a node counts for beside its text.
const NODE_WEIGHT: usize = 16;

/// A part of a document. Cheap to clone: aliases share what they stand for.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it begins; for a value left out, where its key does.
    pub at: Position,
    /// What it is.
    pub kind: Kind,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Text. `plain` text stands without quotes and may mean a number, a truth
    /// value or nothing; other text is only text.
    Scalar {
        /// The text as written, quotes and escapes resolved.
        text: Rc<str>,
        /// Whether it stood without quotes.
        plain: bool,
    },
    /// A list.
    List(Rc<[Node]>),
    /// A mapping, in the order written, with merge keys resolved.
    Map(Rc<[Entry]>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: Node,
    /// The value.
    pub value: Node,
    /// Where the same key stands before in the same mapping.
    pub repeats: Option<Position>,
}

/// Something that makes a text no good YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub at: Position,
    /// What.
    pub message: String,
    /// What to do.
    pub hint: Option<&'static str>,
}

impl Problem {
    fn new(at: Position, message: impl std::fmt::Display) -> Self {
        let message = format!("error loading config file: yaml: line {}: {message}", at.line);
        Self { at, message, hint: None }
    }

    fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

/// What a text holds.
#[derive(Debug, Default)]
pub struct Parsed {
    /// Its documents up to the first error of syntax, empty ones aside.
    pub documents: Vec<Node>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
}

/// Reads all documents of a text.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut builder = Builder::default();
    if let Err(problem) = read(bytes, &mut builder) {
        builder.problems.push(problem);
    }
    Parsed { documents: builder.documents, problems: builder.problems }
}

fn read(bytes: &[u8], builder: &mut Builder) -> Result<(), Problem> {
    let text = decode::text(bytes)?;
    let mut tabs = Tabs::of(text);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| syntax(&error))?;
        tabs.check(&event, span)?;
        let at = position(span.start);
        match event {
            Event::DocumentStart(_) => builder.start_document(),
            Event::Scalar(text, style, anchor, tag) => {
                builder.scalar(at, &text, style, anchor, tag.as_deref());
            }
            Event::SequenceStart(anchor, tag) => builder.open_list(at, anchor, tag.as_deref())?,
            Event::MappingStart(anchor, tag) => builder.open_map(at, anchor, tag.as_deref())?,
            Event::SequenceEnd | Event::MappingEnd => builder.close(),
            Event::Alias(anchor) => builder.alias(at, anchor)?,
            Event::DocumentEnd | Event::StreamStart | Event::StreamEnd | Event::Nothing => {}
        }
    }
    Ok(())
}

fn position(marker: Marker) -> Position {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Position { line: number(marker.line()), column: number(marker.col() + 1) }
}

const UNKNOWN_ANCHOR_HINT: &str = "an alias (*name) needs its anchor (&name) above it in the same \
     document; put a text that begins with '*' in quotes";

/// The parser's error, with a hint for the usual ones.
fn syntax(error: &ScanError) -> Problem {
    const HINTS: &[(&str, &str)] = &[
        ("valid YAML whitespace", "put a space after the colon"),
        ("tab", "indent with spaces, YAML allows no tabs there"),
        (
            "mapping values are not allowed",
            "check the indentation, or put a text that holds ': ' in quotes",
        ),
        ("unexpected character", "put a text that begins with this character in quotes"),
        ("unknown anchor", UNKNOWN_ANCHOR_HINT),
        ("anchor or alias", "put a text that begins with '&' or '*' in quotes"),
        ("flow sequence", "close the list with ']' and put ',' between its items"),
        ("flow mapping", "close the mapping with '}' and put ',' between its entries"),
        ("bracket", "remove the bracket, or put the text in quotes"),
        ("escape", "write \\\\ for a backslash, or use single quotes"),
        ("trailing content", "a quote inside of quotes is written '' or \\\""),
        ("quoted scalar", "close the quotes"),
        ("simple key", "a key needs a colon and a space: `key: value`"),
        ("recursion limit", "nest less deeply"),
        ("", "check the indentation of this line and the one above it"),
    ];
    let problem = Problem::new(position(*error.marker()), error.info());
    match HINTS.iter().find(|(sign, _)| error.info().contains(sign)) {
        Some((_, hint)) => problem.hint(hint),
        None => problem,
    }
}

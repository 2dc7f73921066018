//! What is wrong with a configuration, where, and what to do about it.

use std::fmt;
use std::sync::Arc;

/// Faults beyond this many are only counted: a generated file can repeat one
/// mistake a hundred thousand times.
const MAX_LISTED: usize = 1_000;

/// Longest piece of the file's own text in a message, in characters.
const MAX_SHOWN: usize = 200;

/// A place in a text. Both numbers start at one and the column counts
/// characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

impl Position {
    /// No place in particular: the whole file, or a source without lines.
    pub const UNKNOWN: Self = Self { line: 0, column: 0 };
    /// Where a text begins.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A place in a named source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or whatever else rules came from.
    pub file: Arc<str>,
    /// Where in it.
    pub at: Position,
}

impl fmt::Display for Place {
    /// `FILE:LINE:COLUMN`, or only `FILE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.at;
        if self.at == Position::UNKNOWN {
            return write!(f, "{}", self.file);
        }
        write!(f, "{}:{line}:{column}", self.file)
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file, or whatever else the rules came from.
    pub file: Arc<str>,
    /// Where in it.
    pub position: Position,
    /// The rule that it concerns: `shop > path=/cart > ip`.
    pub path: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault at `place`.
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        let Place { file, at } = place;
        Self { file, position: at, path: None, message: message.into(), hint: None }
    }

    /// The same with what to do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same with the rule that it concerns, given as the steps to it.
    #[must_use]
    pub fn within<S: AsRef<str>>(self, steps: &[S]) -> Self {
        let steps: Vec<&str> = steps.iter().map(AsRef::as_ref).collect();
        let path = (!steps.is_empty()).then(|| clipped(&steps.join(" > ")));
        Self { path, ..self }
    }
}

impl fmt::Display for Fault {
    /// `FILE:LINE:COLUMN: MESSAGE (in PATH); HINT`, on one line whatever the
    /// file holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = Place { file: Arc::clone(&self.file), at: self.position };
        write!(f, "{}: {}", Escaped(&place.to_string()), Escaped(&self.message))?;
        if let Some(path) = &self.path {
            write!(f, " (in {})", Escaped(path))?;
        }
        match &self.hint {
            Some(hint) => write!(f, "; {}", Escaped(hint)),
            None => Ok(()),
        }
    }
}

/// Faults being collected.
#[derive(Debug, Default)]
pub struct Faults {
    listed: Vec<Fault>,
    unlisted: usize,
    lenient: bool,
    slips: Vec<Fault>,
}

impl Faults {
    /// None yet; slips are let pass where that is `lenient`.
    pub fn new(lenient: bool) -> Self {
        Self { lenient, ..Self::default() }
    }

    /// Adds a slip: envoyproxy/ratelimit ignores it, so a file that has served
    /// there may have it. Returns whether it is let pass.
    pub fn slip(&mut self, fault: Fault) -> bool {
        if !self.lenient {
            self.push(fault);
        } else if self.slips.len() < MAX_LISTED {
            self.slips.push(fault);
        }
        self.lenient
    }

    /// Whether slips are let pass.
    pub fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// The slips that were let pass.
    pub fn take_slips(&mut self) -> Vec<Fault> {
        std::mem::take(&mut self.slips)
    }

    /// Adds one.
    pub fn push(&mut self, fault: Fault) {
        if self.listed.len() < MAX_LISTED {
            self.listed.push(fault);
        } else {
            self.unlisted += 1;
        }
    }

    /// `value`, unless there are faults.
    ///
    /// # Errors
    /// All faults, by file and place.
    pub fn unless_any<T>(mut self, value: T) -> Result<T, LoadError> {
        if self.listed.is_empty() {
            return Ok(value);
        }
        let order =
            |fault: &Fault| (Arc::clone(&fault.file), fault.position, fault.message.clone());
        self.listed.sort_by_cached_key(order);
        self.listed.dedup();
        Err(LoadError { faults: self.listed, unlisted: self.unlisted })
    }
}

/// Why policies were refused: every fault found.
#[derive(Clone, Debug, thiserror::Error)]
pub struct LoadError {
    faults: Vec<Fault>,
    unlisted: usize,
}

impl LoadError {
    /// The faults, by file and place. At least one.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

impl fmt::Display for LoadError {
    /// One fault per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let line_break = if index == 0 { "" } else { "\n" };
            write!(f, "{line_break}{fault}")?;
        }
        match self.unlisted {
            0 => Ok(()),
            more => write!(f, "\nand {more} faults more"),
        }
    }
}

/// Text of a file as messages show it: in quotes, and cut when long.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", clipped(text))
}

/// Text of a file, cut when long.
pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Text that cannot begin a line of its own nor steer a terminal.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for char in self.0.chars() {
            // Line separators, and marks that turn the direction of writing.
            let steers = matches!(char, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            if char.is_control() || steers {
                write!(f, "{}", char.escape_default())?;
            } else {
                f.write_char(char)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str, line: u32, column: u32) -> Place {
        Place { file: file.into(), at: Position { line, column } }
    }

    #[test]
    fn a_fault_is_one_line_whatever_the_file_holds() {
        let fault = Fault::new(place("a\nb.yaml", 3, 5), "unknown key 'x\n\u{1b}[31m\u{202e}'")
            .within(&["shop", "path=/cart", "ip\r"])
            .hint("did you mean 'y'?");
        assert_eq!(
            fault.to_string(),
            "a\\nb.yaml:3:5: unknown key 'x\\n\\u{1b}[31m\\u{202e}' \
             (in shop > path=/cart > ip\\r); did you mean 'y'?"
        );
    }

    #[test]
    fn a_fault_without_place_path_and_hint_says_only_what_it_knows() {
        let place = Place { file: "rules".into(), at: Position::UNKNOWN };
        let fault = Fault::new(place, "is empty").within::<&str>(&[]);
        assert_eq!(fault.to_string(), "rules: is empty");
    }

    #[test]
    fn faults_are_ordered_by_file_and_place_and_equal_ones_named_once() {
        let mut faults = Faults::default();
        for (file, line) in [("b", 1), ("a", 9), ("a", 2), ("a", 9)] {
            faults.push(Fault::new(place(file, line, 1), "wrong"));
        }
        let error = faults.unless_any(()).unwrap_err();
        assert_eq!(error.to_string(), "a:2:1: wrong\na:9:1: wrong\nb:1:1: wrong");
    }

    #[test]
    fn endless_faults_are_counted_but_not_kept() {
        let mut faults = Faults::default();
        for line in 1..=1_234 {
            faults.push(Fault::new(place("a", line, 1), "wrong"));
        }
        let error = faults.unless_any(()).unwrap_err();
        assert_eq!(error.faults().len(), MAX_LISTED);
        assert!(error.to_string().ends_with("\nand 234 faults more"));
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let shown = quoted(&"é".repeat(1_000));
        assert_eq!(shown.chars().count(), MAX_SHOWN + 3);
    }
}

//! Tabs in indentation, which the parser lets pass in places where other
//! readers do not.

use saphyr_parser::{Event, Span};

use super::{Problem, position};
use crate::policy::fault::Position;

/// Follows the parser through a text and finds nodes that tabs indent. Inside
/// of `[]` and `{}` indentation means nothing and tabs are allowed.
#[derive(Debug)]
pub struct Tabs<'t> {
    /// The text by lines, if any of them begins with a tab; most texts have none.
    lines: Vec<&'t str>,
    /// Whether each open list and mapping is written with brackets.
    bracketed: Vec<bool>,
}

impl<'t> Tabs<'t> {
    /// The tabs of `text`.
    pub fn of(text: &'t str) -> Self {
        let lines = text
            .split('\n')
            .flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
            .collect::<Vec<_>>();
        let any = lines.iter().any(|line| indentation(line).contains('\t'));
        Self { lines: if any { lines } else { Vec::new() }, bracketed: Vec::new() }
    }

    /// Looks at the next event.
    ///
    /// # Errors
    /// If a node begins where tabs have brought it.
    pub fn check(&mut self, event: &Event<'_>, span: Span) -> Result<(), Problem> {
        if self.lines.is_empty() {
            return Ok(());
        }
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                self.check_start(span)?;
                self.bracketed.push(self.opens_with_bracket(span));
            }
            Event::Scalar(..) | Event::Alias(_) => self.check_start(span)?,
            Event::SequenceEnd | Event::MappingEnd => {
                self.bracketed.pop();
            }
            _ => {}
        }
        Ok(())
    }

    fn check_start(&self, span: Span) -> Result<(), Problem> {
        if self.bracketed.last() == Some(&true) {
            return Ok(());
        }
        let before = indentation(self.line(span.start.line()));
        let tab = before.chars().position(|char| char == '\t');
        match tab {
            Some(tab) if before.chars().count() == span.start.col() => {
                let column = u32::try_from(tab).unwrap_or(u32::MAX).saturating_add(1);
                let at = Position { column, ..position(span.start) };
                Err(Problem::new(at, "found a tab in the indentation")
                    .hint("indent with spaces, YAML allows no tabs there"))
            }
            _ => Ok(()),
        }
    }

    fn opens_with_bracket(&self, span: Span) -> bool {
        let line = self.line(span.end.line());
        let last = span.end.col().checked_sub(1).and_then(|last| line.chars().nth(last));
        matches!(last, Some('[' | '{'))
    }

    fn line(&self, number: usize) -> &'t str {
        number.checked_sub(1).and_then(|index| self.lines.get(index)).copied().unwrap_or_default()
    }
}

/// The blank characters that a line begins with.
fn indentation(line: &str) -> &str {
    let rest = line.trim_start_matches([' ', '\t']);
    line.get(..line.len() - rest.len()).unwrap_or_default()
}

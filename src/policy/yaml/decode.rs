//! From bytes to text that the parser may see.

use super::{MAX_BYTES, Problem};
use crate::policy::fault::Position;

/// The text that `bytes` hold, without a byte order mark.
///
/// # Errors
/// If there is too much of it, if it is not UTF-8, or if it holds control
/// characters.
pub fn text(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file is larger than {} MiB", MAX_BYTES >> 20);
        return Err(Problem::new(Position::START, message).hint("split it into several files"));
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(Problem::new(Position::START, "the file is UTF-16").hint("save it as UTF-8"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let at = end_of(&String::from_utf8_lossy(good));
        Problem::new(at, "the bytes here are not UTF-8").hint("save the file as UTF-8")
    })?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    match text.char_indices().find(|(_, char)| is_control(*char)) {
        Some((at, char)) => {
            let message = format!("control characters are not allowed (U+{:04X})", u32::from(char));
            Err(Problem::new(end_of(text.get(..at).unwrap_or_default()), message)
                .hint("remove it, or write it as an escape in double quotes"))
        }
        None => Ok(text),
    }
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Whether YAML forbids the character outside of escapes. A zero byte in
/// particular would end the text for the parser.
fn is_control(char: char) -> bool {
    let allowed = matches!(char, '\t' | '\n' | '\r' | '\u{85}');
    (char.is_control() && !allowed) || matches!(char, '\u{fffe}' | '\u{ffff}')
}

/// Where a text that follows `text` would begin.
fn end_of(text: &str) -> Position {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut at = Position::START;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\r' => at = Position { line: at.line.saturating_add(1), column: 1 },
            _ => at.column = at.column.saturating_add(1),
        }
    }
    at
}

//! Logs: one record is one line on standard error, as text or as JSON.
//!
//! Text from clients is logged at level debug only, through [`Clipped`]. What
//! reaches the output in any other way (an error text that quotes a request,
//! a path with odd characters) is made harmless by the writer: within a record
//! every control character is escaped, so nobody can write lines of their own.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How records are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, origin, message and `name=value` fields.
    #[default]
    Text,
    /// One JSON object with `timestamp`, `level`, `message`, `target` and the fields.
    Json,
}

/// From which level on records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevel(LevelFilter);

impl Default for LogLevel {
    fn default() -> Self {
        Self(LevelFilter::INFO)
    }
}

impl FromStr for LogLevel {
    type Err = String;

    /// Reads a level in any case; the names of envoyproxy/ratelimit that are
    /// not ours (`warning`, `fatal`, `panic`) are understood too.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let level = match text.to_ascii_lowercase().as_str() {
            "off" => LevelFilter::OFF,
            "error" | "fatal" | "panic" => LevelFilter::ERROR,
            "warn" | "warning" => LevelFilter::WARN,
            "info" => LevelFilter::INFO,
            "debug" => LevelFilter::DEBUG,
            "trace" => LevelFilter::TRACE,
            _ => return Err("expected off, error, warn, info, debug or trace".into()),
        };
        Ok(Self(level))
    }
}

/// Starts logging for the whole process; panics are logged, too. Does nothing
/// where it was started already.
///
/// Libraries are heard from level warn on only: below it they log wire
/// contents.
pub fn init(level: LogLevel, format: LogFormat) {
    let filter = Targets::new()
        .with_default(level.0.min(LevelFilter::WARN))
        .with_target(env!("CARGO_CRATE_NAME"), level.0);
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(OneLine { format });
    let subscriber = tracing_subscriber::registry().with(filter);
    let _ = match format {
        LogFormat::Text => subscriber.with(layer).try_init(),
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true).with_current_span(false);
            subscriber.with(layer.with_span_list(false)).try_init()
        }
    };
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let message = panic.payload_as_str().unwrap_or_default();
        tracing::error!(place, message = %Clipped(message), "a task has panicked: a fault in tidegate");
    }));
}

/// Makes writers that let a record through as one line. The formatting layer
/// takes a writer for each record and writes the whole record with one call.
#[derive(Clone, Copy, Debug)]
struct OneLine {
    format: LogFormat,
}

impl<'a> MakeWriter<'a> for OneLine {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl Write for OneLine {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(one_line(record, self.format).as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The record as one line with its line end, control characters escaped.
fn one_line(record: &[u8], format: LogFormat) -> Cow<'_, str> {
    let record = String::from_utf8_lossy(record);
    let body = record.strip_suffix('\n').unwrap_or(&record);
    if body.len() < record.len() && !body.contains(is_unsafe) {
        return record;
    }
    let mut line = String::with_capacity(record.len() + 16);
    for character in body.chars() {
        match format {
            _ if !is_unsafe(character) => line.push(character),
            LogFormat::Text => line.extend(character.escape_default()),
            // Every unsafe character is below U+10000, so four digits do.
            LogFormat::Json => {
                // Writing to a string cannot fail.
                let _ = write!(line, "\\u{:04x}", u32::from(character));
            }
        }
    }
    line.push('\n');
    Cow::Owned(line)
}

/// Characters that can start a line, steer a terminal or reorder what is read.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text from a client, fit for a log: its first [`Clipped::MAX`] bytes with
/// control characters and backslashes escaped, and the full length where it was
/// cut.
#[derive(Clone, Copy)]
pub struct Clipped<'a>(pub &'a str);

impl Clipped<'_> {
    /// How many bytes of a client's text are logged at most.
    pub const MAX: usize = 128;
}

impl fmt::Display for Clipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = &self.0[..self.0.floor_char_boundary(Self::MAX)];
        for character in kept.chars() {
            if is_unsafe(character) || character == '\\' {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        if kept.len() < self.0.len() {
            write!(f, "… ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Clipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_in_any_case_and_with_the_names_of_the_reference() {
        assert_eq!("WARN".parse::<LogLevel>(), "warning".parse());
        assert_eq!("Debug".parse(), Ok(LogLevel(LevelFilter::DEBUG)));
        assert!("loud".parse::<LogLevel>().is_err() && "".parse::<LogLevel>().is_err());
    }

    #[test]
    fn a_record_is_one_line_whatever_is_in_it() {
        let text = |record: &str| one_line(record.as_bytes(), LogFormat::Text).into_owned();
        assert_eq!(text("plain é\n"), "plain é\n");
        assert_eq!(text("a\nlevel=error msg=forged\n"), "a\\nlevel=error msg=forged\n");
        assert_eq!(text("\u{1b}[31m\0\u{2028}x\r\n"), "\\u{1b}[31m\\u{0}\\u{2028}x\\r\n");
        assert_eq!(text("no line end"), "no line end\n");
        assert_eq!(one_line(b"bad \xff\n", LogFormat::Text), "bad \u{fffd}\n");
    }

    #[test]
    fn json_stays_json() {
        let record = "{\"message\":\"\u{7f}\u{9b}31m\u{2029}\"}\n";
        let line = one_line(record.as_bytes(), LogFormat::Json);
        assert_eq!(line, "{\"message\":\"\\u007f\\u009b31m\\u2029\"}\n");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["message"], "\u{7f}\u{9b}31m\u{2029}");
    }

    #[test]
    fn text_of_clients_is_escaped_and_cut() {
        assert_eq!(Clipped("a\nb\\c\u{1b}").to_string(), "a\\nb\\\\c\\u{1b}");
        let long = "é".repeat(50_000);
        let clipped = Clipped(&long).to_string();
        assert_eq!(clipped, format!("{}… (100000 bytes)", "é".repeat(64)));
        assert_eq!(format!("{:?}", Clipped("x")), "\"x\"");
    }
}

//! Values as envoyproxy/ratelimit reads them: Go's numbers, truth values,
//! times and lists.

use crate::cli::values::{span, truth};

/// How the value of a variable is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Any text, also none.
    Text,
    /// `1`, `t`, `true` …
    Truth,
    /// `8081`, `0x1f91`, `-1`.
    Whole,
    /// A whole number from 0 to 65535.
    Port,
    /// `0.8`.
    Fraction,
    /// `150us`, `1h30m`, not negative.
    Time,
    /// `k:v,k:v`.
    Pairs,
    /// One of these, in any case.
    OneOf(&'static [&'static str]),
}

impl Form {
    /// What to say that it should be.
    pub(super) fn expected(self) -> String {
        match self {
            Self::Text => "any text".into(),
            Self::Truth => "true or false (also 1, t, T, TRUE, True, 0, f, F, FALSE, False)".into(),
            Self::Whole => "a whole number".into(),
            Self::Port => "a port from 0 to 65535".into(),
            Self::Fraction => "a number such as 0.8".into(),
            Self::Time => "a time such as 150us, 10s, 1h30m or 0".into(),
            Self::Pairs => "pairs such as key:value,key:value".into(),
            Self::OneOf(names) => format!("one of {}", names.join(", ")),
        }
    }

    /// Whether `text` is written so.
    pub(super) fn fits(self, text: &str) -> bool {
        match self {
            Self::Text => true,
            Self::Truth => truth(text).is_ok(),
            Self::Whole => whole(text).is_some(),
            Self::Port => port(text).is_some(),
            Self::Fraction => text.parse::<f64>().is_ok(),
            Self::Time => span(text).is_ok(),
            Self::Pairs => {
                text.trim().is_empty() || text.split(',').all(|pair| pair.matches(':').count() == 1)
            }
            Self::OneOf(names) => names.iter().any(|name| name.eq_ignore_ascii_case(text)),
        }
    }
}

/// A whole number as Go reads it where the base is left open: `12`, `-3`,
/// `0x1f`, `0o17`, `017`, `0b11`, `1_000`.
pub(super) fn whole(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    // Underscores may stand between digits, or between a prefix and a digit.
    let misplaced =
        digits.ends_with('_') || digits.contains("__") || (base == 10 && digits.starts_with('_'));
    let digits = digits.replace('_', "");
    // A second sign would be read by the parser below.
    if misplaced || !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    let number = i128::from_str_radix(&digits, base).ok()?;
    i64::try_from(if negative { -number } else { number }).ok()
}

/// A port.
pub(super) fn port(text: &str) -> Option<u16> {
    u16::try_from(whole(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_those_of_go() {
        for (text, value) in [
            ("0", 0),
            ("8081", 8081),
            ("-3", -3),
            ("+3", 3),
            ("0x1F91", 8081),
            ("017", 15),
            ("0o17", 15),
            ("0b11", 3),
            ("1_000", 1000),
            ("0x_f", 15),
        ] {
            assert_eq!(whole(text), Some(value), "{text}");
        }
        for text in ["", " 1", "1.0", "08", "0x", "_1", "1_", "1__0", "--1", "0x-1", "1e3"] {
            assert_eq!(whole(text), None, "{text}");
        }
        assert_eq!((port("65535"), port("65536"), port("-1")), (Some(65_535), None, None));
    }

    #[test]
    fn pairs_and_names_are_checked() {
        assert!(Form::Pairs.fits("") && Form::Pairs.fits("a:b,c:d"));
        assert!(!Form::Pairs.fits("a") && !Form::Pairs.fits("a:b,") && !Form::Pairs.fits("a:b:c"));
        assert!(Form::OneOf(&["single"]).fits("SINGLE") && !Form::OneOf(&["single"]).fits(""));
    }
}

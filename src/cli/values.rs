//! How values on the command line and in the environment are written.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::str::FromStr;

use axum::http::HeaderName;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};

use crate::store::redis::Secret;
use crate::units::Span;

/// A parser whose errors name the environment variable beside the flag, because
/// either may have been the source.
#[derive(Clone, Copy, Debug)]
pub struct Value<F>(pub F);

impl<F, T> TypedValueParser for Value<F>
where
    F: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let text = value.to_string_lossy();
        (self.0)(&text).map_err(|reason| {
            let flag = arg.map(ToString::to_string).unwrap_or_default();
            let variable = arg.and_then(Arg::get_env).map(OsStr::to_string_lossy);
            let variable = variable.map_or(String::new(), |name| format!(" (or {name})"));
            // A store's URL may contain a password.
            let hidden = arg.is_some_and(Arg::is_hide_env_values_set);
            let shown = if hidden { String::new() } else { format!("{text:?} ") };
            let message = format!("invalid value {shown}for {flag}{variable}: {reason}\n");
            Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })
    }
}

/// A parser by [`std::str::FromStr`].
pub fn parsed<T>(text: &str) -> Result<T, String>
where
    T: FromStr<Err = String>,
{
    text.parse()
}

/// A truth value, as Go reads it.
pub fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false (also 1, t, T, TRUE, True, 0, f, F, FALSE, False)".into()),
    }
}

/// A span of time as Go writes it, if it is not negative: `10ms`, `1.5s`,
/// `1m30s`, `0`. What is below a microsecond is dropped.
pub fn span(text: &str) -> Result<Span, String> {
    let fault = || "expected a time like 10ms, 1.5s, 1m30s or 0".to_owned();
    let text = text.strip_prefix('+').unwrap_or(text);
    if matches!(text, "0" | "-0") {
        return Ok(Span::ZERO);
    }
    let mut nanos: f64 = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(fault)?;
        let (number, after) = rest.split_at(number);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let number: f64 = number.parse().map_err(|_| fault())?;
        nanos += number * nanos_of(unit).ok_or_else(fault)?;
        rest = after;
    }
    // Go's times end at about 292 years.
    if text.is_empty() || nanos >= 2_f64.powi(63) {
        return Err(fault());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    Ok(Span::from_micros((nanos / 1e3) as u64))
}

fn nanos_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    })
}

/// A share between 0 and 1.
pub fn ratio(text: &str) -> Result<f32, String> {
    text.parse()
        .ok()
        .filter(|ratio| (0.0..=1.0).contains(ratio))
        .ok_or_else(|| "expected a number from 0 to 1".into())
}

/// The name of a response header, kept as written.
pub fn header_name(text: &str) -> Result<String, String> {
    HeaderName::from_bytes(text.as_bytes())
        .map(|_| text.to_owned())
        .map_err(|_| "expected the name of an HTTP header".into())
}

/// The text of an environment variable that is never shown; empty is as good as
/// absent.
pub fn secret(variable: &str) -> Option<Secret> {
    let text = std::env::var_os(variable)?.into_string().unwrap_or_else(|bytes| {
        // No password of Redis can be given to it other than as text; this one
        // will be refused, and the log will say so.
        bytes.to_string_lossy().into_owned()
    });
    (!text.is_empty()).then(|| Secret::new(text))
}

/// A whole number above zero, as a type that has no other.
pub fn count<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number above zero".into())
}

/// A whole number from one to `MOST`, for what takes a thread or a connection
/// each: a slip of some digits would use up those of the whole machine.
pub fn count_to<const MOST: usize>(text: &str) -> Result<NonZeroUsize, String> {
    let count = text.parse().ok().filter(|count: &NonZeroUsize| count.get() <= MOST);
    count.ok_or_else(|| format!("expected a whole number from 1 to {MOST}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, micros) in [
            ("0", 0),
            ("0s", 0),
            ("150us", 150),
            ("10ms", 10_000),
            ("1.5s", 1_500_000),
            ("1m30s", 90_000_000),
            ("24h", 86_400_000_000),
            ("0.0000019s", 1),
            ("1999ns", 1),
            (".5s", 500_000),
            ("1.s", 1_000_000),
            ("+1h", 3_600_000_000),
        ] {
            assert_eq!(span(text), Ok(Span::from_micros(micros)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "10", "ms", "1 s", "-1s", "1d", ".s", "1.s.", "1..5s", "1s5", "99999999999999h"]
        {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn truth_values_are_those_of_go() {
        assert_eq!((truth("T"), truth("0")), (Ok(true), Ok(false)));
        for text in ["", "yes", "on", "tRUE", " true"] {
            assert!(truth(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ratios_headers_and_counts_are_checked() {
        assert_eq!(ratio("0.8"), Ok(0.8));
        assert!(ratio("1.1").is_err() && ratio("NaN").is_err() && ratio("-0.1").is_err());
        assert_eq!(header_name("X-RateLimit-Limit"), Ok("X-RateLimit-Limit".into()));
        assert!(header_name("").is_err() && header_name("a b").is_err());
        let count = count::<NonZeroUsize>;
        assert!(count("0").is_err() && count("-1").is_err());
        assert_eq!(count_to::<10>("10"), Ok(NonZeroUsize::new(10).unwrap()));
        for text in ["0", "11", "-1", "1.5", "99999999999999999999"] {
            let fault = "expected a whole number from 1 to 10".to_owned();
            assert_eq!(count_to::<10>(text), Err(fault), "{text}");
        }
    }
}

//! What unquoted text means.

/// The meaning of unquoted text, as the YAML reader of envoyproxy/ratelimit
/// (YAML 1.1) sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meaning {
    /// Nothing: the field is as good as left out.
    Nothing,
    /// A truth value.
    Truth(bool),
    /// A whole number; those beyond 128 bits are cut to the nearest that fits.
    Whole(i128),
    /// A number with a fraction or an exponent, or none at all (`.nan`).
    Fraction,
    /// Only text.
    Text,
}

/// What `text` means where it stands without quotes.
pub fn meaning(text: &str) -> Meaning {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Meaning::Nothing,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Meaning::Truth(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Meaning::Truth(false)
        }
        _ => number(text),
    }
}

fn number(text: &str) -> Meaning {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Meaning::Fraction;
    }
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Meaning::Text;
    }
    let digits = unsigned.replace('_', "");
    match whole(&digits) {
        Some(value) if text.starts_with('-') => Meaning::Whole(-value),
        Some(value) => Meaning::Whole(value),
        None if is_fraction(&digits) => Meaning::Fraction,
        None => Meaning::Text,
    }
}

/// The number that is written by digits alone, or with a prefix that tells its
/// base. A leading zero is no such prefix: `010` is eight to some readers and
/// ten to others, so here it is no number.
fn whole(digits: &str) -> Option<i128> {
    let prefixes = [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)];
    let written = prefixes
        .iter()
        .find_map(|(prefix, base)| digits.strip_prefix(prefix).map(|digits| (digits, *base)));
    let (digits, base) = match written {
        Some(found) => found,
        None if digits.len() > 1 && digits.starts_with('0') => return None,
        None => (digits, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return None;
    }
    Some(i128::from_str_radix(digits, base).unwrap_or(i128::MAX))
}

/// Digits with a point, an exponent or both.
fn is_fraction(digits: &str) -> bool {
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && all_digits(exponent)
    });
    match mantissa.split_once('.') {
        Some(("", "")) => false,
        Some((whole, part)) => exponent_fits && all_digits(whole) && all_digits(part),
        None => exponent.is_some() && exponent_fits && all_digits(mantissa) && !mantissa.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_text_means_what_yaml_1_1_says() {
        let cases = [
            ("", Meaning::Nothing),
            ("~", Meaning::Nothing),
            ("NULL", Meaning::Nothing),
            ("nULL", Meaning::Text),
            ("yes", Meaning::Truth(true)),
            ("Off", Meaning::Truth(false)),
            ("5", Meaning::Whole(5)),
            ("+5", Meaning::Whole(5)),
            ("-5", Meaning::Whole(-5)),
            ("0", Meaning::Whole(0)),
            ("1_000", Meaning::Whole(1_000)),
            ("0x1F", Meaning::Whole(31)),
            ("0b101", Meaning::Whole(5)),
            ("0o17", Meaning::Whole(15)),
            ("0x", Meaning::Text),
            ("99999999999999999999999999999999999999999", Meaning::Whole(i128::MAX)),
            ("1.5", Meaning::Fraction),
            ("1.", Meaning::Fraction),
            (".5", Meaning::Fraction),
            ("1e3", Meaning::Fraction),
            ("-1.5E-10", Meaning::Fraction),
            ("-.inf", Meaning::Fraction),
            (".NaN", Meaning::Fraction),
        ];
        for (text, expected) in cases {
            assert_eq!(meaning(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_only_looks_like_a_number_is_text() {
        let texts = [
            "010",
            "08",
            "10s",
            "1.2.3.4",
            "2024-01-02",
            "12:30",
            ".",
            "..",
            "-",
            "+",
            "e3",
            "1e",
            "1e+",
            ".e5",
            "--1",
            "0x1G",
            "é",
            "1é",
            "infinity",
            "inf",
            "nan",
            "1,000",
        ];
        for text in texts {
            assert_eq!(meaning(text), Meaning::Text, "{text:?}");
        }
    }
}

//! The units of time that rules are written in.

use std::fmt;

use crate::units::Span;

/// A unit of `requests_per_unit`. All are fixed lengths aligned to the Unix
/// epoch, as in envoyproxy/ratelimit: a month is 30 days, a year 365, and
/// weeks begin on Thursday.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// 1 s.
    Second,
    /// 60 s.
    Minute,
    /// 3,600 s.
    Hour,
    /// 86,400 s.
    Day,
    /// 604,800 s.
    Week,
    /// 2,592,000 s.
    Month,
    /// 31,536,000 s.
    Year,
}

impl Unit {
    /// Every unit, shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The unit of this name, in any mix of upper and lower case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The unit that stands for `window` in answers, which know only units: the
    /// longest one that divides it evenly (an hour for 120 minutes, a second
    /// for 90 seconds), or a second where none does.
    pub fn reporting(window: Span) -> Self {
        let divides = |unit: &Self| window.as_micros().is_multiple_of(unit.span().as_micros());
        Self::ALL.into_iter().rev().find(divides).unwrap_or(Self::Second)
    }

    /// How long the unit is.
    pub const fn span(self) -> Span {
        Span::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 604_800,
            Self::Month => 2_592_000,
            Self::Year => 31_536_000,
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case_and_nothing_else_is() {
        assert_eq!(Unit::parse("HoUr"), Some(Unit::Hour));
        for wrong in ["", " minute", "minutes", "2", "unknown", "fortnight"] {
            assert_eq!(Unit::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_window_is_reported_by_the_longest_unit_that_divides_it() {
        for unit in Unit::ALL {
            assert_eq!(Unit::reporting(unit.span()), unit);
        }
        let cases = [
            (Span::from_secs(90), Unit::Second),
            (Span::from_secs(300), Unit::Minute),
            (Span::from_secs(7_200), Unit::Hour),
            (Span::from_secs(1_209_600), Unit::Week),
            (Span::from_millis(100), Unit::Second),
            (Span::from_millis(1_500), Unit::Second),
        ];
        for (window, unit) in cases {
            assert_eq!(Unit::reporting(window), unit, "{window}");
        }
    }
}

//! Values with `*` in them.

/// A value in which each `*` stands for any run of characters, also none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    prefix: Box<str>,
    middle: Box<[Box<str>]>,
    suffix: Box<str>,
}

impl Pattern {
    /// The pattern that `text` writes, if it has a `*` at all.
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, rest) = text.split_once('*')?;
        let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        Some(Self {
            text: text.into(),
            prefix: prefix.into(),
            middle: middle.split('*').filter(|part| !part.is_empty()).map(Into::into).collect(),
            suffix: suffix.into(),
        })
    }

    /// The pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether `value` fits. The literal parts must all be there, in order and
    /// without overlap: `ab*ba` does not fit `aba`.
    pub fn matches(&self, value: &str) -> bool {
        let Some(rest) = value.strip_prefix(&*self.prefix) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.suffix) else { return false };
        for part in &self.middle {
            // The leftmost place is always right: it leaves most for the others.
            let Some((_, after)) = rest.split_once(&**part) else { return false };
            rest = after;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, value: &str) -> bool {
        Pattern::parse(pattern).expect("has a star").matches(value)
    }

    #[test]
    fn a_star_stands_for_any_run_also_an_empty_one() {
        assert!(fits("*", "") && fits("*", "x") && fits("foo*", "foo") && fits("*foo", "barfoo"));
        assert!(!fits("foo*", "Foo1") && !fits("foo*", "fo"));
    }

    #[test]
    fn literal_parts_do_not_overlap() {
        assert!(!fits("ab*ba", "aba") && fits("ab*ba", "abba") && !fits("ab*ba", "abbaX"));
        assert!(!fits("aba*aba", "ababa") && fits("aba*aba", "abaaba"));
        assert!(fits("a*b*a", "aba") && !fits("a*bb*a", "aba") && !fits("*aa*aa*", "aaa"));
    }

    #[test]
    fn parts_in_the_middle_come_in_order() {
        assert!(fits("/v*/users/*/posts", "/v1/users/7/posts"));
        assert!(fits("/v*/users/*/posts", "/v/users//posts"));
        assert!(!fits("/v*/users/*/posts", "/v1/users/posts"));
        assert!(fits("foo*bar*baz", "foobarbaz") && !fits("foo*bar*baz", "foo123baz"));
        assert!(fits("a**b", "ab") && fits("a**b", "axb"));
    }

    #[test]
    fn text_without_a_star_is_no_pattern() {
        assert_eq!(Pattern::parse("foo"), None);
    }
}

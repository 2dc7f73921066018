//! Parts of names as tags, for Datadog.

use regex::{Captures, Regex};

/// What becomes of names that match a pattern.
#[derive(Clone, Debug)]
pub struct Mogrifier {
    pattern: Regex,
    name: Template,
    tags: Vec<(String, Template)>,
}

/// Why a mogrifier cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MogrifierError {
    /// There is no pattern, name or value.
    #[error("{0} is missing or empty")]
    Missing(String),
    /// The pattern is no regular expression.
    #[error("{variable} is no regular expression: {reason}")]
    Pattern {
        /// Where it stands.
        variable: String,
        /// What is wrong.
        reason: String,
    },
    /// A text asks for a group that the pattern does not have.
    #[error(
        "{variable} uses ${group}, but its pattern has {groups} groups; number them from 1, or \
         write $0 for all that matched"
    )]
    Group {
        /// Where it stands.
        variable: String,
        /// The group asked for.
        group: usize,
        /// How many there are.
        groups: usize,
    },
    /// Tags are not pairs.
    #[error("{0} is not of the form tag:value,tag:value")]
    Tags(String),
}

impl Mogrifier {
    /// The mogrifier called `name`, as three settings describe it; `setting`
    /// gives the text of one by its name, `PATTERN`, `NAME` or `TAGS`.
    ///
    /// # Errors
    /// If one of them is missing or wrong. Names them by their variables.
    pub fn from_settings(
        name: &str,
        setting: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, MogrifierError> {
        let variable = |what: &str| format!("DOG_STATSD_MOGRIFIER_{name}_{what}");
        let required = |what: &str| {
            let text = setting(&variable(what)).filter(|text| !text.is_empty());
            text.ok_or_else(|| MogrifierError::Missing(variable(what)))
        };
        let pattern = Regex::new(&required("PATTERN")?).map_err(|error| {
            MogrifierError::Pattern { variable: variable("PATTERN"), reason: error.to_string() }
        })?;
        let template = |what: &str, text: &str| {
            let template = Template::parse(text);
            let groups = pattern.captures_len() - 1;
            match template.groups().max() {
                Some(group) if group > groups => {
                    Err(MogrifierError::Group { variable: variable(what), group, groups })
                }
                _ => Ok(template),
            }
        };
        let renamed = template("NAME", &required("NAME")?)?;
        let mut tags = Vec::new();
        let text = setting(&variable("TAGS")).unwrap_or_default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let Some((tag, value)) = pair.split_once(':') else {
                return Err(MogrifierError::Tags(variable("TAGS")));
            };
            if tag.is_empty() || value.is_empty() {
                return Err(MogrifierError::Tags(variable("TAGS")));
            }
            tags.push((tag.to_owned(), template("TAGS", value)?));
        }
        Ok(Self { pattern, name: renamed, tags })
    }

    /// The name and the tags that `name` becomes, if the pattern matches.
    pub(super) fn apply(&self, name: &str) -> Option<(String, Vec<(String, String)>)> {
        let found = self.pattern.captures(name)?;
        let tags = self.tags.iter().map(|(tag, value)| (tag.clone(), value.fill(&found)));
        Some((self.name.fill(&found), tags.collect()))
    }
}

/// A text with `$0`, `$1` … for what a pattern found.
#[derive(Clone, Debug)]
struct Template(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Group(usize),
}

impl Template {
    fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let (number, after) = after.split_at(digits);
            let group = number.parse().map(Piece::Group);
            pieces.push(Piece::Text(before.to_owned()));
            // A dollar without a number is one.
            pieces.push(group.unwrap_or_else(|_| Piece::Text(format!("${number}"))));
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Self(pieces)
    }

    fn groups(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Group(group) => Some(*group),
            Piece::Text(_) => None,
        })
    }

    fn fill(&self, found: &Captures<'_>) -> String {
        let piece = |piece: &'_ Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Group(group) => {
                found.get(*group).map(|group| group.as_str().to_owned()).unwrap_or_default()
            }
        };
        self.0.iter().map(piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mogrifier(settings: &[(&str, &str)]) -> Result<Mogrifier, MogrifierError> {
        Mogrifier::from_settings("HITS", |variable| {
            let what = variable.strip_prefix("DOG_STATSD_MOGRIFIER_HITS_")?;
            let found = settings.iter().find(|(name, _)| *name == what);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn parts_of_names_become_tags() {
        let mogrifier = mogrifier(&[
            ("PATTERN", r"^ratelimit\.service\.rate_limit\.([^.]+)\.(.+)\.([^.]+)$"),
            ("NAME", "ratelimit.$3"),
            ("TAGS", "domain:$1,descriptor:$2,cost:5$"),
        ])
        .unwrap();
        let (name, tags) =
            mogrifier.apply("ratelimit.service.rate_limit.d.k.l.near_limit").unwrap();
        assert_eq!(name, "ratelimit.near_limit");
        let tags: Vec<_> = tags.iter().map(|(tag, value)| format!("{tag}:{value}")).collect();
        assert_eq!(tags, ["domain:d", "descriptor:k.l", "cost:5$"]);
        assert!(mogrifier.apply("ratelimit.service.config_load_success").is_none());
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_by_its_variable() {
        for (settings, told) in [
            (&[("NAME", "n")][..], "DOG_STATSD_MOGRIFIER_HITS_PATTERN is missing"),
            (&[("PATTERN", "a")], "DOG_STATSD_MOGRIFIER_HITS_NAME is missing"),
            (&[("PATTERN", "("), ("NAME", "n")], "HITS_PATTERN is no regular expression"),
            (&[("PATTERN", "(a)"), ("NAME", "$2")], "HITS_NAME uses $2, but its pattern has 1"),
            (&[("PATTERN", "a"), ("NAME", "n"), ("TAGS", "t:$1")], "HITS_TAGS uses $1"),
            (&[("PATTERN", "a"), ("NAME", "n"), ("TAGS", "t")], "HITS_TAGS is not of the form"),
        ] {
            let error = mogrifier(settings).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}

use super::*;
use crate::policy::yaml;

/// What a text says, and the faults, one line each.
fn read(text: &str) -> (RawDomain, String) {
    let parsed = yaml::parse(text.as_bytes());
    assert_eq!(parsed.problems, [], "{text}");
    let mut faults = Faults::default();
    let raw = document(&"f".into(), &parsed.documents[0], &mut faults);
    let faults = faults.unless_any(()).map_or_else(|error| error.to_string(), |()| String::new());
    (raw, faults)
}

/// A text with `entry` in each place that a mapping may stand.
fn on(section: Section, entry: &str) -> String {
    match section {
        Section::Root => format!("{{{entry}}}"),
        Section::Descriptor => format!("descriptors: [{{{entry}}}]"),
        Section::Address => format!("descriptors: [{{address: {{{entry}}}}}]"),
        Section::RateLimit => format!("descriptors: [{{rate_limit: {{{entry}}}}}]"),
        Section::Rate => format!("descriptors: [{{rate_limit: {{rates: [{{{entry}}}]}}}}]"),
        Section::Lease => format!("descriptors: [{{rate_limit: {{lease: {{{entry}}}}}}}]"),
        Section::Replace => format!("descriptors: [{{rate_limit: {{replaces: [{{{entry}}}]}}}}]"),
    }
}

#[test]
fn every_key_is_known_where_it_belongs_and_nowhere_else() {
    for section in Section::ALL {
        for home in Section::ALL {
            for key in home.keys() {
                let (_, faults) = read(&on(section, &format!("{key}: ~")));
                let known = section.keys().any(|known| known == key);
                let unknown = faults.contains(&format!("config error, unknown key '{key}'"));
                assert_eq!(known, !unknown, "{key} in {section:?}: {faults}");
                assert_eq!(known, faults.is_empty(), "{key} in {section:?}: {faults}");
            }
        }
    }
}

#[test]
fn every_field_keeps_its_place() {
    let (raw, faults) = read(
        "\
domain: d
descriptors:
  - key: k
    share_threshold: on
    rate_limit:
      unit: hour
      requests_per_unit: 0x10
      replaces:
        - name: 'n'
",
    );
    assert_eq!(faults, "");
    let at = |line, column| Position { line, column };
    assert_eq!((raw.at, raw.domain.given().map(|field| field.at)), (at(1, 1), Some(at(1, 9))));
    let descriptor = &raw.descriptors[0];
    assert_eq!(descriptor.at, at(3, 5));
    assert_eq!(descriptor.share_threshold.given().map(|field| field.at), Some(at(4, 22)));
    let limit = descriptor.rate_limit.as_ref().expect("a limit");
    assert_eq!((limit.limit.at, limit.replaces[0].at), (at(6, 7), at(9, 11)));
    assert_eq!(
        limit.limit.requests_per_unit.given(),
        Some(&super::super::raw::Located { at: at(7, 26), value: 16 })
    );
}

#[test]
fn what_is_nothing_is_left_out() {
    let (raw, faults) = read("domain:\ncharge: ~\ndescriptors: null\n");
    assert_eq!(faults, "");
    assert_eq!((raw.domain, raw.charge), (Field::Absent, Field::Absent));
    assert!(raw.descriptors.is_empty());
    let (raw, faults) = read("descriptors: [{rate_limit: , descriptors: , metadata: , value: }]");
    assert_eq!(faults, "");
    assert!(raw.descriptors[0].rate_limit.is_none() && raw.descriptors[0].metadata.is_none());
}

#[test]
fn a_field_that_cannot_be_read_says_so_to_those_who_need_it() {
    let (raw, faults) = read("{domain: [d], charge: {}, descriptors: [{key: 1.5, rate_limit: 5}]}");
    assert_eq!((raw.domain, raw.charge), (Field::Faulty, Field::Faulty));
    assert_eq!(raw.descriptors[0].key, Field::Faulty);
    assert!(raw.descriptors[0].rate_limit.is_none());
    assert_eq!(faults.lines().count(), 4, "{faults}");
}

#[test]
fn faults_name_the_rule_also_where_it_has_no_key() {
    let (_, faults) = read("domain: d\ndescriptors: [{key: a}, {value: x, descriptors: [{k: v}]}]");
    assert!(faults.contains("(in d > descriptor 2 > descriptor 1)"), "{faults}");
}

#[test]
fn a_key_that_stands_twice_is_named_with_both_lines() {
    let (raw, faults) = read("domain: a\nx: 1\n\"domain\": b\n");
    assert_eq!(raw.domain.text(), "a");
    let expected = "f:3:1: error loading config file: yaml: line 3: mapping key 'domain' already \
                    defined at line 1 (in a); keep one of the two";
    assert!(faults.ends_with(expected), "{faults}");
}

//! Lowering without YAML: what another source of rules may say.

use super::*;
use crate::limit::Unit;
use crate::policy::fault::LoadError;
use crate::policy::raw::{Located, RawDomain};
use crate::policy::rule::Grant;

fn given<T>(value: T) -> Field<T> {
    Field::Given(Located { at: Position::UNKNOWN, value })
}

fn text(text: &str) -> Field<String> {
    given(text.to_owned())
}

fn descriptor(key: &str, rate_limit: RawRateLimit) -> RawDescriptor {
    RawDescriptor { key: text(key), rate_limit: Some(rate_limit), ..RawDescriptor::default() }
}

fn per_hour(limit: u32) -> RawRateLimit {
    let (requests_per_unit, unit) = (given(limit), text("HOUR"));
    RawRateLimit { requests_per_unit, unit, ..RawRateLimit::default() }
}

fn document(source: &str, descriptors: Vec<RawDescriptor>) -> RawDomain {
    let raw = RawDomain::new(source.into(), Position::UNKNOWN);
    RawDomain { domain: text("d"), descriptors, ..raw }
}

fn lowered(raws: Vec<RawDomain>) -> Result<Vec<super::super::draft::DomainDraft>, LoadError> {
    let mut faults = Faults::default();
    let options = LoadOptions { merge_domains: true, ..LoadOptions::default() };
    let drafts = lower(raws, options, &mut faults);
    faults.unless_any(drafts)
}

#[test]
fn rules_need_no_file() {
    let mut outer = descriptor("k", per_hour(3));
    outer.descriptors = vec![descriptor("l", per_hour(5))];
    let drafts = lowered(vec![document("resource", vec![outer])]).expect("no faults");
    let node = &drafts[0].nodes[0];
    let rule = node.children[0].rule.as_ref().expect("a rule");
    assert_eq!((&*rule.path, &rule.labels), ("d > k > l", &["k".to_owned(), "l".to_owned()]));
    let Grant::Limited(quotas) = &rule.grant else { panic!("{rule:?}") };
    let terms: Vec<_> = quotas.iter().map(|one| (one.requests_per_unit, one.unit)).collect();
    assert_eq!(terms, [(5, Unit::Hour)]);
}

#[test]
fn a_fault_without_a_place_names_the_source() {
    let twice = || document("resource", vec![descriptor("k", per_hour(3))]);
    let error = lowered(vec![twice(), twice()]).expect_err("a duplicate");
    assert_eq!(
        error.to_string(),
        "resource: duplicate descriptor composite key 'd.k' (in d > k); \
         it stands at resource already; keep one of the two"
    );
}

#[test]
fn what_could_not_be_read_is_not_complained_of_again() {
    let faulty = RawRateLimit {
        unit: Field::Faulty,
        requests_per_unit: Field::Faulty,
        unit_multiplier: Field::Faulty,
        algorithm: Field::Faulty,
        align: Field::Faulty,
        count_refused: Field::Faulty,
        replaces: vec![RawReplace { at: Position::UNKNOWN, name: Field::Faulty }],
        ..RawRateLimit::default()
    };
    let nameless = |share| RawDescriptor {
        key: Field::Faulty,
        value: Field::Faulty,
        share_threshold: given(share),
        ..descriptor("", faulty.clone())
    };
    let mut raw = document("f", vec![nameless(true), nameless(false)]);
    (raw.domain, raw.charge) = (Field::Faulty, Field::Faulty);
    assert!(lowered(vec![raw]).is_ok());
}

//! Lowering without YAML: what another source of rules may say.

use super::algorithm::Algorithm;
use super::*;
use crate::limit::Unit;
use crate::policy::fault::LoadError;
use crate::policy::raw::{Located, RawAddresses, RawDomain, RawLimit};
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
    let limit = RawLimit { requests_per_unit, unit, ..RawLimit::default() };
    RawRateLimit { limit, ..RawRateLimit::default() }
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
    assert_eq!(&*rule.path, "d > k > l");
    let Grant::Limited(quotas) = &rule.grant else { panic!("{rule:?}") };
    let terms: Vec<_> = quotas.iter().map(|one| (one.requests_per_unit(), one.unit())).collect();
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

/// A limit of which nothing could be read but its algorithm, if that.
fn unreadable(algorithm: Field<String>) -> RawLimit {
    RawLimit {
        at: Position::UNKNOWN,
        algorithm,
        requests_per_unit: Field::Faulty,
        limit: Field::Faulty,
        unit: Field::Faulty,
        unit_multiplier: Field::Faulty,
        window: Field::Faulty,
        rate: Field::Faulty,
        align: Field::Faulty,
        time_zone: Field::Faulty,
        count_refused: Field::Faulty,
        block_duration: Field::Faulty,
        max_window_size: Field::Faulty,
        capacity: Field::Faulty,
        burst: Field::Faulty,
        refill: Field::Faulty,
        max_attempts: Field::Faulty,
        lockout: Field::Faulty,
    }
}

#[test]
fn what_could_not_be_read_is_not_complained_of_again() {
    let named = Algorithm::ALL.map(|algorithm| unreadable(text(algorithm.name())));
    let limits: Vec<_> =
        named.into_iter().chain([unreadable(Field::Faulty), unreadable(Field::Absent)]).collect();
    let alone = |limit: &RawLimit| RawRateLimit { limit: limit.clone(), ..RawRateLimit::default() };
    let addresses = RawAddresses {
        ipv6_prefix: Field::Faulty,
        exempt: Field::Faulty,
        exempt_loopback: Field::Faulty,
    };
    let several = RawRateLimit {
        rates: given(limits.clone()),
        replaces: vec![RawReplace { at: Position::UNKNOWN, name: Field::Faulty }],
        addresses: addresses.clone(),
        ..alone(&unreadable(Field::Faulty))
    };
    let unread = RawRateLimit { rates: Field::Faulty, ..RawRateLimit::default() };
    for limit in limits.iter().map(alone).chain([several, unread]) {
        let nameless = |share, address| RawDescriptor {
            key: Field::Faulty,
            value: Field::Faulty,
            share_threshold: given(share),
            address,
            ..descriptor("", limit.clone())
        };
        let one = nameless(true, given(Some(addresses.clone())));
        let mut raw = document("f", vec![one, nameless(false, Field::Faulty)]);
        (raw.domain, raw.charge) = (Field::Faulty, Field::Faulty);
        assert_eq!(lowered(vec![raw]).map(|_| ()).map_err(|error| error.to_string()), Ok(()));
    }
}

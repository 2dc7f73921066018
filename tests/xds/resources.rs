//! What resources may say, and what they must not.

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Any, Struct, Value};
use tidegate::policy::{LoadOptions, TYPE_URL, load_resources};
use tidegate::proto::ratelimit::config::ratelimit::v3::RateLimitUnit::{
    Day, Hour, Minute, Month, Second, Week, Year,
};
use tidegate::proto::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitReplace,
};
use tidegate::telemetry::metrics::Metrics;

use crate::plane::{Plane, packed};
use crate::rules::{DescriptorExt as _, config, key, pair};
use crate::{launch, ready, told};

fn faults(configs: &[RateLimitConfig]) -> Vec<String> {
    raw_faults(&configs.iter().map(packed).collect::<Vec<_>>())
}

fn raw_faults(resources: &[Any]) -> Vec<String> {
    let loaded = load_resources(resources, LoadOptions::default(), &Metrics::new());
    loaded.map_or_else(|error| error.to_string().lines().map(Into::into).collect(), |_| Vec::new())
}

fn fault_of(descriptor: RateLimitDescriptor) -> String {
    faults(&[config("d", vec![descriptor])]).join("\n")
}

#[test]
fn every_field_means_what_it_means_in_a_file() {
    let plane = Plane::start();
    let named = |name: &str| RateLimitReplace { name: name.into() };
    let units = [Second, Minute, Hour, Day, Month, Year, Week];
    let of_unit = |unit| pair("unit", &format!("{unit:?}")).limited(5, unit);
    let mut descriptors: Vec<_> = units.into_iter().map(of_unit).collect();
    descriptors.extend([
        pair("free", "yes").policy(|policy| policy.unlimited = true),
        key("shadow").limited(1, Year).shadow(),
        RateLimitDescriptor { quota_mode: true, ..pair("quota", "a").limited(1, Year) },
        RateLimitDescriptor { quota_mode: true, ..pair("quota", "b").limited(2, Year) },
        pair("wild", "a*z").limited(3, Year),
        pair("exempt", "me"),
        key("exempt").limited(1, Year),
        key("base").limited(2, Year).policy(|policy| policy.name = "base".into()),
        key("special").limited(9, Year).policy(|policy| policy.replaces = vec![named("base")]),
        key("block").policy(|policy| policy.unit = Year.into()),
        key("a").then(key("b").limited(4, Year)),
    ]);
    plane.send("1", &[config("t", descriptors)]);
    let service = launch(&plane).start();
    ready(&service);
    for unit in units {
        assert_eq!(told(&service, &format!("[unit={unit:?}]")), "OK r4", "{unit:?}");
    }
    for (asked, answer) in [
        ("[free=yes]", "unlimited"),
        ("[shadow=x]", "OK r0"),
        ("[shadow=x]", "OK r0"),
        ("{[quota=a], [quota=b]}", "OK {OK r0, OK r1}"),
        ("{[quota=a], [quota=b]}", "OK {OVER, OK r0}"),
        ("{[quota=a], [quota=b]}", "OVER {OVER, OVER}"),
        ("[wild=abcz]", "OK r2"),
        ("[wild=abc]", "NONE"),
        ("[exempt=me]", "NONE"),
        ("[exempt=you]", "OK r0"),
        ("{[base=x], [special=y]}", "OK {NONE, OK r8}"),
        ("[base=x]", "OK r1"),
        ("[block=x]", "OVER"),
        ("[a=1, b=2]", "OK r3"),
        ("[a=1]", "NONE"),
    ] {
        assert_eq!(told(&service, asked), answer, "{asked}");
    }
}

#[test]
fn faults_read_as_in_the_reference() {
    let replacing = |name: &str| {
        let entry = RateLimitReplace { name: name.into() };
        key("k").limited(1, Year).policy(|policy| {
            policy.name = "own".into();
            policy.replaces.push(entry);
        })
    };
    let unlimited = key("k").limited(1, Year).policy(|policy| policy.unlimited = true);
    for (descriptor, said) in [
        (key(""), "d: descriptor has empty key"),
        (key("k").policy(|_| {}), "d: invalid rate limit unit 'UNKNOWN' (in d > k)"),
        (key("k").policy(|it| it.unit = 99), "d: invalid rate limit unit '99' (in d > k)"),
        (unlimited, "d: should not specify rate limit unit when unlimited"),
        (replacing(""), "d: should not have an empty replaces entry"),
        (replacing("own"), "d: replaces should not contain name of same descriptor"),
        (
            key("k").then(pair("a", "b")).then(pair("a", "b")),
            "d: duplicate descriptor composite key 'd.k.a_b' (in d > k > a=b)",
        ),
    ] {
        let fault = fault_of(descriptor);
        assert!(fault.starts_with(said) && !fault.contains('\n'), "{fault:?} is not {said:?}");
    }
    let nameless = faults(&[RateLimitConfig::default()]);
    assert_eq!(nameless.len(), 1);
    assert!(nameless[0].starts_with("a resource without a name: config file cannot have empty d"));
}

#[test]
fn an_unlimited_rule_needs_no_unit() {
    assert_eq!(fault_of(key("k").policy(|policy| policy.unlimited = true)), "");
}

#[test]
fn what_is_no_resource_of_ours_is_named_by_its_place() {
    let good = packed(&config("d", vec![key("k").limited(1, Year)]));
    let cluster = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    let other = Any { type_url: cluster.into(), value: Vec::new() };
    let damaged = Any { type_url: TYPE_URL.into(), value: vec![0xff] };
    let faults = raw_faults(&[good, other, damaged]);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].starts_with(&format!("resource 2: is of type '{cluster}'")), "{faults:?}");
    assert!(faults[1].starts_with("resource 3: cannot be decoded"), "{faults:?}");
}

/// A chain of so many descriptors.
fn nested(levels: usize) -> RateLimitConfig {
    let leaf = key("leaf").limited(1, Year);
    config("d", vec![(1..levels).fold(leaf, |inner, _| key("k").then(inner))])
}

#[test]
fn nesting_is_bounded() {
    assert_eq!(faults(&[nested(90)]), Vec::<String>::new());
    let faults = faults(&[nested(300)]);
    assert!(faults[0].contains("cannot be decoded"), "{faults:?}");
}

#[test]
fn metadata_must_be_json() {
    let with = |number: f64| {
        let inner = Value { kind: Some(Kind::NumberValue(number)) };
        let inner = Struct { fields: [("n".into(), inner)].into() };
        let outer = Value { kind: Some(Kind::StructValue(inner)) };
        let metadata = Some(Struct { fields: [("svc".into(), outer)].into() });
        fault_of(RateLimitDescriptor { metadata, ..key("k").limited(1, Year) })
    };
    assert_eq!(with(1.5), "");
    let fault = with(f64::NAN);
    assert!(fault.starts_with("d: error parsing metadata: ") && fault.contains("(in d > k)"));
}

#[test]
fn endless_faults_are_sent_in_part() {
    let plane = Plane::start();
    let bad = (0..5000).map(|n| key(&format!("k{n}")).policy(|_| {})).collect();
    plane.send("1", &[config("d", bad)]);
    let service = launch(&plane).start();
    let reason = plane.refused("invalid rate limit unit");
    assert!(reason.len() < 40 << 10, "{}", reason.len());
    assert!(service.log().lines().count() < 40, "{}", service.log());
}

/// Any bytes whatever: faults, never a crash.
#[test]
fn any_bytes_are_survived() {
    let valid = config("d", vec![key("k").limited(1, Year).then(pair("a", "*"))]).encode_to_vec();
    for at in 0..valid.len() {
        for bits in [0x01, 0x08, 0x80, 0xff] {
            let mut value = valid.clone();
            value[at] ^= bits;
            let any = Any { type_url: TYPE_URL.into(), value };
            let _ = load_resources(&[any], LoadOptions::default(), &Metrics::new());
        }
    }
}

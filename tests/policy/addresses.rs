//! Values that are client addresses.

use tidegate::policy::Policies;
use tidegate::store::KeyBuf;

use crate::{loaded, refusal};

/// The key that a descriptor counts on, and whether it is exempt.
fn counted(policies: &Policies, entries: &[(&str, &str)]) -> (String, bool) {
    let mut keys = KeyBuf::default();
    let mut writer = keys.writer("t");
    let domain = policies.domain("t").expect("the domain");
    let found = domain.find(entries.iter().copied(), &mut writer).expect("a rule");
    let exempt = found.exempt;
    let tidegate::policy::Grant::Limited(quotas) = &found.rule.spec.grant else {
        panic!("no limit")
    };
    let key = writer.finish_as(quotas[0].tag());
    (String::from_utf8_lossy(keys.get(key)).into_owned(), exempt)
}

/// Domain `t` with one rule on `remote_address`, of which `more` is said.
fn on_address(more: &str) -> String {
    format!("domain: t\ndescriptors:\n  - {{key: remote_address, {more}}}\n")
}

const FIVE: &str = "rate_limit: {rate: 5/year}";

#[test]
fn f38_forms_of_one_address_count_together() {
    let policies = loaded(&on_address(&format!("address: true, {FIVE}")));
    let key = |value: &str| counted(&policies, &[("remote_address", value)]).0;
    let of = |client: &str| format!("t|remote_address={client}|fw31536000s");
    for form in ["1.2.3.4", "::ffff:1.2.3.4", "::ffff:102:304", "::FFFF:1.2.3.4"] {
        assert_eq!(key(form), of("1.2.3.4"), "{form}");
    }
    assert_eq!(key("1.2.3.5"), of("1.2.3.5"));
    for form in ["2001:db8:1:2::a", "2001:db8:1:2:ffff::1", "2001:DB8:1:2:0:0:0:b"] {
        assert_eq!(key(form), of("2001:db8:1:2::"), "{form}");
    }
    assert_eq!(key("2001:db8:1:3::a"), of("2001:db8:1:3::"));
    assert_eq!(key("2001:db8:1234:5678::1.2.3.4"), of("2001:db8:1234:5678::"));
    for text in ["1.2.3.4:5678", "not-an-address", ""] {
        assert_eq!(key(text), of(text));
    }
    assert_eq!(key("fe80::1%eth0"), of("fe80::1%25eth0"), "keys escape the sign");
}

#[test]
fn f38_without_normalisation_all_texts_are_different() {
    for address in ["", "address: false, ", "address: ~, "] {
        let policies = loaded(&on_address(&format!("{address}{FIVE}")));
        let key = |value: &str| counted(&policies, &[("remote_address", value)]).0;
        let forms = ["1.2.3.4", "::ffff:1.2.3.4", "::ffff:102:304", "2001:db8::a", "2001:db8::b"];
        let keys: std::collections::HashSet<_> = forms.iter().map(|form| key(form)).collect();
        assert_eq!(keys.len(), forms.len(), "{address}: {keys:?}");
    }
}

#[test]
fn networks_are_as_wide_as_told() {
    let policies = loaded(&on_address(&format!("address: {{ipv6_prefix: 48}}, {FIVE}")));
    let (key, _) = counted(&policies, &[("remote_address", "2001:db8:1:2::a")]);
    assert_eq!(key, "t|remote_address=2001:db8:1::|fw31536000s");
    for bits in ["0", "129", "-1"] {
        let found = refusal(&on_address(&format!("address: {{ipv6_prefix: {bits}}}, {FIVE}")));
        assert!(found.contains("a whole number from 1 to 128 for ipv6_prefix"), "{found}");
    }
}

const LOCKOUT: &str = "rate_limit: {algorithm: lockout}";

/// Which of these clients are exempt: loopback in three forms, 10.1.2.3 and
/// 203.0.113.9.
fn exempt(rule: &str) -> [bool; 5] {
    let policies = loaded(&on_address(rule));
    ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3", "203.0.113.9"]
        .map(|client| counted(&policies, &[("remote_address", client)]).1)
}

#[test]
fn loopback_is_exempt_from_lockouts_unless_told_otherwise() {
    let (all, none) = ([true, true, true, false, false], [false; 5]);
    let cases = [
        (LOCKOUT.to_owned(), all),
        ("rate_limit: {algorithm: lockout, exempt_loopback: true}".to_owned(), all),
        ("rate_limit: {algorithm: lockout, exempt_loopback: false}".to_owned(), none),
        (format!("address: true, {LOCKOUT}"), all),
        (format!("address: {{exempt_loopback: false}}, {LOCKOUT}"), none),
        (format!("address: false, {LOCKOUT}"), none),
        (FIVE.to_owned(), none),
        (format!("address: true, {FIVE}"), none),
        (format!("address: {{exempt_loopback: true}}, {FIVE}"), all),
        ("rate_limit: {rates: [{algorithm: lockout}, 5/s]}".to_owned(), all),
    ];
    for (rule, expected) in cases {
        assert_eq!(exempt(&rule), expected, "{rule}");
    }
}

#[test]
fn listed_networks_are_exempt() {
    let ten = [true, true, true, true, false];
    let lockout = "rate_limit: {algorithm: lockout, exempt: [10.0.0.0/8, 2001:db8::/32]}";
    assert_eq!(exempt(lockout), ten);
    let ten = [false, false, false, true, false];
    assert_eq!(exempt(&format!("address: {{exempt: [10.0.0.0/8]}}, {FIVE}")), ten);
    assert_eq!(exempt(&format!("address: {{exempt: [10.1.2.3, '::2']}}, {FIVE}")), ten);
}

const SCOPED: &str = "
domain: t
descriptors:
  - key: remote_address
    ADDRESS
    descriptors:
      - key: scope
        rate_limit: {algorithm: lockout}
      - key: path
        rate_limit: {rate: 5/year}
";

#[test]
fn an_address_on_the_way_names_the_client() {
    let policies = loaded(&SCOPED.replace("ADDRESS", "address: {exempt: [10.0.0.0/8]}"));
    let lockout = |client| counted(&policies, &[("remote_address", client), ("scope", "::1")]);
    let key = |client: &str| format!("t|remote_address={client}|scope=::1|lo60s");
    assert_eq!(lockout("::ffff:1.2.3.4"), (key("1.2.3.4"), false), "the scope is no address");
    assert_eq!(lockout("127.0.0.1"), (key("127.0.0.1"), true));
    assert_eq!(lockout("10.1.2.3"), (key("10.1.2.3"), true));
    let path = |client| counted(&policies, &[("remote_address", client), ("path", "/")]).1;
    assert_eq!([path("127.0.0.1"), path("10.1.2.3"), path("1.2.3.4")], [false, true, false]);

    let policies = loaded(&SCOPED.replace("ADDRESS", ""));
    let (key, exempt) = counted(&policies, &[("remote_address", "::1"), ("scope", "2001:db8::a")]);
    assert_eq!(key, "t|remote_address=::1|scope=2001:db8::|lo60s");
    assert!(!exempt);
}

#[test]
fn what_is_exempt_is_said_in_one_place() {
    let twice = "rate_limit: {algorithm: lockout, exempt: [10.0.0.0/8]}";
    for address in ["true", "false", "{ipv6_prefix: 48}"] {
        let found = refusal(&on_address(&format!("address: {address}, {twice}")));
        let expected = "rl.yaml:3:";
        assert!(found.starts_with(expected), "{found}");
        let expected = "should not specify exempt here, since address is at rl.yaml:3:36 \
                        (in t > remote_address); write exempt into that address";
        assert!(found.ends_with(expected), "{found}");
    }
    let above = SCOPED
        .replace("ADDRESS", "address: true")
        .replace("lockout}", "lockout, exempt_loopback: false}");
    assert!(refusal(&above).contains("since address is at rl.yaml:5:14"), "{}", refusal(&above));
}

#[test]
fn networks_that_cannot_be_meant_are_refused() {
    let cases = [
        ("10.0.0.0/33", "write a network such as 10.0.0.0/8 or 2001:db8::/32, or an address"),
        ("example.com", "write a network such as 10.0.0.0/8"),
        ("10.0.0/8", "write a network such as 10.0.0.0/8"),
        ("10", "write a network such as 10.0.0.0/8"),
        ("10.1.2.3/8", "write '10.0.0.0/8' for the network or '10.1.2.3' for the address"),
        ("2001:db8::1/32", "write '2001:db8::/32' for the network or '2001:db8::1' for the"),
        ("'::ffff:10.0.0.0/104'", "write the IPv4 network: '10.0.0.0/8'"),
        ("'::ffff:10.1.2.3'", "write the IPv4 network: '10.1.2.3/32'"),
    ];
    for (network, hint) in cases {
        let text = network.trim_matches('\'');
        for rule in [
            format!("address: {{exempt: [{network}]}}, {FIVE}"),
            format!("rate_limit: {{algorithm: lockout, exempt: [{network}]}}"),
        ] {
            let found = refusal(&on_address(&rule));
            let message = format!("invalid network '{text}' in exempt (in t > remote_address); ");
            assert!(found.contains(&message) && found.contains(hint), "{found}");
            assert_eq!(found.lines().count(), 1, "{found}");
        }
    }
}

#[test]
fn address_is_a_truth_value_or_a_mapping() {
    for address in ["maybe", "[x]", "5", "'true'"] {
        let found = refusal(&on_address(&format!("address: {address}, {FIVE}")));
        assert!(found.contains("as true, false or a mapping for address"), "{found}");
        assert!(found.ends_with("or address: {exempt: [10.0.0.0/8], ipv6_prefix: 64}"), "{found}");
    }
    let found = refusal(&on_address(&format!("address: {{exempt: 10.0.0.0/8}}, {FIVE}")));
    assert!(found.contains("cannot read '10.0.0.0/8' as a list for exempt"), "{found}");
    let found = refusal(&on_address(&format!("address: {{exemt: []}}, {FIVE}")));
    assert!(found.contains("unknown key 'exemt'") && found.contains("did you mean 'exempt'?"));
}

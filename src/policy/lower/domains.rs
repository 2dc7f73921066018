//! Documents to domains.

use std::collections::HashMap;

use super::{FAILURE_MODES, LoadOptions, Lowering, Seen};
use crate::policy::draft::DomainDraft;
use crate::policy::failure_mode::FailureMode;
use crate::policy::fault::{Fault, Faults, Place, quoted};
use crate::policy::raw::{Field, RawDomain};
use crate::store::{ChargeMode, HashTag};

/// Checks all documents together. Those of one domain are taken in the order
/// given.
pub fn lower(raws: Vec<RawDomain>, options: LoadOptions, faults: &mut Faults) -> Vec<DomainDraft> {
    let groups = grouped(raws, options, faults);
    groups.into_iter().map(|group| lower_domain(group, options, faults)).collect()
}

/// Documents by domain. Without merging a domain has one document; further
/// ones are faults and groups of their own, so that their rules are checked.
fn grouped(raws: Vec<RawDomain>, options: LoadOptions, faults: &mut Faults) -> Vec<Vec<RawDomain>> {
    let mut groups: Vec<Vec<RawDomain>> = Vec::new();
    let mut known: HashMap<String, (usize, Place)> = HashMap::new();
    for raw in raws {
        let name = raw.domain.text().to_owned();
        let at = raw.place(raw.domain.given().map_or(raw.at, |domain| domain.at));
        if name.is_empty() {
            if !matches!(raw.domain, Field::Faulty) {
                let fault = Fault::new(at, "config file cannot have empty domain");
                faults.push(fault.hint("begin with `domain: NAME`, the name that requests carry"));
            }
            groups.push(vec![raw]);
            continue;
        }
        let group = known.get(&name).map(|(group, first)| (*group, first.to_string()));
        let Some((group, first)) = group else {
            known.insert(name, (groups.len(), at));
            groups.push(vec![raw]);
            continue;
        };
        match groups.get_mut(group) {
            Some(group) if options.merge_domains => group.push(raw),
            _ => {
                faults.push(duplicate(&name, at, &first));
                groups.push(vec![raw]);
            }
        }
    }
    groups
}

fn duplicate(name: &str, at: Place, first: &str) -> Fault {
    let message =
        format!("duplicate domain {} in config file: it stands at {first} already", quoted(name));
    Fault::new(at, message).within(&[name]).hint(
        "move its rules into one document, or let domains be merged (MERGE_DOMAIN_CONFIG=true)",
    )
}

fn lower_domain(group: Vec<RawDomain>, options: LoadOptions, faults: &mut Faults) -> DomainDraft {
    let name = group.first().map(|raw| raw.domain.text().to_owned()).unwrap_or_default();
    let unsaid =
        if options.all_or_nothing { ChargeMode::AllOrNothing } else { ChargeMode::Independent };
    let charge = agreed(&CHARGE, &name, &group, faults).unwrap_or(unsaid);
    let failure_mode = agreed(&FAILURE_MODE, &name, &group, faults);
    let hash_tag = agreed(&HASH_TAG, &name, &group, faults);
    let mut nodes = Vec::new();
    let mut seen = Seen::new();
    for raw in group {
        let RawDomain { source, descriptors, .. } = raw;
        let (source, domain, trail) = (&source, &*name, Vec::new());
        let mut lowering = Lowering { source, charge, domain, trail, faults };
        nodes.extend(lowering.level(descriptors, &mut seen));
    }
    DomainDraft { name, charge, failure_mode, hash_tag, nodes }
}

/// A setting of a whole domain.
struct Setting<T> {
    name: &'static str,
    field: fn(&RawDomain) -> &Field<String>,
    parse: fn(&str) -> Option<T>,
    choices: &'static str,
    /// What is wrong with a domain that says it in two ways.
    contradiction: &'static str,
}

const CHARGE: Setting<ChargeMode> = Setting {
    name: "charge",
    field: |raw| &raw.charge,
    parse: |text| match text {
        "independent" => Some(ChargeMode::Independent),
        "all_or_nothing" => Some(ChargeMode::AllOrNothing),
        _ => None,
    },
    choices: "charge is independent or all_or_nothing",
    contradiction: "is charged in two ways",
};

const FAILURE_MODE: Setting<FailureMode> = Setting {
    name: "failure_mode",
    field: |raw| &raw.failure_mode,
    parse: FailureMode::parse,
    choices: FAILURE_MODES,
    contradiction: "has two failure modes",
};

const HASH_TAG: Setting<HashTag> = Setting {
    name: "hash_tag",
    field: |raw| &raw.hash_tag,
    parse: HashTag::parse,
    choices: "hash_tag is entries, first_entry or domain",
    contradiction: "has two hash tags",
};

/// What the documents of a domain say; they must not contradict each other.
fn agreed<T: Copy + PartialEq>(
    setting: &Setting<T>,
    domain: &str,
    group: &[RawDomain],
    faults: &mut Faults,
) -> Option<T> {
    let mut said: Option<(T, Place)> = None;
    for raw in group {
        let Some(field) = (setting.field)(raw).given() else { continue };
        let at = raw.place(field.at);
        let Some(value) = (setting.parse)(&field.value) else {
            let message = format!("invalid {} {}", setting.name, quoted(&field.value));
            faults.push(Fault::new(at, message).within(&[domain]).hint(setting.choices));
            continue;
        };
        match &said {
            None => said = Some((value, at)),
            Some((first, place)) if *first != value => {
                let message = format!(
                    "domain {} {}: {} here, otherwise at {place}",
                    quoted(domain),
                    setting.contradiction,
                    field.value
                );
                let fault = Fault::new(at, message).within(&[domain]);
                faults.push(fault.hint("let all documents of a domain say the same, or only one"));
            }
            Some(_) => {}
        }
    }
    said.map(|(value, _)| value)
}

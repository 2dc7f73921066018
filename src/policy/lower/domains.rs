//! Documents to domains.

use std::collections::HashMap;

use super::{LoadOptions, Lowering, Seen};
use crate::policy::draft::DomainDraft;
use crate::policy::fault::{Fault, Faults, Place, quoted};
use crate::policy::raw::{Field, RawDomain};
use crate::store::ChargeMode;

const INDEPENDENT: &str = "independent";
const ALL_OR_NOTHING: &str = "all_or_nothing";

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
    let charge = charge(&name, &group, options, faults);
    let mut nodes = Vec::new();
    let mut seen = Seen::new();
    for raw in group {
        let RawDomain { source, descriptors, .. } = raw;
        let (source, domain, trail) = (&source, &*name, Vec::new());
        let mut lowering = Lowering { source, charge, domain, trail, faults };
        nodes.extend(lowering.level(descriptors, &mut seen));
    }
    DomainDraft { name, charge, nodes }
}

/// How the domain charges: as its documents say, which must not contradict
/// each other.
fn charge(
    name: &str,
    group: &[RawDomain],
    options: LoadOptions,
    faults: &mut Faults,
) -> ChargeMode {
    let mut said: Option<(ChargeMode, Place)> = None;
    for raw in group {
        let Some(field) = raw.charge.given() else { continue };
        let at = raw.place(field.at);
        let mode = match &*field.value {
            INDEPENDENT => ChargeMode::Independent,
            ALL_OR_NOTHING => ChargeMode::AllOrNothing,
            other => {
                let message = format!("invalid charge {}", quoted(other));
                let hint = format!("charge is {INDEPENDENT} or {ALL_OR_NOTHING}");
                faults.push(Fault::new(at, message).within(&[name]).hint(hint));
                continue;
            }
        };
        match &said {
            None => said = Some((mode, at)),
            Some((first, place)) if *first != mode => {
                let message = format!(
                    "domain {} is charged in two ways: {} here, otherwise at {place}",
                    quoted(name),
                    field.value
                );
                let fault = Fault::new(at, message).within(&[name]);
                faults.push(fault.hint("let all documents of a domain say the same, or only one"));
            }
            Some(_) => {}
        }
    }
    match said {
        Some((mode, _)) => mode,
        None if options.all_or_nothing => ChargeMode::AllOrNothing,
        None => ChargeMode::Independent,
    }
}

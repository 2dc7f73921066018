//! Reads policies from files, texts or the resources of a control plane.

use std::path::Path;
use std::sync::Arc;

use prost_types::Any;

use super::draft::enact;
use super::fault::{Fault, Faults, LoadError, Place, Position};
pub use super::lower::LoadOptions;
use super::lower::{lower, lower_rates};
use super::raw::RawDomain;
pub use super::resource::TYPE_URL;
use super::rule::Quota;
use super::source::{self, Source};
use super::tree::Policies;
use super::yaml::{Parsed, Problem};
use super::{read, resource, yaml};
use crate::telemetry::metrics::Metrics;

/// Reads the policies at `path`, a file or a directory of files.
///
/// # Errors
/// Every fault of every file. Nothing is counted in `metrics` then.
pub fn load(path: &Path, options: LoadOptions, metrics: &Metrics) -> Result<Policies, LoadError> {
    let mut faults = Faults::new(options.lenient);
    let sources = source::read(path, options.layout, &mut faults);
    load_sources(sources, options, metrics, faults)
}

/// Reads policies from texts, each with the name that messages call it by.
///
/// # Errors
/// Every fault of every text. Nothing is counted in `metrics` then.
pub fn load_texts(
    texts: &[(&str, &str)],
    options: LoadOptions,
    metrics: &Metrics,
) -> Result<Policies, LoadError> {
    let sources = texts
        .iter()
        .map(|(name, text)| Source { name: (*name).into(), bytes: text.as_bytes().to_vec() });
    load_sources(sources.collect(), options, metrics, Faults::new(options.lenient))
}

/// Reads policies from the resources of a control plane, which messages call by
/// their names.
///
/// # Errors
/// Every fault of every resource. Nothing is counted in `metrics` then.
pub fn load_resources(
    resources: &[Any],
    options: LoadOptions,
    metrics: &Metrics,
) -> Result<Policies, LoadError> {
    let mut faults = Faults::default();
    let mut resources = resource::unpack(resources, &mut faults);
    // As with files: nothing depends on the order in which they come.
    resources.sort_by(|a, b| (&a.name, &a.domain).cmp(&(&b.name, &b.domain)));
    let raws = resources.into_iter().map(|it| resource::document(it, &mut faults)).collect();
    let drafts = lower(raws, options, &mut faults);
    faults.unless_any(drafts).map(|drafts| enact(drafts, metrics))
}

/// Reads the limits of a `rate_limit` that stands alone, several `rates`
/// included: at least one. Messages call the text `name`.
///
/// ```
/// use tidegate::policy::rates_from_yaml;
///
/// let rates = rates_from_yaml("search", "{rates: [10/s, 100/m, 5000/d]}").unwrap();
/// assert_eq!(rates.len(), 3);
///
/// let error = rates_from_yaml("search", "{rate: 10/s, burst: 20}").unwrap_err();
/// assert!(error.to_string().starts_with("search:1:21: burst does not belong to fixed_window"));
/// ```
///
/// # Errors
/// Every fault of the text; what has a meaning only in a rule, such as `name`
/// or `unlimited`, is one.
pub fn rates_from_yaml(name: &str, yaml: &str) -> Result<Vec<Quota>, LoadError> {
    let mut faults = Faults::default();
    let source = Source { name: name.into(), bytes: yaml.as_bytes().to_vec() };
    let Parsed { documents, problems } = yaml::parse(&source.bytes);
    let mut quotas = Vec::new();
    // A text that is no YAML has a fault already.
    if problems.is_empty()
        && let Some(raw) = read::rate_limit(&source.name, &documents, &mut faults)
    {
        quotas = lower_rates(&source.name, &raw, &mut faults);
    }
    report(&source, problems, &mut faults);
    faults.unless_any(quotas)
}

/// Sources are taken in the order of their names, so that nothing depends on
/// the order in which a file system lists them.
fn load_sources(
    mut sources: Vec<Source>,
    options: LoadOptions,
    metrics: &Metrics,
    mut faults: Faults,
) -> Result<Policies, LoadError> {
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    let raws = sources.iter().flat_map(|source| documents(source, &mut faults)).collect();
    let drafts = lower(raws, options, &mut faults);
    let slips = faults.take_slips();
    faults.unless_any(drafts).map(|drafts| enact(drafts, metrics).with_slips(slips))
}

fn documents(source: &Source, faults: &mut Faults) -> Vec<RawDomain> {
    let Parsed { mut documents, problems } = yaml::parse(&source.bytes);
    if let Some(second) = documents.get(1).filter(|_| faults.is_lenient()) {
        let place = Place { file: Arc::clone(&source.name), at: second.at };
        let fault = Fault::new(place, "only the first document of a file counts");
        faults.slip(fault.hint("put the others into files of their own"));
        documents.truncate(1);
    }
    if documents.is_empty() && problems.is_empty() {
        // A file is one document at least, if one without a domain.
        return vec![RawDomain::new(Arc::clone(&source.name), Position::START)];
    }
    report(source, problems, faults);
    documents.iter().map(|root| read::document(&source.name, root, faults)).collect()
}

fn report(source: &Source, problems: Vec<Problem>, faults: &mut Faults) {
    for problem in problems {
        let place = Place { file: Arc::clone(&source.name), at: problem.at };
        let fault = Fault::new(place, problem.message);
        faults.push(match problem.hint {
            Some(hint) => fault.hint(hint),
            None => fault,
        });
    }
}

//! Reads policies from files or texts.

use std::path::Path;
use std::sync::Arc;

use super::draft::enact;
use super::fault::{Fault, Faults, LoadError, Place, Position};
pub use super::lower::LoadOptions;
use super::lower::lower;
use super::raw::RawDomain;
use super::source::{self, Source};
use super::tree::Policies;
use super::{read, yaml};
use crate::telemetry::metrics::Metrics;

/// Reads the policies at `path`, a file or a directory of `*.yaml` and `*.yml`
/// files.
///
/// # Errors
/// Every fault of every file. Nothing is counted in `metrics` then.
pub fn load(path: &Path, options: LoadOptions, metrics: &Metrics) -> Result<Policies, LoadError> {
    let mut faults = Faults::default();
    let sources = source::read(path, &mut faults);
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
    load_sources(sources.collect(), options, metrics, Faults::default())
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
    faults.unless_any(drafts).map(|drafts| enact(drafts, metrics))
}

fn documents(source: &Source, faults: &mut Faults) -> Vec<RawDomain> {
    let parsed = yaml::parse(&source.bytes);
    let nothing = parsed.documents.is_empty() && parsed.problems.is_empty();
    for problem in parsed.problems {
        let place = Place { file: Arc::clone(&source.name), at: problem.at };
        let fault = Fault::new(place, problem.message);
        faults.push(match problem.hint {
            Some(hint) => fault.hint(hint),
            None => fault,
        });
    }
    if nothing {
        // A file is one document at least, if one without a domain.
        return vec![RawDomain::new(Arc::clone(&source.name), Position::START)];
    }
    parsed.documents.iter().map(|root| read::document(&source.name, root, faults)).collect()
}

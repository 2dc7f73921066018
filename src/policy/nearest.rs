//! What was probably meant by a word that nobody knows.

/// Letters too many, too few, wrong or swapped.
const MAX_SLIPS: usize = 2;

/// The known word that `word` is probably a slip of.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let wanted = folded(word);
    known
        .into_iter()
        .map(|candidate| (candidate, folded(candidate)))
        // Most are told apart by their length, at no cost.
        .filter(|(_, candidate)| candidate.len().abs_diff(wanted.len()) <= MAX_SLIPS)
        .map(|(name, candidate)| (strsim::osa_distance(&wanted, &candidate), name))
        .filter(|(slips, name)| *slips <= MAX_SLIPS && slips * 3 <= name.len())
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

/// Whether two words differ in no more than what is easily forgotten.
pub fn alike(one: &str, other: &str) -> bool {
    folded(one) == folded(other)
}

/// A word without what is easily forgotten.
fn folded(word: &str) -> String {
    let kept = word.chars().filter(|char| !matches!(char, '_' | '-' | ' '));
    kept.flat_map(char::to_lowercase).collect()
}

//! Finds and reads the files that rules are in.
//!
//! The layout of a Kubernetes `ConfigMap` is the one to get right: `rl.yaml`
//! is a symlink to `..data/rl.yaml`, and `..data` a symlink to a directory that
//! an update replaces. Symlinks are therefore followed, and entries that begin
//! with a dot skipped, so that each file is read once.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fault::{Fault, Faults, Place, Position};
use super::yaml::MAX_BYTES;

/// Most entries of all directories together. More than that is not a directory
/// of rules, but `/` by mistake.
const MAX_ENTRIES: usize = 20_000;

/// Which files of a directory hold rules, and what messages call them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `*.yaml` and `*.yml`, at least one; entries that begin with a dot are
    /// skipped. Messages have the path.
    #[default]
    Rules,
    /// Every file, as in the runtime directory of envoyproxy/ratelimit; there
    /// may be none. Messages have the path below the directory with dots for
    /// slashes.
    Runtime {
        /// Entries that begin with a dot count, too.
        dot_files: bool,
        /// What messages have begins with the name of the directory itself.
        with_directory: bool,
    },
}

impl Layout {
    fn skips(self, entry: &OsStr) -> bool {
        let counts = matches!(self, Self::Runtime { dot_files: true, .. });
        !counts && entry.as_encoded_bytes().starts_with(b".")
    }

    fn has_rules(self, path: &Path) -> bool {
        match self {
            Self::Rules => path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml"),
            Self::Runtime { .. } => true,
        }
    }

    /// What messages call the file at `path` of the directory `root`.
    fn name(self, root: &Path, path: &Path) -> Arc<str> {
        let Self::Runtime { with_directory, .. } = self else { return name(path) };
        let above = if with_directory { root.parent() } else { Some(root) };
        let below = above.and_then(|above| path.strip_prefix(above).ok()).unwrap_or(path);
        below.to_string_lossy().trim_matches('/').replace('/', ".").into()
    }
}

/// A file and what is in it.
#[derive(Clone, Debug)]
pub struct Source {
    /// What messages call it.
    pub name: Arc<str>,
    /// Its content, at most one byte more than is allowed.
    pub bytes: Vec<u8>,
}

/// Reads the file at `path`, or all rule files below the directory there, by
/// path.
pub fn read(path: &Path, layout: Layout, faults: &mut Faults) -> Vec<Source> {
    let found = Found::at(path, layout);
    let mut sources = Vec::with_capacity(found.files.len());
    for (file, _) in &found.files {
        match content(file) {
            Ok(bytes) => sources.push(Source { name: layout.name(path, file), bytes }),
            Err(error) => faults.push(unreadable(file, &error)),
        }
    }
    for (path, error) in &found.errors {
        faults.push(unreadable(path, error));
    }
    if found.files.is_empty() && found.errors.is_empty() && layout == Layout::Rules {
        let fault = at(path, "the directory holds no rule file".to_owned());
        faults.push(fault.hint("put a *.yaml or *.yml file there, or name another path"));
    }
    sources
}

/// What tells whether files changed, without reading them: their paths, and
/// for each what it resolves to and its times and size.
///
/// Take it *before* loading: a change in between then shows as a difference
/// next time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature(Vec<Stamp>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    seen: Result<Seen, io::ErrorKind>,
}

/// A swapped symlink shows in the inode, a write in the times, also one that
/// keeps the size or that sets the modification time back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    file: (u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
    size: u64,
}

impl Signature {
    /// The signature of what [`load`](super::load()) would read at `path`.
    pub fn of(path: &Path, layout: Layout) -> Self {
        let found = Found::at(path, layout);
        let files = found.files.into_iter().map(|(path, metadata)| {
            let seen = Seen {
                file: (metadata.dev(), metadata.ino()),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
                size: metadata.size(),
            };
            Stamp { path, seen: Ok(seen) }
        });
        let errors = found.errors.into_iter();
        let errors = errors.map(|(path, error)| Stamp { path, seen: Err(error.kind()) });
        Self(files.chain(errors).collect())
    }
}

/// The rule files at a path, and what could not be looked at.
#[derive(Debug, Default)]
struct Found {
    layout: Layout,
    files: Vec<(PathBuf, Metadata)>,
    errors: Vec<(PathBuf, io::Error)>,
    /// Resolved paths of what was found, since two symlinks may lead to one
    /// file, or back to a directory above.
    known: HashSet<PathBuf>,
    entries: usize,
}

impl Found {
    fn at(path: &Path, layout: Layout) -> Self {
        let mut found = Self { layout, ..Self::default() };
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                if found.is_new(path) {
                    found.directory(path);
                }
            }
            // Whatever it is: a pipe is as good as a file where it is asked for.
            Ok(metadata) => found.files.push((path.to_owned(), metadata)),
            Err(error) => found.errors.push((path.to_owned(), error)),
        }
        found.files.sort_by(|(a, _), (b, _)| a.cmp(b));
        found.errors.sort_by(|(a, _), (b, _)| a.cmp(b));
        found
    }

    /// Looks through a directory and those below it, without recursion: how
    /// deep they go is not ours to say.
    fn directory(&mut self, path: &Path) {
        let mut waiting = vec![path.to_owned()];
        while let Some(directory) = waiting.pop() {
            if let Err(error) = self.entries_of(&directory, &mut waiting) {
                self.errors.push((directory, error));
            }
        }
    }

    fn entries_of(&mut self, directory: &Path, waiting: &mut Vec<PathBuf>) -> io::Result<()> {
        // By name, so that of two ways to one file it is always the same one.
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(directory)? {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                waiting.clear();
                return Err(io::Error::other(format!("more than {MAX_ENTRIES} entries")));
            }
            let entry = entry?;
            if !self.layout.skips(&entry.file_name()) {
                entries.push(entry.path());
            }
        }
        entries.sort();
        for path in entries {
            let is_rules = self.layout.has_rules(&path);
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => {
                    if self.is_new(&path) {
                        waiting.push(path);
                    }
                }
                Ok(_) | Err(_) if !is_rules => {}
                Ok(metadata) if metadata.is_file() => {
                    if self.is_new(&path) {
                        self.files.push((path, metadata));
                    }
                }
                // To open a pipe would be to wait for whoever writes to it.
                Ok(_) => self.errors.push((path, io::Error::other("not a regular file"))),
                Err(error) => self.errors.push((path, error)),
            }
        }
        Ok(())
    }

    fn is_new(&mut self, path: &Path) -> bool {
        // What cannot be resolved fails again, with a message, when it is read.
        fs::canonicalize(path).map_or(true, |path| self.known.insert(path))
    }
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> Fault {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path; a symlink must lead to a file that exists",
        io::ErrorKind::PermissionDenied => "let the user that tidegate runs as read it",
        _ => "name a file of rules, or a directory of such files",
    };
    at(path, format!("cannot be read: {error}")).hint(hint)
}

fn at(path: &Path, message: String) -> Fault {
    Fault::new(Place { file: name(path), at: Position::UNKNOWN }, message)
}

fn name(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}

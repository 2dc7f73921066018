//! From the parser's events to nodes.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{ScalarStyle, Tag};

use super::{Entry, Kind, MAX_ADDED, MAX_DEPTH, NODE_WEIGHT, Node, Problem, UNKNOWN_ANCHOR_HINT};
use crate::policy::fault::Position;

/// Builds documents without recursion, so that no nesting can exhaust the stack.
#[derive(Debug, Default)]
pub struct Builder {
    /// The documents that are complete.
    pub documents: Vec<Node>,
    /// Faults that do not keep the rest from being read.
    pub problems: Vec<Problem>,
    open: Vec<Frame>,
    anchors: HashMap<usize, Built>,
    added: usize,
}

/// A list or mapping whose end was not seen yet.
#[derive(Debug)]
struct Frame {
    at: Position,
    anchor: usize,
    content: Content,
    size: Size,
}

#[derive(Debug)]
enum Content {
    List(Vec<Node>),
    Map { entries: Vec<(Node, Node)>, key: Option<Node> },
}

/// What a node amounts to with all that is in it, aliases followed.
#[derive(Clone, Copy, Debug)]
struct Size {
    weight: usize,
    height: usize,
}

#[derive(Clone, Debug)]
struct Built {
    node: Node,
    size: Size,
}

impl Builder {
    /// Anchors do not reach from one document into the next.
    pub fn start_document(&mut self) {
        self.anchors.clear();
    }

    pub fn scalar(
        &mut self,
        at: Position,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
    ) {
        let mut plain = style == ScalarStyle::Plain;
        match tag.map(|tag| (tag, tag.is_yaml_core_schema(), &*tag.suffix)) {
            None | Some((_, true, "null" | "bool" | "int" | "float")) => {}
            Some((_, true, "str") | (_, false, "!")) => plain = false,
            Some((tag, ..)) => self.refuse_tag(at, tag),
        }
        let size = Size { weight: NODE_WEIGHT.saturating_add(text.len()), height: 0 };
        let node = Node { at, kind: Kind::Scalar { text: text.into(), plain } };
        self.complete(Built { node, size }, anchor);
    }

    pub fn open_list(
        &mut self,
        at: Position,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), Problem> {
        self.check_collection_tag(at, "seq", tag);
        self.push(at, anchor, Content::List(Vec::new()))
    }

    pub fn open_map(
        &mut self,
        at: Position,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), Problem> {
        self.check_collection_tag(at, "map", tag);
        self.push(at, anchor, Content::Map { entries: Vec::new(), key: None })
    }

    fn push(&mut self, at: Position, anchor: usize, content: Content) -> Result<(), Problem> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(at));
        }
        let size = Size { weight: NODE_WEIGHT, height: 1 };
        self.open.push(Frame { at, anchor, content, size });
        Ok(())
    }

    pub fn close(&mut self) {
        let Some(Frame { at, anchor, content, size }) = self.open.pop() else { return };
        let kind = match content {
            Content::List(items) => Kind::List(items.into()),
            Content::Map { entries, .. } => Kind::Map(self.resolve(entries)),
        };
        self.complete(Built { node: Node { at, kind }, size }, anchor);
    }

    /// Puts in what the anchor stands for. The limits are checked before
    /// anything is built, so that a bomb costs neither time nor memory.
    pub fn alias(&mut self, at: Position, anchor: usize) -> Result<(), Problem> {
        let Some(built) = self.anchors.get(&anchor) else {
            let inside = self.open.iter().any(|frame| frame.anchor == anchor);
            return Err(if inside {
                Problem::new(at, "the alias stands inside of what it stands for")
                    .hint("write the value out")
            } else {
                Problem::new(at, "found unknown anchor").hint(UNKNOWN_ANCHOR_HINT)
            });
        };
        if self.open.len() + built.size.height > MAX_DEPTH {
            return Err(too_deep(at));
        }
        self.added = self.added.saturating_add(built.size.weight);
        if self.added > MAX_ADDED {
            let message = "document contains excessive aliasing";
            return Err(Problem::new(at, message).hint("write the values out instead of aliases"));
        }
        let built = built.clone();
        self.complete(built, 0);
        Ok(())
    }

    fn complete(&mut self, built: Built, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, built.clone());
        }
        let Built { node, size } = built;
        let Some(frame) = self.open.last_mut() else {
            if !is_empty(&node) {
                self.documents.push(node);
            }
            return;
        };
        frame.size.weight = frame.size.weight.saturating_add(size.weight);
        frame.size.height = frame.size.height.max(size.height + 1);
        match &mut frame.content {
            Content::List(items) => items.push(node),
            Content::Map { entries, key } => match key.take() {
                None => *key = Some(node),
                Some(key) => entries.push(with_place_of_key(key, node)),
            },
        }
    }

    /// The entries of a mapping: repeated keys marked, and merge keys (`<<`)
    /// replaced by what they bring, which is whatever is not there already.
    fn resolve(&mut self, written: Vec<(Node, Node)>) -> Rc<[Entry]> {
        let mut entries = Vec::with_capacity(written.len());
        let mut known: HashMap<Rc<str>, Position> = HashMap::new();
        let mut merged = Vec::new();
        for (key, value) in written {
            let repeats = match &key.kind {
                Kind::Scalar { text, .. } => known.get(text).copied(),
                Kind::List(_) | Kind::Map(_) => None,
            };
            if let (Kind::Scalar { text, .. }, None) = (&key.kind, repeats) {
                known.insert(Rc::clone(text), key.at);
            }
            if is_merge(&key) && repeats.is_none() {
                merged.push(value);
            } else {
                entries.push(Entry { key, value, repeats });
            }
        }
        for source in merged.iter().flat_map(|value| self.merge_sources(value)) {
            for entry in source.iter().filter(|entry| entry.repeats.is_none()) {
                let Kind::Scalar { text, .. } = &entry.key.kind else { continue };
                if known.insert(Rc::clone(text), entry.key.at).is_none() {
                    entries.push(entry.clone());
                }
            }
        }
        entries.into()
    }

    /// The mappings that the value of a merge key names, first in precedence
    /// first.
    fn merge_sources(&mut self, value: &Node) -> Vec<Rc<[Entry]>> {
        let nodes = match &value.kind {
            Kind::List(nodes) => nodes,
            Kind::Map(_) | Kind::Scalar { .. } => std::slice::from_ref(value),
        };
        let mut sources = Vec::with_capacity(nodes.len());
        for node in nodes {
            match &node.kind {
                Kind::Map(entries) => sources.push(Rc::clone(entries)),
                Kind::Scalar { .. } | Kind::List(_) => {
                    let message = "map merge requires map or sequence of maps as the value";
                    let problem = Problem::new(node.at, message);
                    self.problems.push(problem.hint("write `<<: *name` or `<<: [*name, *other]`"));
                }
            }
        }
        sources
    }

    fn check_collection_tag(&mut self, at: Position, expected: &str, tag: Option<&Tag>) {
        match tag {
            Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == expected) => {
                self.refuse_tag(at, tag);
            }
            _ => {}
        }
    }

    fn refuse_tag(&mut self, at: Position, tag: &Tag) {
        let message = format!("the tag '{}{}' has no meaning here", tag.handle, tag.suffix);
        self.problems.push(Problem::new(at, message).hint("remove the tag"));
    }
}

fn is_empty(node: &Node) -> bool {
    matches!(&node.kind, Kind::Scalar { text, plain: true } if text.is_empty())
}

fn is_merge(key: &Node) -> bool {
    matches!(&key.kind, Kind::Scalar { text, plain: true } if &**text == "<<")
}

/// A value that is left out has no place of its own.
fn with_place_of_key(key: Node, mut value: Node) -> (Node, Node) {
    if is_empty(&value) {
        value.at = key.at;
    }
    (key, value)
}

fn too_deep(at: Position) -> Problem {
    Problem::new(at, format!("nested more than {MAX_DEPTH} levels deep"))
        .hint("nest less deeply; each level of descriptors counts twice")
}

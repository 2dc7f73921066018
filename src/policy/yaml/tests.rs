use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// A node in a form that is easy to compare: quoted text in quotes.
fn shown(node: &Node) -> String {
    match &node.kind {
        Kind::Scalar { text, plain: true } => text.to_string(),
        Kind::Scalar { text, .. } => format!("{text:?}"),
        Kind::List(items) => {
            let items: Vec<_> = items.iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        Kind::Map(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|entry| format!("{}: {}", shown(&entry.key), shown(&entry.value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn one(text: &str) -> Node {
    let parsed = parse(text.as_bytes());
    assert_eq!(parsed.problems, [], "{text}");
    parsed.documents.into_iter().next().expect("a document")
}

/// The place and text of the only problem.
fn problem(bytes: &[u8]) -> (u32, u32, String) {
    let problems = parse(bytes).problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    let Position { line, column } = problems[0].at;
    assert!(problems[0].hint.is_some(), "{problems:?}");
    let start = format!("error loading config file: yaml: line {line}: ");
    let message = problems[0].message.strip_prefix(&start).expect("the reference's words");
    (line, column, message.to_owned())
}

#[test]
fn scalars_are_kept_as_written() {
    let text = "[010, 1.10, yes, ~, '010', \"a\\tb\", !!str 5, ! 6, !!int 7]";
    assert_eq!(shown(&one(text)), r#"[010, 1.10, yes, ~, "010", "a\tb", "5", "6", 7]"#);
}

#[test]
fn every_node_knows_its_place() {
    let root = one("é: x\nlist:\n  - &a {k: 'v'}\n  - *a\nnone:\n");
    let Kind::Map(entries) = &root.kind else { panic!("{root:?}") };
    let at = |node: &Node| (node.at.line, node.at.column);
    assert_eq!((at(&root), at(&entries[0].value)), ((1, 1), (1, 4)));
    let Kind::List(items) = &entries[1].value.kind else { panic!("{root:?}") };
    assert_eq!((at(&items[0]), at(&items[1])), ((3, 5), (3, 5)), "an alias is where its text is");
    assert_eq!(at(&entries[2].value), (5, 1), "nothing is where its key is");
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_change_nothing() {
    let root = one("\u{feff}a: 1\r\nb:\r\n  - 2\r\n");
    assert_eq!(shown(&root), "{a: 1, b: [2]}");
    let (line, column, _) = problem("\u{feff}a: 1\r\nb: @\r\n".as_bytes());
    assert_eq!((line, column), (2, 4));
}

#[test]
fn a_text_may_hold_several_documents_and_empty_ones_do_not_count() {
    let parsed = parse(b"# first\n---\na: 1\n---\n---\nb: 2\n...\n---\n");
    let shown: Vec<_> = parsed.documents.iter().map(shown).collect();
    assert_eq!(shown, ["{a: 1}", "{b: 2}"]);
    for empty in ["", "# nothing\n", "---\n", "~", "null"] {
        let documents = parse(empty.as_bytes()).documents;
        assert!(documents.len() <= 1, "{empty:?}");
    }
}

#[test]
fn documents_before_an_error_are_kept() {
    let parsed = parse(b"a: 1\n---\nb: [\n");
    assert_eq!(parsed.documents.len(), 1);
    assert_eq!(parsed.problems.len(), 1);
}

#[test]
fn errors_of_syntax_say_where_and_what_to_do() {
    let cases: [(&[u8], u32, u32, &str); 10] = [
        (b"a:\n\t- b\n", 2, 2, "tabs disallowed"),
        (b"a: [x\n", 2, 1, "expected ',' or ']'"),
        (b"a: {x: 1\n", 2, 1, "expected ',' or '}'"),
        (b"a: b: c\n", 1, 5, "mapping values are not allowed"),
        (b"a: 'x\n", 1, 4, "unexpected end of stream"),
        (b"a: *x\n", 1, 4, "unknown anchor"),
        (b"a: &x 1\n---\nb: *x\n", 3, 4, "unknown anchor"),
        (b"a: &x [*x]\n", 1, 8, "inside of what it stands for"),
        (b"a: !mine 5\n", 1, 4, "tag '!mine' has no meaning"),
        (b"<<: 5\na: 1\n", 1, 5, "map merge requires map or sequence of maps as the value"),
    ];
    for (text, line, column, message) in cases {
        let found = problem(text);
        assert_eq!((found.0, found.1), (line, column), "{found:?}");
        assert!(found.2.contains(message), "{found:?}");
    }
}

#[test]
fn tabs_indent_nothing_but_what_is_in_brackets() {
    let refused = [
        ("\tdomain: t\n", 1, 1),
        ("a: b\r\nc:\r\n \td: e\r\n", 3, 2),
        ("a:\n  \t- b\n", 2, 3),
        ("a:\n  \t&x {b: c}\n", 2, 3),
        ("{\n\ta: b}\n---\n\tc: d\n", 4, 1),
    ];
    for (text, line, column) in refused {
        let expected = (line, column, "found a tab in the indentation".to_owned());
        assert_eq!(problem(text.as_bytes()), expected, "{text:?}");
    }
    let accepted = [
        "{\n\t\"a\": [\n\t\t1\n\t]\n}\n",
        "a: b\t# c\n\t# d\ne: f\n",
        "a: |\n  \tb\nc: d\n",
        "a: &x [\n \tb]\n",
    ];
    for text in accepted {
        one(text);
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_where_they_stand() {
    assert_eq!(problem(b"a: 1\r\nbc: \xff\n"), (2, 5, "the bytes here are not UTF-8".into()));
    assert_eq!(problem(b"\xff\xfea\0"), (1, 1, "the file is UTF-16".into()));
    let (line, column, message) = problem(b"a: 1\n# x\0y\ndropped: 1\n");
    assert_eq!((line, column), (2, 4));
    assert_eq!(message, "control characters are not allowed (U+0000)");
    let large = vec![b'#'; MAX_BYTES + 1];
    assert_eq!(problem(&large).2, "the file is larger than 16 MiB");
}

#[test]
fn own_keys_win_over_merged_ones_and_earlier_ones_over_later() {
    let text = "base: &b {x: 1, y: 1}\nmore: &m {y: 2, z: 2}\n\
                one: {y: 0, <<: *b}\ntwo: {<<: [*m, *b], w: 3}\n\
                three: {<<: {<<: *m, z: 9}}\nplain: {\"<<\": 1}\n";
    assert_eq!(
        shown(&one(text)),
        "{base: {x: 1, y: 1}, more: {y: 2, z: 2}, one: {y: 0, x: 1}, \
         two: {w: 3, y: 2, z: 2, x: 1}, three: {z: 9, y: 2}, plain: {\"<<\": 1}}"
    );
}

#[test]
fn repeated_keys_are_marked() {
    let root = one("a: 1\nb: 2\n\"a\": 3\n<<: {a: 4}\n<<: {c: 5}\n");
    let Kind::Map(entries) = &root.kind else { panic!("{root:?}") };
    let repeats: Vec<_> = entries.iter().map(|entry| entry.repeats.map(|at| at.line)).collect();
    assert_eq!(repeats, [None, None, Some(1), Some(4)]);
}

/// `levels` lists of `width` aliases each, one inside the other.
fn bomb(levels: usize, width: usize) -> String {
    let mut text = format!("l0: &l0 [{}]\n", vec!["x"; width].join(", "));
    for level in 1..levels {
        let aliases = vec![format!("*l{}", level - 1); width].join(", ");
        let _ = writeln!(text, "l{level}: &l{level} [{aliases}]");
    }
    text
}

#[test]
fn f02_an_alias_bomb_is_refused() {
    let found = problem(bomb(10, 10).as_bytes());
    assert_eq!(found.2, "document contains excessive aliasing");
    assert_eq!(found.0, 6, "as soon as it is too much");
    assert_eq!(parse(bomb(4, 10).as_bytes()).problems, []);
    // Long texts and merges count as well.
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), ["*a"; 9].join(", "));
    assert_eq!(problem(long.as_bytes()).2, "document contains excessive aliasing");
    let keys: Vec<_> = (0..10_000).map(|key| format!("k{key}: 1")).collect();
    let merges = ["{<<: *a}"; 100].join(", ");
    let text = format!("a: &a {{{}}}\nb: [{merges}]\n", keys.join(", "));
    assert_eq!(problem(text.as_bytes()).2, "document contains excessive aliasing");
}

#[test]
fn depth_is_bounded_also_through_aliases() {
    let nested = |depth: usize| format!("{}x{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(parse(nested(MAX_DEPTH).as_bytes()).problems, []);
    assert!(problem(nested(MAX_DEPTH + 1).as_bytes()).2.contains("nested more than 64"));
    assert!(problem("- ".repeat(100_000).as_bytes()).2.contains("nested more than 64"));
    let text = format!("- &a {}\n- &b {}", nested(40), nested(20).replace('x', "*a"));
    assert_eq!(parse(text.as_bytes()).problems, []);
    let text = format!("{text}\n- {}", nested(10).replace('x', "*b"));
    assert!(problem(text.as_bytes()).2.contains("nested more than 64"));
}

/// Whether the text of every string that the other reader finds is ours too.
fn agree(ours: &Node, theirs: &serde_yaml::Value) -> Result<(), String> {
    use serde_yaml::Value;
    match (&ours.kind, theirs) {
        (Kind::Scalar { text, .. }, Value::String(theirs)) if **text != **theirs => {
            Err(format!("{text:?} is {theirs:?}"))
        }
        (Kind::Scalar { .. }, Value::Mapping(_) | Value::Sequence(_)) => {
            Err(format!("{ours:?} is {theirs:?}"))
        }
        (Kind::Scalar { .. }, _) => Ok(()),
        (Kind::List(items), Value::Sequence(theirs)) if items.len() == theirs.len() => {
            items.iter().zip(theirs).try_for_each(|(ours, theirs)| agree(ours, theirs))
        }
        (Kind::Map(entries), Value::Mapping(theirs)) if entries.len() == theirs.len() => {
            entries.iter().zip(theirs).try_for_each(|(ours, (key, value))| {
                agree(&ours.key, key)?;
                agree(&ours.value, value)
            })
        }
        _ => Err(format!("{ours:?} is {theirs:?}")),
    }
}

fn piece() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "\n",
        "\n",
        "\n  ",
        "\n  - ",
        "- ",
        ": ",
        ": ",
        ":",
        ", ",
        "[",
        "]",
        "{",
        "}",
        "'",
        "\"",
        "#",
        " # c",
        "&a ",
        "*a",
        "<<: ",
        "|\n  ",
        ">\n  ",
        "? ",
        "!!str ",
        "---\n",
        "...\n",
        "\t",
        "\\n",
        "key",
        "value",
        "domain",
        "010",
        "1.10",
        "~",
        "null",
        "yes",
        "0x1F",
        "é",
        "東京",
        "''",
        "\"\\x41\"",
        "%",
        "@",
        "-",
        ".inf",
        "\r\n",
        "rate_limit",
        "*",
    ];
    prop_oneof![
        8 => proptest::sample::select(PIECES).prop_map(str::to_owned),
        1 => "[ -~]{0,4}",
        1 => any::<char>().prop_map(String::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the text, there is an answer; and where another reader finds a
    /// string, we find the same one.
    #[test]
    fn any_text_is_read_as_other_readers_do(pieces in proptest::collection::vec(piece(), 0..40)) {
        // (A block of text that ends with the file, without a line end, is one thing they
        // read differently.)
        let text = pieces.concat() + "\n";
        let parsed = parse(text.as_bytes());
        let theirs: Result<serde_yaml::Value, _> = serde_yaml::from_str(&text);
        if let ([document], [], Ok(theirs)) = (&*parsed.documents, &*parsed.problems, theirs) {
            // Where the two follow different versions of YAML: line ends, byte order marks
            // between documents, names of anchors; and keys that only one resolves.
            let disputed = text.contains(['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}'])
                || text.contains("<<")
                || text.replace("&a ", "").contains('&');
            if !disputed {
                prop_assert_eq!(agree(document, &theirs), Ok(()), "{:?}", text);
            }
        }
    }

    #[test]
    fn bytes_of_any_kind_are_read_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let parsed = parse(&bytes);
        prop_assert!(parsed.problems.iter().all(|problem| problem.at.line >= 1));
    }
}

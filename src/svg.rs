//! As much of SVG as charts need.

use std::fmt::{self, Write as _};

/// A picture under construction. Coordinates are pixels, from the upper left.
#[derive(Debug)]
pub struct Svg {
    body: String,
    width: u32,
    height: u32,
}

/// Which end of a text stands at its coordinates.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// Its start.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Svg {
    /// An empty picture on white.
    pub fn new(width: u32, height: u32) -> Self {
        let mut svg = Self { body: String::new(), width, height };
        svg.rect((0.0, 0.0), (width.into(), height.into()), "white");
        svg
    }

    /// A filled rectangle with its upper left corner `at`.
    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), fill: &str) {
        self.add(format_args!(
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{}"/>"#,
            at.0,
            at.1,
            size.0.max(0.0),
            size.1.max(0.0),
            Escaped(fill)
        ));
    }

    /// A line through `points`.
    pub fn line(&mut self, points: &[(f64, f64)], stroke: &str) {
        let mut text = String::new();
        for (x, y) in points {
            let _ = write!(text, "{x:.1},{y:.1} ");
        }
        self.add(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{}" stroke-width="1.5"/>"#,
            text.trim_end(),
            Escaped(stroke)
        ));
    }

    /// One line of text, with its foot `at`.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        self.text_of(at, anchor, 12, text);
    }

    /// The same in small, for numbers in a crowd.
    pub fn small(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        self.text_of(at, anchor, 8, text);
    }

    fn text_of(&mut self, at: (f64, f64), anchor: Anchor, size: u32, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            r#"<text x="{:.1}" y="{:.1}" text-anchor="{anchor}" font-size="{size}">{}</text>"#,
            at.0,
            at.1,
            Escaped(text)
        ));
    }

    fn add(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

impl fmt::Display for Svg {
    /// The whole document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { body, width, height } = self;
        write!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             {body}</svg>\n"
        )
    }
}

/// Text in which XML sees no markup.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            match char {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                // XML has no way to write other control characters.
                _ if char.is_control() => f.write_char(' ')?,
                _ => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_well_formed_whatever_its_texts() {
        let mut svg = Svg::new(100, 50);
        let text = "a <b> & \"c\" 'd'\n\u{1}…";
        svg.text((1.0, 2.0), Anchor::End, text);
        svg.line(&[(0.0, 0.0), (1.5, f64::from(u32::MAX))], "red");
        svg.rect((0.0, 0.0), (-1.0, 1.0), "\"");
        let source = svg.to_string();
        let document = roxmltree::Document::parse(&source).expect("well-formed");
        let root = document.root_element();
        assert_eq!(root.tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
        let shown = root.children().find(|node| node.tag_name().name() == "text");
        let shown = shown.and_then(|node| node.text());
        assert_eq!(shown, Some("a <b> & \"c\" 'd'  …"));
    }
}

//! The report as a picture: bars for each algorithm, in groups.

use super::{Report, Score};
use crate::svg::{Anchor, Svg};

const WIDTH: u32 = 960;
const HEIGHT: u32 = 700;
/// One colour for each algorithm, told apart also in print.
const COLOURS: [&str; 6] = ["#1f6fb2", "#e07b00", "#2c9c4b", "#c23b3b", "#8156a8", "#7a7a7a"];
const BAR: f64 = 19.0;
const GRID: &str = "#e0e0e0";

/// A part of the picture: what it shows, in groups of one number for each
/// algorithm.
struct Panel<'a> {
    title: &'a str,
    at: (f64, f64),
    groups: Vec<(String, Vec<f64>)>,
    /// How a number is written.
    shown: fn(f64) -> String,
    /// A line across, where the numbers have one to be compared with.
    mark: Option<f64>,
}

impl Report {
    /// The report as SVG.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new(WIDTH, HEIGHT);
        svg.text((40.0, 26.0), Anchor::Start, &self.title());
        let mut x = 40.0;
        for (footprint, colour) in self.footprints.iter().zip(COLOURS) {
            svg.rect((x, 40.0), (10.0, 10.0), colour);
            svg.text((x + 14.0, 50.0), Anchor::Start, footprint.name);
            let letters = u32::try_from(footprint.name.len()).unwrap_or_default();
            x += 40.0 + 7.0 * f64::from(letters);
        }
        let share = |share: f64| format!("{:.1}", 100.0 * share);
        let limit = self.settings.limit;
        let panels = [
            Panel {
                title: "Most that passed in any window, in limits",
                at: (40.0, 90.0),
                groups: self.groups(|score| score.worst(limit)),
                shown: |worst| format!("{worst:.2}"),
                mark: Some(1.0),
            },
            Panel {
                title: "Bytes per key",
                at: (520.0, 90.0),
                groups: self.bytes(),
                shown: |bytes| format!("{bytes:.0}"),
                mark: None,
            },
            Panel {
                title: "Wrongly admitted, % of decisions",
                at: (40.0, 410.0),
                groups: self.groups(Score::wrongly_admitted_share),
                shown: share,
                mark: None,
            },
            Panel {
                title: "Wrongly refused, % of decisions",
                at: (520.0, 410.0),
                groups: self.groups(Score::wrongly_refused_share),
                shown: share,
                mark: None,
            },
        ];
        for panel in &panels {
            panel.draw(&mut svg);
        }
        svg.to_string()
    }

    /// A number of each score, by traffic.
    fn groups(&self, number: impl Fn(&Score) -> f64) -> Vec<(String, Vec<f64>)> {
        let contests = self.contests.iter();
        contests
            .map(|contest| {
                let numbers = contest.scores.iter().map(|(_, score)| number(score)).collect();
                (contest.traffic.to_string(), numbers)
            })
            .collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "bytes of one key")]
    fn bytes(&self) -> Vec<(String, Vec<f64>)> {
        let footprints = self.footprints.iter();
        let memory = footprints.clone().map(|one| one.memory as f64).collect();
        let redis: Vec<f64> = footprints.filter_map(|one| Some(one.redis? as f64)).collect();
        let mut groups = vec![("in memory".into(), memory)];
        if !redis.is_empty() {
            groups.push(("in Redis".into(), redis));
        }
        groups
    }
}

impl Panel<'_> {
    const SPAN: (f64, f64) = (400.0, 230.0);

    fn draw(&self, svg: &mut Svg) {
        let (left, top) = self.at;
        let bottom = top + Self::SPAN.1;
        svg.text((left, top - 12.0), Anchor::Start, self.title);
        svg.line(&[(left, bottom), (left + Self::SPAN.0, bottom)], GRID);
        let numbers = self.groups.iter().flat_map(|(_, numbers)| numbers);
        let highest = numbers.copied().chain(self.mark).fold(f64::MIN_POSITIVE, f64::max);
        // Room for the number above the highest bar.
        let height = |number: f64| (Self::SPAN.1 - 16.0) * number / highest;
        if let Some(mark) = self.mark {
            let y = bottom - height(mark);
            svg.line(&[(left, y), (left + Self::SPAN.0, y)], "#c23b3b");
        }
        let mut x = left + 4.0;
        for (name, numbers) in &self.groups {
            let start = x;
            for (number, colour) in numbers.iter().zip(COLOURS) {
                let tall = height(*number);
                svg.rect((x, bottom - tall), (BAR - 2.0, tall), colour);
                let text = (self.shown)(*number);
                svg.small((x + BAR / 2.0 - 1.0, bottom - tall - 4.0), Anchor::Middle, &text);
                x += BAR;
            }
            svg.text((f64::midpoint(start, x), bottom + 18.0), Anchor::Middle, name);
            x += BAR;
        }
    }
}

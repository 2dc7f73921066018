//! The distribution of latencies as a picture: every step to the right is one
//! more nine.

use super::{Point, Report};
use crate::svg::{Anchor, Svg};

const WIDTH: u32 = 720;
const HEIGHT: u32 = 360;
const LEFT: f64 = 70.0;
const TOP: f64 = 60.0;
/// Size of the area that the curve is drawn in.
const SPAN: (f64, f64) = (620.0, 240.0);
/// Nines on the axis: 0%, 90%, 99%, 99.9%, 99.99% and 99.999%.
const NINES: [&str; 6] = ["0%", "90%", "99%", "99.9%", "99.99%", "99.999%"];
const LINES: u32 = 5;

impl Report {
    /// The distribution of latencies as SVG.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new(WIDTH, HEIGHT);
        svg.text(
            (LEFT, 22.0),
            Anchor::Start,
            &format!("Latency of {}, {}", self.target, self.pace()),
        );
        svg.text((LEFT, 40.0), Anchor::Start, &self.summary());
        let points = &self.latency.curve;
        let highest = points.iter().map(|point| point.us).max().unwrap_or_default().max(1);
        let top = millis(highest);
        self.axes(&mut svg, top);
        let place = |point: &Point| {
            (LEFT + SPAN.0 * nines(point) / 5.0, TOP + SPAN.1 * (1.0 - millis(point.us) / top))
        };
        svg.line(&points.iter().map(place).collect::<Vec<_>>(), "#1f6fb2");
        svg.to_string()
    }

    fn pace(&self) -> String {
        self.load.rate.map_or_else(
            || format!("closed loop with {} in flight", self.load.in_flight),
            |rate| format!("open loop at {rate}/s"),
        )
    }

    fn summary(&self) -> String {
        format!(
            "{:.0} decisions/s; {} OK, {} over limit, {} failed, {} unsent",
            self.decisions_per_second,
            self.calls.ok,
            self.calls.over_limit,
            self.errors(),
            self.calls.unsent
        )
    }

    fn axes(&self, svg: &mut Svg, top: f64) {
        let bottom = TOP + SPAN.1;
        for (step, name) in (0_u32..).zip(NINES) {
            let x = LEFT + SPAN.0 * f64::from(step) / 5.0;
            svg.line(&[(x, TOP), (x, bottom)], "#e0e0e0");
            svg.text((x, bottom + 18.0), Anchor::Middle, name);
        }
        for step in 0..=LINES {
            let share = f64::from(step) / f64::from(LINES);
            let y = bottom - SPAN.1 * share;
            svg.line(&[(LEFT, y), (LEFT + SPAN.0, y)], "#e0e0e0");
            svg.text((LEFT - 6.0, y + 4.0), Anchor::End, &format!("{:.2} ms", top * share));
        }
        let max = millis(self.latency.max_us);
        let foot =
            format!("share of calls answered within this time; the slowest took {max:.2} ms");
        svg.text((LEFT, bottom + 38.0), Anchor::Start, &foot);
    }
}

/// How many nines the percentile has: 1 for 90, 2 for 99.
fn nines(point: &Point) -> f64 {
    -(1.0 - point.percentile / 100.0).max(1e-5).log10()
}

fn millis(micros: u64) -> f64 {
    super::float(micros) / 1e3
}

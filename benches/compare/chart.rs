//! The CPU time of a decision as bars.

use tidegate::svg::{Anchor, Svg};

use crate::results::{LaneResult, Results, Sample};

const WIDTH: u32 = 860;
const LEFT: f64 = 250.0;
const BARS: f64 = 420.0;
const TOP: f64 = 60.0;
const STEP: f64 = 26.0;
const SERVER: &str = "#1f6fb2";
const REDIS: &str = "#c8553d";

/// A bar for each server: its own CPU time and that of its Redis.
pub fn render(results: &Results) -> String {
    let lanes = &results.lanes;
    let rows = u32::try_from(lanes.len()).unwrap_or_default();
    let bottom = TOP + STEP * f64::from(rows);
    let mut svg = Svg::new(WIDTH, 110 + 26 * rows);
    let title = "CPU time per decision in microseconds: server";
    svg.text((20.0, 28.0), Anchor::Start, title);
    svg.rect((300.0, 17.0), (14.0, 14.0), SERVER);
    svg.text((330.0, 28.0), Anchor::Start, "and Redis");
    svg.rect((396.0, 17.0), (14.0, 14.0), REDIS);
    let longest = lanes.iter().map(|lane| server(lane) + redis(lane)).fold(1.0, f64::max);
    for (row, lane) in (0_u32..).zip(lanes) {
        let y = TOP + STEP * f64::from(row);
        let (own, other) = (server(lane), redis(lane));
        let scale = BARS / longest;
        svg.text((LEFT - 8.0, y + 13.0), Anchor::End, &lane.name);
        svg.rect((LEFT, y), (own * scale, STEP - 8.0), SERVER);
        svg.rect((LEFT + own * scale, y), (other * scale, STEP - 8.0), REDIS);
        let label =
            if other > 0.0 { format!("{own:.1} + {other:.1}") } else { format!("{own:.1}") };
        svg.text((LEFT + (own + other) * scale + 6.0, y + 13.0), Anchor::Start, &label);
    }
    let machine = &results.machine;
    let foot = format!("{}, {} cores, {}", machine.processor, machine.cores, machine.date);
    svg.text((20.0, bottom + 30.0), Anchor::Start, &foot);
    svg.to_string()
}

fn server(lane: &LaneResult) -> f64 {
    lane.median(|sample: &Sample| sample.server_us).unwrap_or_default()
}

fn redis(lane: &LaneResult) -> f64 {
    lane.median(|sample: &Sample| sample.redis_us).unwrap_or_default()
}

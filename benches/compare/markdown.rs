//! The results as Markdown tables.

use std::fmt::Write as _;

use crate::figures::Figure;
use crate::results::{LaneResult, Results, Sample};

/// A page with the machine, the comparisons and the servers.
pub fn render(results: &Results) -> String {
    let mut page = String::from("# Servers side by side\n\n");
    // Writing to a string cannot fail.
    let _ = write!(page, "{}", introduction(results));
    page.push_str("\n## Figures\n\nThe median of the rounds, with the least and the most.\n\n");
    page.push_str("| server | against | | median | least to most | goal | |\n");
    page.push_str("| --- | --- | --- | ---: | ---: | ---: | --- |\n");
    for figure in &results.figures {
        page.push_str(&figure_row(figure));
    }
    page.push_str("\n## Servers\n\nThe median of the rounds. CPU time is per decision.\n\n");
    page.push_str(
        "| server | decisions/s | mean ms | p50 ms | p99 ms | server us | Redis us | client us \
         | over limit | failed |\n",
    );
    page.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for lane in &results.lanes {
        page.push_str(&lane_row(lane));
    }
    page
}

fn introduction(results: &Results) -> String {
    let (machine, setup) = (&results.machine, &results.setup);
    format!(
        "Measured on {} on {} cores of {}, Linux {}; {}. Load before: {}.\n\n\
         {} rounds of {} seconds for each server in turn, {} calls in flight over {} connections, \
         {} client threads, 10,000 keys. Client, server and Redis share the cores.\n",
        machine.date,
        machine.cores,
        escaped(&machine.processor),
        escaped(&machine.kernel),
        escaped(&machine.versions.join(", ")),
        machine.load_before,
        setup.rounds,
        setup.seconds,
        setup.in_flight,
        setup.connections,
        setup.client_threads
    )
}

fn figure_row(figure: &Figure) -> String {
    let least = figure.values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figure.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let unit = if figure.against.is_some() { " x" } else { " us" };
    let goal = figure.goal.map_or(String::new(), |goal| format!("{goal}{unit}"));
    let reached = match figure.reached {
        Some(true) => "reached",
        Some(false) => "missed",
        None => "",
    };
    format!(
        "| {} | {} | {} | {:.2}{unit} | {least:.2} to {most:.2} | {goal} | {reached} |\n",
        escaped(&figure.of),
        escaped(figure.against.as_deref().unwrap_or_default()),
        figure.quantity,
        figure.median
    )
}

fn lane_row(lane: &LaneResult) -> String {
    let number = |quantity: fn(&Sample) -> Option<f64>, digits: usize| {
        lane.median(quantity).map_or(String::new(), |value| format!("{value:.digits$}"))
    };
    let sum = |count: fn(&Sample) -> u64| lane.samples.iter().map(count).sum::<u64>();
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        escaped(&lane.name),
        number(|sample| Some(sample.decisions_per_second), 0),
        number(|sample| Some(sample.mean_us / 1e3), 2),
        number(|sample| Some(sample.p50_us / 1e3), 2),
        number(|sample| Some(sample.p99_us / 1e3), 2),
        number(|sample| sample.server_us, 1),
        number(|sample| sample.redis_us, 1),
        number(|sample| sample.client_us, 1),
        sum(|sample| sample.over_limit),
        sum(|sample| sample.failed.values().sum())
    )
}

/// Text that stays within its cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

//! The report as text.

use std::fmt;

use super::{Report, Score};

const HEAD: &str = "traffic   algorithm                  asked  admitted  wrongly admitted  \
                    wrongly refused  worst window  off its definition";

const NOTE: &str = "Wrongly: unlike an exact sliding window over what the algorithm itself let \
pass. Worst window: most that passed in any
stretch of a window, in limits. Off its definition: decisions unlike those of a plain model of \
the algorithm.";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n\n{HEAD}", self.title())?;
        for contest in &self.contests {
            for (name, score) in &contest.scores {
                write!(f, "{:<8}  {name:<22}", contest.traffic)?;
                self.line(f, score)?;
            }
        }
        writeln!(f, "\n{NOTE}\n\n{:<24}{:>12}{:>12}", "bytes per key", "in memory", "in Redis")?;
        for footprint in &self.footprints {
            let redis = footprint.redis.map_or("-".into(), |bytes| bytes.to_string());
            writeln!(f, "{:<24}{:>12}{:>12}", footprint.name, footprint.memory, redis)?;
        }
        write!(f, "\nAfter as many hits as the limit, each of its own moment.")
    }
}

impl Report {
    /// One line about what was simulated.
    pub(super) fn title(&self) -> String {
        let settings = &self.settings;
        format!(
            "{} hits in {}, buckets of {}; {} of traffic at {} hits/s, seed {}",
            settings.limit,
            settings.window,
            settings.burst,
            settings.duration,
            settings.rate,
            settings.seed
        )
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, score: &Score) -> fmt::Result {
        let Score { asked, admitted, off_definition, .. } = score;
        let percent = |share: f64| format!("{:.2}%", 100.0 * share);
        writeln!(
            f,
            "{asked:>10}{admitted:>10}{:>18}{:>17}{:>14.2}{off_definition:>20}",
            percent(score.wrongly_admitted_share()),
            percent(score.wrongly_refused_share()),
            score.worst(self.settings.limit),
        )
    }
}

//! The report for people.

use std::fmt;

use super::{CpuUse, Report};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = &self.load;
        let pace = load.rate.map_or("as fast as answers come".into(), |rate| format!("{rate}/s"));
        writeln!(f, "target     {}", self.target)?;
        writeln!(
            f,
            "load       {pace}; in flight {}, connections {}, client threads {}",
            load.in_flight, load.connections, load.threads
        )?;
        writeln!(
            f,
            "asked      domain {}, [{}], {} keys, {}, seed {}",
            load.domain,
            load.descriptors.join("] ["),
            load.keys,
            load.distribution,
            load.seed
        )?;
        let (sent, seconds) = (self.calls.sent, self.seconds);
        writeln!(f, "calls      {sent} in {seconds:.3} s")?;
        writeln!(f, "  OK       {}", self.calls.ok)?;
        writeln!(f, "  OVER     {}", self.calls.over_limit)?;
        for (name, count) in &self.calls.errors {
            writeln!(f, "  failed   {count} {name}")?;
        }
        if self.calls.unsent > 0 {
            let (unsent, most) = (self.calls.unsent, load.in_flight);
            writeln!(f, "  unsent   {unsent}, since {most} were in flight when they fell due")?;
        }
        writeln!(f, "decisions  {:.0}/s", self.decisions_per_second)?;
        self.latency_line(f)?;
        for (index, process) in self.cpu.iter().chain(&self.client).enumerate() {
            write!(f, "\n{:<11}", if index == 0 { "CPU" } else { "" })?;
            self.cpu_line(process, f)?;
        }
        Ok(())
    }
}

impl Report {
    fn latency_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latency = &self.latency;
        write!(
            f,
            "latency    mean {:.2} ms, p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
            latency.mean_us / 1e3,
            Millis(latency.p50_us),
            Millis(latency.p90_us),
            Millis(latency.p99_us),
            Millis(latency.p99_9_us),
            Millis(latency.max_us)
        )
    }

    fn cpu_line(&self, process: &CpuUse, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match process.us_per_decision {
            Some(micros) => write!(f, "{}: {micros:.1} us per decision", process.label)?,
            None => write!(f, "{}: {:.2} s", process.label, process.seconds)?,
        }
        let cores = super::ratio(process.seconds, self.seconds).unwrap_or_default();
        write!(f, " ({cores:.2} cores)")
    }
}

/// Microseconds, shown in milliseconds.
struct Millis(u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 1_000, self.0 % 1_000 / 10)
    }
}

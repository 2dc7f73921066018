//! The CPU time that processes use.

use std::fs;
use std::io;
use std::str::FromStr;
use std::time::Duration;

/// A process whose CPU time is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// What reports call it.
    pub label: String,
    /// Its id.
    pub pid: u32,
}

/// Why the CPU time of a process is not known.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// There is no such process, or this system does not tell.
    #[error("cannot read /proc/{pid}/stat for the CPU time of {label}: {source}; is it running?")]
    Read {
        /// The process.
        label: String,
        /// Its id.
        pid: u32,
        /// What the system says.
        source: io::Error,
    },
    /// The system tells it in a form that we do not know.
    #[error("/proc/{pid}/stat has another form than that of Linux: {text:?}")]
    Format {
        /// The id of the process.
        pid: u32,
        /// What was read.
        text: String,
    },
}

impl Process {
    /// This process.
    pub fn current(label: &str) -> Self {
        Self { label: label.into(), pid: std::process::id() }
    }

    /// The CPU time, in user and kernel mode together, that all threads of the
    /// process have used since its start. Linux rounds it down to a tick of
    /// 10 ms.
    ///
    /// # Errors
    /// If it is not running, or this is not Linux.
    pub fn cpu_time(&self) -> Result<Duration, CpuError> {
        let pid = self.pid;
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_err(|source| CpuError::Read { label: self.label.clone(), pid, source })?;
        ticks(&text).map(time_of).ok_or(CpuError::Format { pid, text })
    }
}

/// `LABEL=PID`, or a PID that is its own label.
impl FromStr for Process {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (label, pid) = text.split_once('=').unwrap_or((text, text));
        match pid.parse() {
            Ok(pid) if !label.is_empty() => Ok(Self { label: label.into(), pid }),
            _ => Err("expected LABEL=PID, such as server=1234".into()),
        }
    }
}

/// The CPU times of `processes`, in their order.
///
/// # Errors
/// If one of them is not running.
pub fn read_all(processes: &[Process]) -> Result<Vec<Duration>, CpuError> {
    processes.iter().map(Process::cpu_time).collect()
}

/// What each of `processes` has used since `before` was read.
///
/// # Errors
/// If one of them is not running any more.
pub fn used_since(processes: &[Process], before: &[Duration]) -> Result<Vec<Duration>, CpuError> {
    let after = read_all(processes)?;
    Ok(after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before)).collect())
}

/// `utime` and `stime` together. They are the 14th and 15th field; the second
/// is the name of the program in parentheses, which may itself contain spaces
/// and parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

fn time_of(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(per_second);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_cannot_shift_the_fields() {
        let line = "42 (a) b) c) R 1 2 3 4 5 6 7 8 9 10 1100 11 0 0 20 0 1 0";
        assert_eq!(ticks(line), Some(1_111));
        for line in ["", "42 (a", "42 (a) R 1 2 3", "42 (a) R 1 2 3 4 5 6 7 8 9 10 x 11"] {
            assert_eq!(ticks(line), None, "{line}");
        }
    }

    #[test]
    fn our_own_time_grows_with_work() {
        let own = Process::current("test");
        let before = own.cpu_time().unwrap();
        let mut sum = 0_u64;
        // Ends as soon as a tick has been counted.
        while own.cpu_time().unwrap() == before {
            sum = std::hint::black_box((0..10_000).fold(sum, u64::wrapping_add));
        }
        assert!(own.cpu_time().unwrap() > before);
    }

    #[test]
    fn a_process_that_is_not_there_is_told() {
        let gone = Process { label: "server".into(), pid: u32::MAX };
        let error = gone.cpu_time().unwrap_err().to_string();
        assert!(error.contains("server") && error.contains(&u32::MAX.to_string()), "{error}");
    }

    #[test]
    fn processes_are_read_with_their_labels() {
        let process = |label: &str, pid| Ok(Process { label: label.into(), pid });
        assert_eq!("server=12".parse(), process("server", 12));
        assert_eq!("12".parse(), process("12", 12));
        for text in ["", "server", "server=", "=12", "server=-1"] {
            assert!(text.parse::<Process>().is_err(), "{text}");
        }
    }
}

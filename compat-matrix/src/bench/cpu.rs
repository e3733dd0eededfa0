//! Processor time of processes, from /proc: a measure that other work on the machine disturbs little.

use crate::spec::Stop;

/// What /proc counts in (`USER_HZ`): 100 on every Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds that this process and `others` have computed since they started.
///
/// # Errors
///
/// A process that is gone, or a system without /proc.
pub(super) fn seconds(others: &[u32]) -> Result<f64, Stop> {
    let others = others.iter().map(u32::to_string);
    others.chain(["self".into()]).map(|pid| of(&pid)).sum()
}

fn of(pid: &str) -> Result<f64, Stop> {
    let path = format!("/proc/{pid}/stat");
    let text =
        std::fs::read_to_string(&path).map_err(|error| Stop::fail(format!("{path}: {error}")))?;
    parse(&text).ok_or_else(|| Stop::fail(format!("{path}: not as expected")))
}

/// Fields 14 and 15; the name before them is in parentheses and may hold anything.
fn parse(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok().map(f64::from);
    Some((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::{parse, seconds};

    #[test]
    fn user_and_system_time_are_added() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 17 18 19\n";
        assert_eq!(parse(stat), Some(3.0));
        assert_eq!(parse("7 (a) S 1"), None);
    }

    #[test]
    fn a_process_that_is_gone_is_no_zero() {
        assert!(seconds(&[]).is_ok());
        assert!(seconds(&[u32::MAX]).is_err());
    }
}

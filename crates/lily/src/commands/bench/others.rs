//! How busy other programs kept the machine during a measurement.

/// A moment's counters of processor time.
pub(super) struct Sample {
    at: Option<Ticks>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Ticks {
    /// Time of all processors, idle or not.
    total: f64,
    idle: f64,
    own: f64,
}

impl Sample {
    pub(super) fn now() -> Self {
        Self { at: ticks() }
    }

    /// Share of all processors that others used since then, 0 to 1; `None` where the system does not tell.
    pub(super) fn others_since(&self) -> Option<f64> {
        let (then, now) = (self.at?, ticks()?);
        let total = now.total - then.total;
        let others = total - (now.idle - then.idle) - (now.own - then.own);
        (total > 0.0).then(|| (others / total).clamp(0.0, 1.0))
    }
}

/// Linux counts both in ticks of the same length.
#[cfg(target_os = "linux")]
fn ticks() -> Option<Ticks> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?, &std::fs::read_to_string("/proc/self/stat").ok()?)
}

#[cfg(not(target_os = "linux"))]
fn ticks() -> Option<Ticks> {
    None
}

/// `/proc/stat` begins with user, nice, system, idle, iowait, irq, softirq and steal of all processors;
/// `/proc/self/stat` has utime and stime in its fields 14 and 15 (the name in field 2 may hold spaces).
#[cfg(any(target_os = "linux", test))]
fn parse(machine: &str, own: &str) -> Option<Ticks> {
    let numbers: Vec<f64> =
        machine.lines().next()?.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    let own: Vec<f64> =
        own.rsplit(')').next()?.split_whitespace().skip(11).take(2).filter_map(|n| n.parse().ok()).collect();
    (numbers.len() == 8 && own.len() == 2).then(|| Ticks {
        total: numbers.iter().sum(),
        idle: numbers[3] + numbers[4],
        own: own[0] + own[1],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let own = "1 (a ) b) S 1 1 1 0 -1 4194560 1 0 0 0 40 2 0 0 20 0 1";
        let ticks = parse("cpu  10 0 20 60 5 0 0 5 0 0\ncpu0 1", own).unwrap();
        assert_eq!(ticks, Ticks { total: 100.0, idle: 65.0, own: 42.0 });
        assert!(parse("", own).is_none());
    }
}

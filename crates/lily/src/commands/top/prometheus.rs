//! Prometheus' text format, as far as `/metrics` uses it.

use std::collections::HashMap;

/// The samples of one look.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Samples {
    /// By name, labels and all: `lily_answers_total{finish="stop"}`.
    values: HashMap<String, f64>,
}

/// Cumulative counts of a histogram: bound in seconds (infinite for the last), observations up to it.
pub(super) type Buckets = Vec<(f64, f64)>;

impl Samples {
    /// Reads a text; lines that are no samples say nothing.
    pub(super) fn parse(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (name, value) = line.trim().rsplit_once(' ')?;
            Some((name.trim().to_owned(), value.parse().ok()?))
        });
        Self { values: samples.collect() }
    }

    /// A sample's value.
    pub(super) fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// A sample with one label.
    pub(super) fn labelled(&self, name: &str, label: &str, value: &str) -> Option<f64> {
        self.get(&format!("{name}{{{label}=\"{value}\"}}"))
    }

    /// A histogram's buckets, by their bounds.
    pub(super) fn buckets(&self, name: &str) -> Buckets {
        let prefix = format!("{name}_bucket{{le=\"");
        let bucket = |(key, count): (&String, &f64)| {
            let bound = key.strip_prefix(&prefix)?.strip_suffix("\"}")?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, *count))
        };
        let mut buckets: Buckets = self.values.iter().filter_map(bucket).collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        buckets
    }
}

/// What came between two looks at a histogram.
pub(super) fn between(before: &[(f64, f64)], after: &[(f64, f64)]) -> Buckets {
    let counted =
        |bound: f64| before.iter().find(|(known, _)| *known == bound).map_or(0.0, |(_, count)| *count);
    after.iter().map(|&(bound, count)| (bound, (count - counted(bound)).max(0.0))).collect()
}

/// The value below which a share of the observations lies, spread evenly within a bucket, as Prometheus has it; `None`
/// without observations. What lies beyond the last bound counts as the last bound.
pub(super) fn quantile(buckets: &[(f64, f64)], share: f64) -> Option<f64> {
    let total = buckets.last()?.1;
    let wanted = share * total;
    let (mut low, mut below) = (0.0, 0.0);
    for &(bound, count) in buckets {
        if total > 0.0 && count >= wanted && count > below {
            return Some(if bound.is_finite() {
                low + (bound - low) * (wanted - below) / (count - below)
            } else {
                low
            });
        }
        if bound.is_finite() {
            (low, below) = (bound, count);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP x_seconds X.
# TYPE x_seconds histogram
x_seconds_bucket{le=\"0.1\"} 2
x_seconds_bucket{le=\"+Inf\"} 10
x_seconds_bucket{le=\"0.5\"} 6
x_seconds_sum 3.5
x_seconds_count 10
y_total{finish=\"stop\"} 4
z 1.5e3
broken
";

    #[test]
    fn samples_are_read() {
        let samples = Samples::parse(TEXT);
        assert_eq!(samples.get("z"), Some(1500.0));
        assert_eq!(samples.labelled("y_total", "finish", "stop"), Some(4.0));
        assert_eq!(samples.get("broken"), None);
        assert_eq!(samples.buckets("x_seconds"), [(0.1, 2.0), (0.5, 6.0), (f64::INFINITY, 10.0)]);
    }

    #[test]
    fn quantiles_lie_within_buckets() {
        let buckets = [(0.1, 2.0), (0.5, 6.0), (f64::INFINITY, 10.0)];
        assert_eq!(quantile(&buckets, 0.2), Some(0.1));
        assert!((quantile(&buckets, 0.4).unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(quantile(&buckets, 0.99), Some(0.5), "beyond the last bound");
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[(1.0, 0.0), (f64::INFINITY, 0.0)], 0.5), None);
    }

    #[test]
    fn a_difference_is_never_negative() {
        assert_eq!(between(&[(1.0, 2.0)], &[(1.0, 5.0), (2.0, 7.0)]), [(1.0, 3.0), (2.0, 7.0)]);
        assert_eq!(between(&[(1.0, 9.0)], &[(1.0, 5.0)]), [(1.0, 0.0)]);
    }
}

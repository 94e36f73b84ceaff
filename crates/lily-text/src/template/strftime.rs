//! `strftime_now`, which some templates use to tell the model the date.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Seconds since 1970 by the system's clock.
pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// `datetime.strftime` for a time in UTC, in the C locale. A prompt must not depend on the time zone of the machine, so
/// it is UTC where Hugging Face takes local time. A directive that is not known stays as it is written.
pub(super) fn strftime(seconds: i64, format: &str) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let weekday = (days + 4).rem_euclid(7);
    let year_day = days - days_before(year) + 1;
    let month_name = MONTHS[(month - 1) as usize % 12];
    let day_name = DAYS[weekday as usize % 7];
    let half_hour = (hour + 11) % 12 + 1;
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut directive = letters.next();
        let padded = directive != Some('-');
        if !padded {
            directive = letters.next();
        }
        let mut number = |value: i64, width: usize| {
            let width = if padded { width } else { 0 };
            let _ = write!(out, "{value:0width$}");
        };
        match directive {
            Some('Y') => number(year, 0),
            Some('y') => number(year.rem_euclid(100), 2),
            Some('m') => number(month, 2),
            Some('d') => number(day, 2),
            Some('H') => number(hour, 2),
            Some('I') => number(half_hour, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('f') => number(0, 6),
            Some('j') => number(year_day, 3),
            Some('w') => number(weekday, 0),
            Some('u') => number((weekday + 6) % 7 + 1, 0),
            Some('B') => out.push_str(month_name),
            Some('b' | 'h') => out.push_str(&month_name[..3]),
            Some('A') => out.push_str(day_name),
            Some('a') => out.push_str(&day_name[..3]),
            Some('p') => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('e') => {
                let _ = write!(out, "{day:2}");
            }
            Some('F') => out.push_str(&strftime(seconds, "%Y-%m-%d")),
            Some('T' | 'X') => out.push_str(&strftime(seconds, "%H:%M:%S")),
            Some('R') => out.push_str(&strftime(seconds, "%H:%M")),
            Some('D' | 'x') => out.push_str(&strftime(seconds, "%m/%d/%y")),
            Some('c') => out.push_str(&strftime(seconds, "%a %b %e %H:%M:%S %Y")),
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            // A naive datetime has no zone.
            Some('z' | 'Z') => {}
            Some('%') => out.push('%'),
            other => {
                out.push('%');
                if !padded {
                    out.push('-');
                }
                out.extend(other);
            }
        }
    }
    out
}

/// Year, month and day of a day counted from 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days from 1970-01-01 to the first of January of a year.
fn days_before(year: i64) -> i64 {
    let past = year - 1;
    365 * (year - 1970) + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) - 477
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_come_out_as_python_writes_them() {
        // Checked against datetime.fromtimestamp(s, timezone.utc).strftime(f) of Python 3.11.
        for (seconds, format, expected) in [
            (0, "%Y-%m-%d %H:%M:%S %A %j", "1970-01-01 00:00:00 Thursday 001"),
            (951_782_399, "%d %b %Y, %I:%M %p", "28 Feb 2000, 11:59 PM"),
            (951_782_400, "%a %d %B %Y %-d/%-m", "Tue 29 February 2000 29/2"),
            (4_107_542_399, "%F %T %j %y %u %w", "2100-02-28 23:59:59 059 00 7 0"),
            (1_735_689_599, "%c|%e|%%|%q", "Tue Dec 31 23:59:59 2024|31|%|%q"),
            (1_733_011_200, "%e %D %-I", " 1 12/01/24 12"),
        ] {
            assert_eq!(strftime(seconds, format), expected, "{seconds} {format}");
        }
    }
}

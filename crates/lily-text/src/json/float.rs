//! `repr(float)` of Python.

/// A float as Python's `repr` and `json.dumps` write it: the shortest digits that read back as the same value, an
/// exponent below 1e-4 and from 1e16 on, `.0` on whole numbers.
///
/// Not-a-number and infinities are `NaN`, `Infinity` and `-Infinity`, as `json.dumps` writes them (`repr` would say
/// `nan` and `inf`).
pub fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    // Rust's `{:e}` gives the same shortest digits; only the layout differs.
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let mut text = format!("{value}");
        if !text.contains('.') {
            text.push_str(".0");
        }
        return text;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

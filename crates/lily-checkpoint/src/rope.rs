//! Rotary positions in `config.json`: `rope_parameters` (new), `rope_scaling` (old) or flat fields.

use crate::{CheckpointError, Hint, json::Fields};

/// What attention needs to know.
pub(crate) struct Rope {
    pub(crate) rotary_dim: usize,
    pub(crate) theta: f32,
}

/// The share of a head that is rotated where a config does not say: the family's default.
const DEFAULT_PARTIAL: f64 = 0.25;

pub(crate) fn read(text: &Fields<'_>, head_dim: usize) -> Result<Rope, CheckpointError> {
    let mut places = vec![text.clone()];
    for name in ["rope_parameters", "rope_scaling"] {
        if let Some(rope) = text.object(name)? {
            check_type(&rope)?;
            places.push(rope);
        }
    }
    // A base above f32's range, or one at which every frequency is equal or grows, is a damaged file.
    let theta = agreed(&places, "rope_theta", "a number above 1 and at most 1e30", |n| n > 1.0 && n <= 1e30)?
        .ok_or_else(|| {
            text.error("rope_parameters.rope_theta", "is missing, and so is `rope_theta`", Hint::NONE)
        })?;
    let partial =
        agreed(&places, "partial_rotary_factor", "a number above 0 and at most 1", |n| n > 0.0 && n <= 1.0)?;
    let rotary_dim = (head_dim as f64 * partial.unwrap_or(DEFAULT_PARTIAL)) as usize;
    if rotary_dim == 0 || !rotary_dim.is_multiple_of(2) {
        let problem = format!("gives {rotary_dim} rotated dims of {head_dim}, which must be even and not 0");
        return Err(text.error("partial_rotary_factor", problem, Hint::NONE));
    }
    Ok(Rope { rotary_dim, theta: theta as f32 })
}

/// Multi-axis sections (`mrope`) are the default for text: all three axes count the same positions.
fn check_type(rope: &Fields<'_>) -> Result<(), CheckpointError> {
    for name in ["rope_type", "type"] {
        match rope.text(name)? {
            None | Some("default" | "mrope") => {}
            Some(other) => {
                return Err(rope.error(
                    name,
                    format!("is `{other}`, only `default` is supported"),
                    "a longer context through scaled positions is not implemented; remove the scaling to use the \
                     model's own context",
                ));
            }
        }
    }
    Ok(())
}

/// The one value that all places which have the field agree on.
fn agreed(
    places: &[Fields<'_>],
    name: &str,
    expected: &str,
    accept: impl Fn(f64) -> bool + Copy,
) -> Result<Option<f64>, CheckpointError> {
    let mut known: Option<(f64, String)> = None;
    for place in places {
        let Some(value) = place.number(name, expected, accept)? else { continue };
        match &known {
            Some((first, path)) if *first != value => {
                let problem = format!("is {value}, but `{path}` is {first}");
                return Err(place.error(name, problem, "remove the one that is wrong"));
            }
            Some(_) => {}
            None => known = Some((value, place.path(name))),
        }
    }
    Ok(known.map(|(value, _)| value))
}

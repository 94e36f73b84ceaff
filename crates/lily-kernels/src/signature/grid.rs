//! Over which grid an entry point is launched, and what else must fit, from the `// grid` lines of a kernel's text:
//!
//! ```text
//! // grid attention_rows: up(rows, 32), HEADS where keys == KV_HEADS * kv_head
//! ```
//!
//! Threadgroups along x, y and z (1 where nothing is said), by constants, parameters, the elements of bound buffers (by a
//! buffer's name) and `CONTEXT`, the positions that a step's plan serves. After `where`, conditions: comparisons that hold of
//! every launch of a plan. A test of a kernel alone knows no context and may bind what it likes: what depends on a value that
//! is not known is not asked.

use super::{
    Binding, Params,
    expression::{Expression, Name},
};
use std::collections::HashMap;

/// What an entry point's `// grid` line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    axes: [Expression; 3],
    /// With their text.
    conditions: Vec<(String, Expression)>,
}

/// A launch, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Its threadgroups.
    pub groups: [u32; 3],
    /// Its parameters, as bytes.
    pub params: &'a [u8],
    /// Elements of each bound buffer, in the signature's order; empty if they are not known.
    pub elements: &'a [u64],
    /// Positions that its plan serves.
    pub context: Option<usize>,
}

impl Launch<'_> {
    /// The values of an expression's variables: grid, parameters, context, buffers.
    fn variables(&self, params: usize) -> Vec<Option<i64>> {
        let mut values: Vec<Option<i64>> = self.groups.map(|groups| Some(i64::from(groups))).to_vec();
        let word = |at: usize| {
            let bytes = self.params.get(4 * at..4 * at + 4)?.try_into().ok()?;
            Some(i64::from(u32::from_le_bytes(bytes)))
        };
        values.extend((0..params).map(word));
        values.push(self.context.and_then(|context| i64::try_from(context).ok()));
        values.extend(self.elements.iter().map(|&count| i64::try_from(count).ok()));
        values
    }
}

impl Grid {
    /// The threadgroups that the text wants along each axis; nothing where that depends on what is not known.
    ///
    /// # Errors
    /// An expression without a value for these parameters.
    pub fn groups(&self, launch: &Launch<'_>) -> Result<[Option<u64>; 3], String> {
        let variables = launch.variables(launch.params.len() / 4);
        let mut found = [None; 3];
        for (found, axis) in found.iter_mut().zip(&self.axes) {
            *found = match axis.evaluate_known(&variables)? {
                Some(value) => Some(u64::try_from(value).map_err(|_| format!("{value} threadgroups"))?),
                None => None,
            };
        }
        Ok(found)
    }

    /// The conditions that do not hold, in the text's words.
    #[must_use]
    pub fn broken(&self, launch: &Launch<'_>) -> Vec<&str> {
        let variables = launch.variables(launch.params.len() / 4);
        let holds = |condition: &Expression| {
            condition.evaluate_known(&variables).is_ok_and(|value| value.is_none_or(|value| value != 0))
        };
        self.conditions
            .iter()
            .filter(|(_, condition)| !holds(condition))
            .map(|(text, _)| text.as_str())
            .collect()
    }
}

/// An entry point's line; `None` if it has none.
pub(super) fn read(
    text: &str,
    entry: &str,
    constant: &dyn Fn(&str) -> Option<i64>,
    macros: &HashMap<&str, &str>,
    params: Option<&Params>,
    bindings: &[Binding],
) -> Result<Option<Grid>, String> {
    let Some(line) = super::text::declared(text, "grid", entry) else { return Ok(None) };
    let fields = params.map_or(0, |params| params.fields.len());
    let name = |name: &str| {
        let buffer = || bindings.iter().position(|binding| binding.name == name);
        super::launch_variable(name, params)
            .or_else(|| (name == "CONTEXT").then_some(3 + fields))
            .map(Name::Variable)
            .or_else(|| constant(name).map(Name::Value))
            .or_else(|| buffer().map(|at| Name::Variable(4 + fields + at)))
    };
    let parse = |text: &str| {
        Expression::parse(text, &name, macros).map_err(|error| format!("grid `{text}`: {error}"))
    };
    let (axes_text, conditions_text) = line.split_once(" where ").unwrap_or((&line, ""));
    let mut axes = [const { Expression::Number(1) }; 3];
    let given = super::text::split_arguments(axes_text);
    if given.len() > axes.len() {
        return Err(format!("grid `{axes_text}`: more than three axes"));
    }
    for (axis, text) in axes.iter_mut().zip(given) {
        *axis = parse(text)?;
    }
    let conditions = super::text::split_arguments(conditions_text)
        .into_iter()
        .filter(|text| !text.is_empty())
        .map(|text| Ok((text.to_owned(), parse(text)?)))
        .collect::<Result<_, String>>()?;
    Ok(Some(Grid { axes, conditions }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Specialisation, catalog, entries};

    #[test]
    fn every_entry_point_has_a_line() {
        for file in catalog() {
            for entry in entries(file) {
                let line = crate::signature::text::declared(file.text, "grid", &entry);
                assert!(line.is_some(), "{}: no `// grid {entry}:`", file.name);
            }
        }
    }

    #[test]
    fn axes_and_conditions() {
        let route =
            Specialisation::named("route", &[("EXPERTS", 64), ("TOP_K", 4), ("TILE", 32)]).expect("one");
        let grid = route.signature("route_scan").expect("an entry").grid.expect("a grid");
        let params = |tiles: u32| [40, 65, 2, tiles].map(u32::to_le_bytes).concat();
        let launch = |params: &[u8]| {
            let launch = Launch { groups: [1, 1, 1], params, elements: &[], context: None };
            (grid.groups(&launch), grid.broken(&launch).join(", "))
        };
        assert_eq!(launch(&params(69)), (Ok([Some(1); 3]), String::new()));
        assert_eq!(launch(&params(70)).1, "tiles == up(rows * TOP_K, TILE) + EXPERTS");

        let combine = Specialisation::named("attention_combine", &[("HEADS", 8)]).expect("one");
        let grid = combine.signature("attention_combine").expect("an entry").grid.expect("a grid");
        let params = [0_u32, 3].map(u32::to_le_bytes).concat();
        let launch = |context| {
            let launch = Launch { groups: [8, 4, 1], params: &params, elements: &[], context };
            (grid.groups(&launch), grid.broken(&launch).len())
        };
        assert_eq!(launch(None), (Ok([Some(8), Some(4), Some(1)]), 0));
        assert_eq!(launch(Some(768)).1, 0);
        assert_eq!(launch(Some(769)).1, 1);
    }
}

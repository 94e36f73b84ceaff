//! How far a launch reaches into its buffers, from the `// touches` lines of a kernel's text:
//!
//! ```text
//! // touches gemv: w@16 words(rows * K, BITS), x@16 K, y rows, threadgroup tg4(STAGED)
//! ```
//!
//! After a binding's name, with `@`, the alignment in bytes that its vector accesses need, where that is more than an
//! element's; then the elements from its start that a launch may touch, by constants, parameters and the grid (`GROUPS_X`
//! and so on); `*` where only the data knows. `threadgroup` is bytes of threadgroup memory. The emulator runs every launch
//! with these as the buffers' lengths and alignments, so what is written here cannot be too little.

use super::{
    Params,
    expression::{Expression, Name},
};
use std::collections::HashMap;

/// Elements of a buffer that a launch may touch, as an expression of its parameters and grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent(Expression);

/// One item of a `// touches` line.
pub(super) struct Touch {
    pub(super) name: String,
    pub(super) alignment: Option<u32>,
    /// `None`: only the data knows.
    pub(super) extent: Option<Extent>,
}

impl Extent {
    /// Elements, for a launch with these parameters (as bytes) over this grid; nothing if the expression has no value
    /// there, or a negative one.
    #[must_use]
    pub fn elements(&self, params: &[u8], groups: [u32; 3]) -> Option<u64> {
        let mut variables: Vec<i64> = groups.map(i64::from).to_vec();
        let word = |bytes: &[u8]| i64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        variables.extend(params.chunks_exact(4).map(word));
        u64::try_from(self.0.evaluate(&variables).ok()?).ok()
    }
}

/// The items of an entry point's line; `None` if it has none.
pub(super) fn read(
    text: &str,
    entry: &str,
    constant: &dyn Fn(&str) -> Option<i64>,
    macros: &HashMap<&str, &str>,
    params: Option<&Params>,
) -> Result<Option<Vec<Touch>>, String> {
    let Some(line) = super::text::declared(text, "touches", entry) else { return Ok(None) };
    let name = |name: &str| {
        super::launch_variable(name, params).map(Name::Variable).or_else(|| constant(name).map(Name::Value))
    };
    let touches = super::text::split_arguments(&line).into_iter().map(|item| {
        let (name_text, expression) =
            item.split_once(char::is_whitespace).ok_or_else(|| format!("touches `{item}`: no extent"))?;
        let (binding, alignment) = match name_text.split_once('@') {
            Some((binding, alignment)) => {
                let alignment = alignment.parse().ok().filter(|bytes: &u32| bytes.is_power_of_two());
                (binding, Some(alignment.ok_or_else(|| format!("touches `{name_text}`: no alignment"))?))
            }
            None => (name_text, None),
        };
        let extent = match expression.trim() {
            "*" => None,
            text => Some(Extent(
                Expression::parse(text, &name, macros)
                    .map_err(|error| format!("touches `{item}`: {error}"))?,
            )),
        };
        Ok(Touch { name: binding.to_owned(), alignment, extent })
    });
    touches.collect::<Result<Vec<_>, String>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::{super::ScalarType, *};

    #[test]
    fn a_line_and_what_goes_on_with_it() {
        let text = "// touches a: x@16 N * rows,\n//   y GROUPS_Y, z *\n// touches ab: x 1\nKERNEL(a, 32)";
        let params = Params {
            index: 3,
            size: 8,
            fields: vec![("eps".to_owned(), ScalarType::Float), ("rows".to_owned(), ScalarType::Uint)],
        };
        let read = |entry: &str| {
            read(text, entry, &|name| (name == "N").then_some(3), &HashMap::new(), Some(&params))
        };
        let touches = read("a").expect("read").expect("there");
        let names: Vec<(&str, Option<u32>)> =
            touches.iter().map(|touch| (touch.name.as_str(), touch.alignment)).collect();
        assert_eq!(names, [("x", Some(16)), ("y", None), ("z", None)]);
        let bytes = [0, 0, 128, 63, 7, 0, 0, 0];
        let elements = |at: usize| touches[at].extent.as_ref().and_then(|e| e.elements(&bytes, [1, 5, 1]));
        assert_eq!([elements(0), elements(1), elements(2)], [Some(21), Some(5), None]);
        assert!(read("b").expect("read").is_none());
        assert_eq!(read("ab").expect("read").expect("there").len(), 1);
    }
}

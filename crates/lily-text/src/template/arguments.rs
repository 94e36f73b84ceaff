//! Arguments that Python takes by place or by name.

use minijinja::value::Kwargs;
use minijinja::{Error, Value};

use super::filters::invalid;

/// The values of parameters with these names, given by place or by name; `None` for one that is not given.
pub(super) fn arguments<const N: usize>(
    positional: &[Value],
    kwargs: &Kwargs,
    names: [&str; N],
) -> Result<[Option<Value>; N], Error> {
    if positional.len() > N {
        return Err(invalid(format!("at most {N} arguments are taken")));
    }
    let mut values = [const { None }; N];
    for (place, (value, name)) in values.iter_mut().zip(names).enumerate() {
        *value = match positional.get(place) {
            Some(given) => Some(given.clone()),
            None => kwargs.get::<Option<Value>>(name)?,
        };
    }
    kwargs.assert_all_used()?;
    Ok(values)
}

/// A parameter for which `none` is as good as not given.
pub(super) fn optional(value: Option<Value>) -> Option<Value> {
    value.filter(|value| !value.is_none())
}

/// A flag; anything can be one.
pub(super) fn flag(value: Option<Value>) -> bool {
    value.is_some_and(|value| value.is_true())
}

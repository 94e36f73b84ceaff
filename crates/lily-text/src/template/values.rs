//! JSON values as template values that behave like Python's.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Value};

use super::python;
use crate::json;

/// Dicts longer than this find a key through a hash map.
const LINEAR_KEYS: usize = 16;

/// The template value of a JSON value.
pub(super) fn from_json(value: &json::Value) -> Value {
    match value {
        json::Value::Null => Value::from(()),
        json::Value::Bool(truth) => Value::from(*truth),
        json::Value::Integer(digits) => integer(digits),
        json::Value::Float(number) => float(*number),
        json::Value::String(text) => Value::from(text.as_str()),
        json::Value::Array(items) => Value::from_object(List(items.iter().map(from_json).collect())),
        json::Value::Object(entries) => Value::from_object(Dict::new(
            entries.iter().map(|(key, value)| (Arc::from(key.as_str()), from_json(value))).collect(),
        )),
    }
}

fn integer(digits: &str) -> Value {
    if let Ok(small) = digits.parse::<i64>() {
        Value::from(small)
    } else if let Ok(wide) = digits.parse::<i128>() {
        Value::from(wide)
    } else {
        Value::from_object(Number(json::Value::Integer(digits.to_owned())))
    }
}

/// A float that prints as Python prints it.
pub(super) fn float(number: f64) -> Value {
    let native = Value::from(number);
    // The engine writes floats without an exponent; those that Python writes otherwise are values of their own. They
    // print and serialise exactly, but cannot be calculated with.
    if native.to_string() == python::float_str(number) {
        native
    } else {
        Value::from_object(Number(json::Value::Float(number)))
    }
}

/// A number that the engine's own cannot express or would print differently.
#[derive(Debug, PartialEq)]
pub(super) struct Number(pub(super) json::Value);

impl Object for Number {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        // Zero is an ordinary number, and NaN is true in Python.
        true
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        match (&self.0, &other.downcast_ref::<Self>()?.0) {
            (json::Value::Float(left), json::Value::Float(right)) => left.partial_cmp(right),
            (left, right) => (left == right).then_some(Ordering::Equal),
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            json::Value::Float(number) => f.write_str(&python::float_str(*number)),
            json::Value::Integer(digits) => f.write_str(digits),
            _ => Ok(()),
        }
    }
}

/// A list that prints as Python prints it.
#[derive(Debug)]
pub(super) struct List(pub(super) Vec<Value>);

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = Value::from_dyn_object(self.clone());
        f.write_str(&python::repr(&value, python::Budget::unlimited()).map_err(|_| fmt::Error)?)
    }
}

/// A dict with ordered keys that prints as Python prints it.
#[derive(Debug)]
pub(super) struct Dict {
    entries: Vec<(Arc<str>, Value)>,
    places: HashMap<Arc<str>, usize>,
}

impl Dict {
    fn new(entries: Vec<(Arc<str>, Value)>) -> Self {
        let places = if entries.len() > LINEAR_KEYS {
            entries.iter().enumerate().map(|(place, (key, _))| (key.clone(), place)).collect()
        } else {
            HashMap::new()
        };
        Dict { entries, places }
    }
}

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        let place = if self.places.is_empty() {
            self.entries.iter().position(|(name, _)| &**name == key)?
        } else {
            *self.places.get(key)?
        };
        Some(self.entries[place].1.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let this = self.clone();
        let pairs = (0..self.entries.len()).map(move |place| {
            let (key, value) = &this.entries[place];
            (Value::from(key.clone()), value.clone())
        });
        Enumerator::KeyValueIter(Box::new(pairs))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.entries.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = Value::from_dyn_object(self.clone());
        f.write_str(&python::repr(&value, python::Budget::unlimited()).map_err(|_| fmt::Error)?)
    }
}

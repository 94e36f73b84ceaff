//! Reading a JSON object field by field, with errors that name the field.

use crate::error::ApiError;
use lily_text::json::Value;
pub(crate) use lily_text::word::is_word;

/// The fields of an object, read by name; `null` is the same as absent.
pub(crate) struct Fields {
    /// Where the object sits in the body (`stream_options`); empty for the body itself.
    path: String,
    fields: Vec<(String, Value)>,
}

impl Fields {
    /// The fields of `value`, which sits at `path`.
    pub(crate) fn new(path: &str, value: Value) -> Result<Self, ApiError> {
        match value {
            Value::Object(fields) => Ok(Self { path: path.to_owned(), fields }),
            other if path.is_empty() => {
                Err(ApiError::bad_request(format!("the body must be a JSON object, not {}", other.kind())))
            }
            other => Err(wrong(path, "an object", &other)),
        }
    }

    /// The full name of a field.
    pub(crate) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// A field's value, if present and not null.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        let index = self.fields.iter().position(|(key, _)| key == name)?;
        match self.fields.remove(index).1 {
            Value::Null => None,
            value => Some(value),
        }
    }

    /// Refuses more than `most` fields.
    pub(crate) fn check_count(&self, most: usize) -> Result<(), ApiError> {
        if self.fields.len() <= most {
            return Ok(());
        }
        let reason = format!("at most {most} fields are taken");
        match self.path.as_str() {
            "" => Err(ApiError::bad_request(format!("the body: {reason}"))),
            path => Err(ApiError::invalid(path, reason)),
        }
    }

    /// A look at a field's value, if present and not null.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(key, value)| key == name && *value != Value::Null).map(|(_, value)| value)
    }

    /// Adds the fields of `other`; what both have must be the same.
    pub(crate) fn adopt(&mut self, other: Fields) -> Result<(), ApiError> {
        for (key, value) in other.fields {
            match self.get(&key) {
                Some(mine) if value != Value::Null && *mine != value => {
                    let name = if is_word(&key) { key.as_str() } else { "(a name)" };
                    let reason = format_args!("contradicts {}, which this request has too", self.at(name));
                    return Err(ApiError::invalid(format!("{}.{name}", other.path), reason));
                }
                Some(_) => {}
                None => {
                    self.fields.retain(|(mine, _)| *mine != key);
                    self.fields.push((key, value));
                }
            }
        }
        Ok(())
    }

    /// What has not been taken so far and is not null.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&str, &Value)> {
        let left = self.fields.iter().filter(|(_, value)| *value != Value::Null);
        left.map(|(key, value)| (key.as_str(), value))
    }

    pub(crate) fn boolean(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(wrong(&self.at(name), "true or false", &other)),
        }
    }

    pub(crate) fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(value)) => Ok(Some(value)),
            Some(other) => Err(wrong(&self.at(name), "a string", &other)),
        }
    }

    pub(crate) fn array(&mut self, name: &str) -> Result<Option<Vec<Value>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(wrong(&self.at(name), "an array", &other)),
        }
    }

    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Self>, ApiError> {
        let path = self.at(name);
        self.take(name).map(|value| Self::new(&path, value)).transpose()
    }

    /// A finite number within `low..=high`.
    pub(crate) fn number(&mut self, name: &str, low: f64, high: f64) -> Result<Option<f64>, ApiError> {
        let path = self.at(name);
        self.take(name).map(|value| number(&path, &value, low, high)).transpose()
    }

    /// A whole number within `low..=high`.
    pub(crate) fn integer(&mut self, name: &str, low: i64, high: i64) -> Result<Option<i64>, ApiError> {
        let path = self.at(name);
        self.take(name).map(|value| integer(&path, &value, low, high)).transpose()
    }

    /// All that has not been taken.
    pub(crate) fn into_rest(self) -> Vec<(String, Value)> {
        self.fields
    }
}

/// A finite number within `low..=high`.
pub(crate) fn number(path: &str, value: &Value, low: f64, high: f64) -> Result<f64, ApiError> {
    let number = match value {
        Value::Float(number) => *number,
        Value::Integer(digits) => digits.parse().unwrap_or(f64::INFINITY),
        other => return Err(wrong(path, "a number", other)),
    };
    if !number.is_finite() {
        return Err(ApiError::invalid(path, "the number is too large"));
    }
    if (low..=high).contains(&number) {
        return Ok(number);
    }
    Err(ApiError::invalid(path, format_args!("must be from {low} to {high}")))
}

/// A whole number within `low..=high`; `5.0` is whole too.
pub(crate) fn integer(path: &str, value: &Value, low: i64, high: i64) -> Result<i64, ApiError> {
    let number = match value {
        // What does not fit lies beyond the bound on its side.
        Value::Integer(digits) => {
            digits.parse::<i64>().unwrap_or(if digits.starts_with('-') { i64::MIN } else { i64::MAX })
        }
        Value::Float(number) if number.fract() != 0.0 => {
            return Err(ApiError::invalid(path, "must be a whole number, without a fraction"));
        }
        // Exactly representable as far as 2^53; beyond that a float says nothing certain about a whole number.
        Value::Float(number) if number.abs() <= 9_007_199_254_740_992.0 => *number as i64,
        Value::Float(_) => {
            return Err(ApiError::invalid(path, "is too large; write a whole number in digits"));
        }
        other => return Err(wrong(path, "a whole number", other)),
    };
    let fits = !matches!(value, Value::Integer(digits) if digits.parse::<i64>().is_err());
    match number {
        number if fits && (low..=high).contains(&number) => Ok(number),
        number if high == i64::MAX && number < low.max(0) => {
            Err(ApiError::invalid(path, format_args!("must be at least {low}")))
        }
        _ if high == i64::MAX => Err(ApiError::invalid(path, format_args!("must be at most {high}"))),
        _ => Err(ApiError::invalid(path, format_args!("must be from {low} to {high}"))),
    }
}

/// The error for a value of the wrong kind.
pub(crate) fn wrong(path: &str, wanted: &str, got: &Value) -> ApiError {
    ApiError::invalid(path, format_args!("must be {wanted}, not {}", got.kind()))
}

//! JSON as Python sees it: key order kept, integers exact at any size, floats written as Python writes them.

/// A JSON value. Object keys keep their order; a repeated key keeps its first place and its last value, as in Python.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer of any size, in canonical decimal digits.
    Integer(String),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Vec<(String, Value)>),
}

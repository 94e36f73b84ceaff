//! Reading and writing with serde, so that wire structs can hold values.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::Value;

impl<'de> Deserialize<'de> for Value {
    /// Works with `serde_json` only, and not below `#[serde(flatten)]` or `#[serde(untagged)]`: the value is read from
    /// its own raw text, which is what keeps integers exact.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Value::parse(raw.get()).map_err(D::Error::custom)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Integer(digits) => {
                if let Ok(small) = digits.parse::<i64>() {
                    serializer.serialize_i64(small)
                } else {
                    RawValue::from_string(digits.clone()).map_err(S::Error::custom)?.serialize(serializer)
                }
            }
            Value::Float(number) => serializer.serialize_f64(*number),
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(items) => serializer.collect_seq(items),
            Value::Object(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

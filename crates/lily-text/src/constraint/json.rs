//! The grammar of an answer in JSON.

use super::lark::{self, Lark};
use super::schema;
use serde_json::Value;

/// Adds the rule for a value of a schema.
pub(super) fn rule(schema: &Value, lark: &mut Lark) -> String {
    lark.rule("", &lark::json(&schema::standalone(schema, schema)))
}

//! From messages as they are on the wire to messages as a template wants them.

use crate::json::Value;

/// Why a message cannot be rendered; names the message's index and field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("messages[{index}]: {reason}")]
pub struct MessageError {
    /// Index of the message.
    pub index: usize,
    /// What is wrong with it and what to do.
    pub reason: String,
}

/// Checks and normalises wire messages: `developer` becomes `system`, a call's `arguments` text becomes the object it
/// spells, content parts are checked to be text.
///
/// # Errors
/// The first message that cannot be rendered.
pub fn prepare_messages(messages: Vec<Value>) -> Result<Vec<Value>, MessageError> {
    let _ = messages;
    unreachable!("skeleton")
}

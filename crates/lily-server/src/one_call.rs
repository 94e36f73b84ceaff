//! A generation that ends behind its first call: [`OneCall`].

use lily_engine::{ConstraintError, TokenConstraint, TokenId, TokenMask};
use lily_text::Detokenizer;
use lily_text::parser::{Event, MessageParser};

/// Lets everything be said until a call is complete, and nothing after it (`parallel_tool_calls: false` where the form of
/// calls is free). Ended by the engine, the answer has its exact usage.
#[derive(Clone)]
pub(crate) struct OneCall {
    reader: MessageParser,
    text: Detokenizer,
    complete: bool,
}

impl OneCall {
    /// Reads what `reader`, at the beginning of an answer, will read.
    pub(crate) fn new(reader: MessageParser, text: Detokenizer) -> Self {
        Self { reader, text, complete: false }
    }
}

impl TokenConstraint for OneCall {
    fn mask(&mut self, _: &mut TokenMask) -> Result<(), ConstraintError> {
        Ok(())
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        let pieces = self.reader.push(&self.text.push(token));
        self.complete |= pieces.iter().any(|piece| matches!(piece, Event::CallEnd { .. }));
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn clone_box(&self) -> Box<dyn TokenConstraint> {
        Box::new(self.clone())
    }
}

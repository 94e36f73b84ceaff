//! A generation that ends behind its first call: [`OneCall`].

use lily_engine::{ConstraintError, TokenConstraint, TokenId, TokenMask};
use lily_text::Detokenizer;
use lily_text::parser::{Event, MessageParser};

/// Lets all be said that another constraint allows, if there is one, until a call is complete, and nothing after it
/// (`parallel_tool_calls: false`). Ended by the engine, the answer has its exact usage.
pub(crate) struct OneCall {
    within: Option<Box<dyn TokenConstraint>>,
    reader: MessageParser,
    text: Detokenizer,
    complete: bool,
}

impl OneCall {
    /// Reads what `reader`, at the beginning of an answer, will read.
    pub(crate) fn new(
        within: Option<Box<dyn TokenConstraint>>,
        reader: MessageParser,
        text: Detokenizer,
    ) -> Self {
        Self { within, reader, text, complete: false }
    }
}

impl TokenConstraint for OneCall {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        self.within.as_mut().map_or(Ok(()), |within| within.mask(mask))
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        if let Some(within) = &mut self.within {
            within.accept(token)?;
        }
        let pieces = self.reader.push(&self.text.push(token));
        self.complete |= pieces.iter().any(|piece| matches!(piece, Event::CallEnd { .. }));
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.complete || self.within.as_ref().is_some_and(|within| within.is_complete())
    }

    fn clone_box(&self) -> Box<dyn TokenConstraint> {
        Box::new(Self {
            within: self.within.as_ref().map(|within| within.clone_box()),
            reader: self.reader.clone(),
            text: self.text.clone(),
            complete: self.complete,
        })
    }
}

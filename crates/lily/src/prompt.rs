//! From messages to the tokens of a prompt.

use crate::model::TextModel;
use anyhow::Result;
use lily_text::{
    RenderRequest, TemplateError, TokenId,
    parser::{MessageParser, Start},
    prepare_messages,
};

/// A prompt, ready for the engine.
#[derive(Debug, Clone)]
pub(crate) struct PromptTokens {
    /// The exact text.
    pub(crate) text: String,
    pub(crate) tokens: Vec<TokenId>,
    /// How many of the tokens stand before the generation prompt, if that is a border of tokens.
    pub(crate) turn_end: Option<usize>,
    /// Reads the answer to it.
    pub(crate) parser: MessageParser,
}

/// Renders a request with the model's chat template. Messages are as on the wire.
pub(crate) fn render(model: &TextModel, request: &RenderRequest) -> Result<PromptTokens> {
    let template = model.template()?;
    let messages = prepare_messages(request.messages.clone()).map_err(|error| {
        // Where the template itself refuses such a message, its own words say it.
        match template.render(request) {
            Err(refusal @ TemplateError::Refused(_)) => anyhow::Error::new(refusal),
            _ => error.into(),
        }
    })?;
    let request = RenderRequest { messages, ..request.clone() };
    let tools = request.tools.clone();
    let prompt = template.render(&request)?;
    let tokens = model.tokenizer.encode_prompt(&prompt);
    let turn_end = if request.add_generation_prompt {
        // Some templates cannot end without a generation prompt; then nothing is known about the border.
        let turns = template.render(&RenderRequest { add_generation_prompt: false, ..request }).ok();
        turns
            .map(|turns| model.tokenizer.encode_prompt(&turns))
            .filter(|turns| tokens.starts_with(turns))
            .map(|t| t.len())
    } else {
        None
    };
    let text = prompt.text();
    let parser = MessageParser::new(Start::after_prompt(&text), &tools);
    Ok(PromptTokens { text, tokens, turn_end, parser })
}

//! A generation that is held to a form: the rules of a request, and their guide as the engine takes it.

use crate::error::ApiError;
use crate::request::format::AnswerSchema;
use crate::request::tools::{Tool, ToolChoice};
use lily_engine::{ConstraintError, TokenConstraint, TokenId, TokenMask};
use lily_text::constraint::{Constrainer, Function, Guide, Rules, RulesError};
use lily_text::json::Value;
use lily_text::parser::{MessageParser, Start};

/// What an answer may be.
#[derive(Debug)]
pub(crate) struct Form {
    /// The tools that are shown to the model.
    pub(crate) tools: Vec<Tool>,
    /// Whether and which of them it must call.
    choice: ToolChoice,
    /// One call at most.
    pub(crate) single_call: bool,
    /// The schema of an answer that is no call.
    answer: Option<AnswerSchema>,
}

impl Form {
    /// The form of a message: tools are shown unless none may be called.
    pub(crate) fn new(
        tools: Vec<Tool>,
        choice: ToolChoice,
        parallel: bool,
        answer: Option<AnswerSchema>,
    ) -> Self {
        let tools = if choice == ToolChoice::None { Vec::new() } else { tools };
        Self { tools, choice, single_call: !parallel, answer }
    }

    /// The form of a plain text, in which there are no calls.
    pub(crate) fn plain(answer: Option<AnswerSchema>) -> Self {
        Self::new(Vec::new(), ToolChoice::None, true, answer)
    }

    /// True if an answer that is no call is held to a schema.
    pub(crate) fn has_schema(&self) -> bool {
        self.answer.is_some() && !self.is_required()
    }

    /// True if the answer must be a call.
    pub(crate) fn is_required(&self) -> bool {
        matches!(self.choice, ToolChoice::Required | ToolChoice::Named(_))
    }

    fn rules(&self, start: Start) -> Rules<'_> {
        let functions = self.callable().map(|tool| Function {
            name: tool.name(),
            parameters: tool.schema(),
            strict: tool.strict,
        });
        Rules {
            start,
            answer: self.answer.as_ref().map(|answer| &answer.schema),
            functions: functions.collect(),
            required: self.is_required(),
            parallel: !self.single_call,
        }
    }

    /// The tools that may be called.
    fn callable(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().filter(|tool| match &self.choice {
            ToolChoice::Named(name) => tool.name() == name,
            _ => true,
        })
    }

    /// True if every answer has this form.
    pub(crate) fn is_free(&self) -> bool {
        self.rules(Start::Raw).are_free()
    }

    /// What reads an answer that kept to this form.
    pub(crate) fn reader(&self, start: Start) -> MessageParser {
        let tools = self.definitions();
        if start == Start::Raw || self.is_free() {
            return MessageParser::new(start, &tools);
        }
        MessageParser::exact(start, &tools, self.answer.is_none() && !self.is_required())
    }

    /// The tools as the template and the reader know them.
    pub(crate) fn definitions(&self) -> Vec<Value> {
        self.tools.iter().map(|tool| tool.wire.clone()).collect()
    }

    /// The guide to this form, for an answer that begins at `start`.
    pub(crate) fn guide(&self, start: Start, constrainer: &Constrainer) -> Result<Guide, ApiError> {
        constrainer.guide(&self.rules(start)).map_err(|error| match error {
            RulesError::Answer(error) => {
                let path = self.answer.as_ref().map_or("response_format", |answer| answer.path.as_str());
                ApiError::invalid(path, error)
            }
            RulesError::Function { index, error } => {
                let tool = self.callable().nth(index);
                ApiError::invalid(tool.map_or("tools", |tool| tool.schema_path.as_str()), error)
            }
            RulesError::NothingToCall => ApiError::invalid("tool_choice", error),
            RulesError::Other(reason) => {
                let path = self.answer.as_ref().filter(|_| !self.is_required());
                let path = path.map_or("tools", |answer| answer.path.as_str());
                ApiError::invalid(path, format_args!("the answer cannot be held to this: {reason}"))
            }
        })
    }
}

/// A guide as a constraint of the engine.
#[derive(Clone)]
pub(crate) struct Guided(pub(crate) Guide);

impl TokenConstraint for Guided {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        self.0.mask(mask.words_mut()).map_err(|error| ConstraintError(error.to_string()))
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        self.0.accept(token).map_err(|error| ConstraintError(error.to_string()))
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    fn clone_box(&self) -> Box<dyn TokenConstraint> {
        Box::new(self.clone())
    }
}

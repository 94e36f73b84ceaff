//! From rules to guides.

use super::flatten::prepare;
use super::guide::{Free, Guide, Phase};
use super::lark::Lark;
use super::marker::Marker;
use super::reason::brief;
use super::schema::{children, join, standalone};
use super::vocabulary::Vocabulary;
use super::{Function, Rules, RulesError, SchemaError, arguments, calls, json};
use crate::parser::Start;
use crate::{TokenId, Tokenizer};
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Tokens that may begin any line of a parameter's value, whatever stands in it: masks are put together from such parts.
const TEXT_SLICE: &str = r#"[^<"\\\x00-\x1F\x7F]{1,30}"#;

/// Subschemas that are looked at to find the one at fault, and how long that may take.
const MAX_SEARCH: usize = 64;
const SEARCH_TIME: Duration = Duration::from_secs(1);

/// Stack of the thread that turns schemas into grammars: the library goes into what a schema refers to, and from one
/// property to the next, by recursion. What is never touched of it takes no memory.
const STACK: usize = 512 << 20;

/// Makes guides for one model; cheap to clone.
#[derive(Clone)]
pub struct Constrainer {
    inner: Arc<Inner>,
}

struct Inner {
    tokenizer: Tokenizer,
    stop_ids: Arc<[TokenId]>,
    /// What thinking must not hold: stop ids and other control tokens.
    control: Arc<[TokenId]>,
    factory: ParserFactory,
    think_close: OnceLock<Arc<Marker>>,
    call_open: OnceLock<Arc<Marker>>,
}

impl std::fmt::Debug for Constrainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Constrainer")
    }
}

impl Constrainer {
    /// Builds the prefix tree of a vocabulary: about a second and 100 MB for 250,000 tokens. `stop_ids` end an answer.
    ///
    /// # Errors
    /// The vocabulary does not fit into a tree.
    pub fn new(tokenizer: &Tokenizer, stop_ids: &[TokenId]) -> Result<Self, RulesError> {
        let fault =
            |error: String| RulesError::Other(format!("the vocabulary cannot be constrained: {error}"));
        // The tree asserts its limits.
        let built = catch_unwind(AssertUnwindSafe(|| {
            let environment: TokEnv = Arc::new(Vocabulary::new(tokenizer, stop_ids));
            let mut slices = SlicedBiasComputer::general_slices();
            slices.push(TEXT_SLICE.to_owned());
            ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
        }));
        let mut factory = built
            .map_err(|_| fault("it is too large".to_owned()))?
            .map_err(|error| fault(brief(&error.to_string())))?;
        factory.quiet();
        *factory.limits_mut() =
            ParserLimits { verbose_errors: false, max_lexer_states: 32_768, ..ParserLimits::default() };
        let ids = (0..tokenizer.size()).map(|id| TokenId(id as u32));
        let control = ids.filter(|id| tokenizer.is_special(*id) || stop_ids.contains(id)).collect();
        Ok(Self {
            inner: Arc::new(Inner {
                tokenizer: tokenizer.clone(),
                stop_ids: stop_ids.into(),
                control,
                factory,
                think_close: OnceLock::new(),
                call_open: OnceLock::new(),
            }),
        })
    }

    /// The guide that keeps a generation to some rules.
    ///
    /// # Errors
    /// A schema that cannot be held to, with its place; or rules that no answer keeps.
    pub fn guide(&self, rules: &Rules<'_>) -> Result<Guide, RulesError> {
        let fault = |what: &str| RulesError::Other(format!("the grammar cannot be made: {what}"));
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("lily-grammar".to_owned()).stack_size(STACK);
            match thread.spawn_scoped(scope, || self.guide_here(rules)) {
                Ok(work) => work.join().unwrap_or_else(|_| Err(fault("a fault in the grammar library"))),
                Err(error) => Err(fault(&error.to_string())),
            }
        })
    }

    fn guide_here(&self, rules: &Rules<'_>) -> Result<Guide, RulesError> {
        let inner = &self.inner;
        let mut free = Vec::new();
        if rules.start == Start::Thinking {
            let marker =
                inner.think_close.get_or_init(|| Arc::new(Marker::new("</think>", &inner.tokenizer)));
            free.push(Free { marker: Arc::clone(marker), forbidden: Arc::clone(&inner.control) });
        }
        // Free text before a call, if a call is to have a form and an answer need not.
        let text_first = rules.answer.is_none() && !rules.required;
        if text_first {
            let marker = inner.call_open.get_or_init(|| Arc::new(Marker::new(calls::OPEN, &inner.tokenizer)));
            free.push(Free { marker: Arc::clone(marker), forbidden: Arc::new([]) });
        }
        let matcher = self.calls_or_answer(rules, text_first)?;
        let (tokenizer, stop_ids) = (inner.tokenizer.clone(), Arc::clone(&inner.stop_ids));
        Ok(Guide::new(tokenizer, stop_ids, free.into_iter().map(Phase::free), matcher))
    }

    /// The grammar of what is not free, at work.
    fn calls_or_answer(&self, rules: &Rules<'_>, opened: bool) -> Result<Matcher, RulesError> {
        // A call that is required keeps to its schema where it can.
        let first = match self.matcher(self.grammar(rules, opened, |_| rules.required)?) {
            Ok(matcher) => return self.behind_thinking(rules).map(|()| matcher),
            Err(error) => error,
        };
        let loose = |function: &Function<'_>| rules.required && !function.strict;
        if rules.functions.iter().any(loose) {
            let sound = |function: &Function<'_>| {
                let mut lark = Lark::default();
                let rule = arguments::rule(function, true, &mut lark);
                rule.is_ok_and(|rule| self.matcher(lark.finish(&rule)).is_ok())
            };
            if let Ok(matcher) = self.matcher(self.grammar(rules, opened, sound)?) {
                return Ok(matcher);
            }
            // Together they may be too much.
            if let Ok(matcher) = self.matcher(self.grammar(rules, opened, |_| false)?) {
                return Ok(matcher);
            }
        }
        Err(self.blame(rules, &first))
    }

    /// Looks at the schema of an answer that thinking comes before: the first mask of such an answer is that of the
    /// line between them, and shows nothing of the schema.
    fn behind_thinking(&self, rules: &Rules<'_>) -> Result<(), RulesError> {
        let Some(schema) = rules.answer.filter(|_| rules.start == Start::Thinking && !rules.required) else {
            return Ok(());
        };
        let schema = prepare(schema).map_err(RulesError::Answer)?;
        self.fault_of(&schema).map_or(Ok(()), |error| Err(RulesError::Answer(error)))
    }

    /// The grammar of what is not free; `guide` as for [`calls::rule`].
    fn grammar(
        &self,
        rules: &Rules<'_>,
        opened: bool,
        guide: impl Fn(&Function<'_>) -> bool,
    ) -> Result<String, RulesError> {
        let mut lark = Lark::default();
        let mut choices = Vec::new();
        if let Some(schema) = rules.answer.filter(|_| !rules.required) {
            let schema = prepare(schema).map_err(RulesError::Answer)?;
            choices.push(json::rule(&schema, &mut lark));
        }
        if rules.required || !rules.functions.is_empty() {
            choices.push(calls::rule(rules, opened, guide, &self.inner.tokenizer, &mut lark)?);
        }
        // Behind thinking there is an empty line; the prompt has it already where the model does not think.
        let blank = if rules.start == Start::Thinking && !opened { r"/\n{1,2}/? " } else { "" };
        Ok(lark.finish(&format!("{blank}{}", super::lark::any_of(&choices))))
    }

    fn matcher(&self, grammar: String) -> Result<Matcher, String> {
        let parser = self.inner.factory.create_parser(TopLevelGrammar::from_lark(grammar));
        let mut matcher = Matcher::new(parser);
        match matcher.get_error() {
            Some(error) => Err(error),
            // A grammar that allows nothing shows at its first mask.
            None => matcher.compute_mask().map(|_| matcher).map_err(|error| error.to_string()),
        }
    }

    /// Finds the schema at fault.
    fn blame(&self, rules: &Rules<'_>, error: &str) -> RulesError {
        if let Some(schema) = rules.answer.filter(|_| !rules.required)
            && let Ok(schema) = prepare(schema)
            && let Some(error) = self.fault_of(&schema)
        {
            return RulesError::Answer(error);
        }
        for (index, function) in rules.functions.iter().enumerate().filter(|(_, function)| function.strict) {
            let schema = function.parameters.and_then(|schema| prepare(schema).ok());
            let fault = schema.and_then(|schema| self.fault_of(&schema));
            if let Some(error) = fault.or_else(|| self.fault_of_call(function)) {
                return RulesError::Function { index, error };
            }
        }
        RulesError::Other(brief(error))
    }

    /// What is wrong with a function's schema as that of a call, where strings are raw text: at the parameter that is
    /// wrong by itself, if there is one.
    fn fault_of_call(&self, function: &Function<'_>) -> Option<SchemaError> {
        let mut lark = Lark::default();
        let reason = match arguments::rule(function, true, &mut lark) {
            Ok(rule) => self.matcher(lark.finish(&rule)).err()?,
            Err(error) => return Some(error),
        };
        let begun = Instant::now();
        for (path, grammar) in arguments::one_by_one(function).unwrap_or_default() {
            if begun.elapsed() > SEARCH_TIME {
                break;
            }
            if let Err(reason) = self.matcher(grammar) {
                return Some(SchemaError::new(path, brief(&reason)));
            }
        }
        Some(SchemaError::new("", brief(&reason)))
    }

    /// What is wrong with a schema, at the innermost place that is wrong by itself.
    fn fault_of(&self, root: &serde_json::Value) -> Option<SchemaError> {
        let mut budget = MAX_SEARCH;
        let begun = Instant::now();
        let mut reason = self.compile_alone(root, root)?;
        let (mut path, mut schema) = (String::new(), root);
        'inner: loop {
            for (step, child) in children(schema) {
                if budget == 0 || begun.elapsed() > SEARCH_TIME {
                    break;
                }
                budget -= 1;
                if let Some(inner) = self.compile_alone(child, root) {
                    (path, schema, reason) = (join(&path, &step), child, inner);
                    continue 'inner;
                }
            }
            return Some(SchemaError::new(path, brief(&reason)));
        }
    }

    /// Why a part of a schema cannot become a grammar, if so.
    fn compile_alone(&self, schema: &serde_json::Value, root: &serde_json::Value) -> Option<String> {
        let mut lark = Lark::default();
        let rule = lark.rule("", &super::lark::json(&standalone(schema, root)));
        self.matcher(lark.finish(&rule)).err()
    }
}

//! Which model: a folder that the user names, or the embedded nano; and its files.

use crate::{embedded, failure::Advice};
use anyhow::{Context, Result, bail};
use lily_checkpoint::Checkpoint;
use lily_text::{ChatTemplate, TokenId, Tokenizer};
use std::{
    borrow::Cow,
    fs, io,
    path::{Path, PathBuf},
};

/// Where a model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelSource {
    Folder(PathBuf),
    Embedded,
}

impl ModelSource {
    /// The model that the user asked for (`--model`, or the environment variable LILY_MODEL); without either, or by the
    /// name `nano`, the embedded one.
    pub(crate) fn locate(wanted: Option<&str>) -> Result<Self> {
        let Some(wanted) = wanted.filter(|path| !path.is_empty() && *path != embedded::NAME) else {
            if embedded::FILES.is_empty() {
                return Err(Advice::usage(
                    "no model was named, and this binary was built without the embedded one",
                    "name a checkpoint folder with --model or LILY_MODEL, or build with the feature `embed-nano`",
                )
                .into());
            }
            return Ok(Self::Embedded);
        };
        let path = PathBuf::from(wanted);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => Ok(Self::Folder(path)),
            Ok(_) => Err(Advice::new(
                format!("{wanted} is a file; a model is a folder"),
                "name the folder that holds config.json, tokenizer.json and the safetensors files",
            )
            .into()),
            Err(error) => Err(anyhow::Error::new(error).context(missing(wanted))),
        }
    }

    /// A short name: the folder's, or the embedded model's.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Embedded => format!("lily-{}", embedded::NAME),
            Self::Folder(path) => {
                let absolute = path.canonicalize().unwrap_or_else(|_| path.clone());
                absolute
                    .file_name()
                    .map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
            }
        }
    }

    /// Where it is, for people.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Embedded => "embedded in this binary".to_owned(),
            Self::Folder(path) => path.display().to_string(),
        }
    }

    /// Config and weights; reads no weight yet.
    pub(crate) fn checkpoint(&self) -> Result<Checkpoint> {
        let opened = match self {
            Self::Folder(path) => Checkpoint::open(path),
            Self::Embedded => Checkpoint::from_files(embedded::FILES),
        };
        opened.with_context(|| format!("cannot load the model {}", self.at_place()))
    }

    /// Tokenizer and chat template; needs no weights.
    pub(crate) fn text(&self) -> Result<TextModel> {
        self.read_text()
            .with_context(|| format!("cannot load the tokenizer of the model {}", self.at_place()))
    }

    fn at_place(&self) -> String {
        match self {
            Self::Folder(path) => format!("in {}", path.display()),
            Self::Embedded => self.place(),
        }
    }

    fn read_text(&self) -> Result<TextModel> {
        let json = self.file("tokenizer.json")?.ok_or_else(|| {
            Advice::new(
                "tokenizer.json: no such file",
                "a checkpoint folder needs config.json, tokenizer.json and weights",
            )
        })?;
        let tokenizer = Tokenizer::from_json(&json)?;
        let config = TokenizerConfig::parse(self.file("tokenizer_config.json")?.as_deref())?;
        let (file, source) = match self.file("chat_template.jinja")? {
            Some(bytes) => {
                let text = String::from_utf8(bytes.into_owned()).context("chat_template.jinja: not UTF-8")?;
                ("chat_template.jinja", Some(text))
            }
            None => ("tokenizer_config.json", config.chat_template),
        };
        let template = source.map(|source| ChatTemplate::new(&source)).transpose().context(file)?;
        let eos = config.eos_token.and_then(|spelling| {
            let id = tokenizer.token_id(&spelling);
            if id.is_none() {
                tracing::warn!("tokenizer_config.json: eos_token {spelling:?} is no token of tokenizer.json");
            }
            id
        });
        Ok(TextModel { tokenizer, template, eos })
    }

    /// A file of the model; `None` if it is not there.
    fn file(&self, name: &str) -> Result<Option<Cow<'static, [u8]>>> {
        match self {
            Self::Embedded => Ok(embedded::FILES
                .iter()
                .find(|(file, _)| *file == name)
                .map(|(_, bytes)| Cow::Borrowed(*bytes))),
            Self::Folder(folder) => read_optional(&folder.join(name)).map(|bytes| bytes.map(Cow::Owned)),
        }
    }
}

fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn missing(wanted: &str) -> Advice {
    // `organisation/name` is how models are called on the hub.
    let parts: Vec<&str> = wanted.split('/').collect();
    let hub = parts.len() == 2 && parts.iter().all(|part| !part.is_empty() && !part.starts_with('.'));
    let hint = if hub {
        "if this is a name on the Hugging Face hub: download it first (`hf download NAME --local-dir FOLDER`) and name the folder"
    } else {
        "name a checkpoint folder, or leave --model and LILY_MODEL away for the embedded model"
    };
    Advice::new(format!("there is no model folder at {wanted}"), hint)
}

/// What turns messages into tokens and tokens into text.
#[derive(Debug, Clone)]
pub(crate) struct TextModel {
    pub(crate) tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    /// The end-of-text token that `tokenizer_config.json` names.
    eos: Option<TokenId>,
}

impl TextModel {
    /// The chat template.
    pub(crate) fn template(&self) -> Result<&ChatTemplate> {
        self.template.as_ref().ok_or_else(|| {
            Advice::new(
                "this model has no chat template (neither chat_template.jinja nor one in tokenizer_config.json)",
                "`lily run --raw` continues a text without one",
            )
            .into()
        })
    }

    /// Every id that ends an answer: the union of generation_config.json, config.json and the tokenizer's own. An id
    /// without a token is never sampled: it is told and left out, and if none is left, answers would never end.
    pub(crate) fn stop_ids(&self, checkpoint: &Checkpoint) -> Result<Vec<TokenId>> {
        let named = checkpoint.generation.eos_token_ids.iter().chain(&checkpoint.config.eos_token_ids);
        let mut ids: Vec<TokenId> = named.map(|&id| TokenId(id)).chain(self.eos).collect();
        ids.sort_unstable();
        ids.dedup();
        let (reachable, unreachable): (Vec<TokenId>, Vec<TokenId>) =
            ids.into_iter().partition(|&id| self.tokenizer.has_token(id));
        let spelled = unreachable.iter().map(|TokenId(id)| id.to_string()).collect::<Vec<_>>().join(", ");
        match (reachable.is_empty(), unreachable.is_empty()) {
            (true, false) => Err(Advice::new(
                format!("tokenizer.json has no token for any id that ends an answer ({spelled})"),
                "answers would never end: take tokenizer.json, config.json and generation_config.json from one checkpoint",
            )
            .into()),
            (true, true) => {
                tracing::warn!("no file of the model names an eos_token: an answer ends at its limit only");
                Ok(reachable)
            }
            (false, true) => Ok(reachable),
            (false, false) => {
                tracing::warn!("tokenizer.json has no token for some ids that end an answer ({spelled})");
                Ok(reachable)
            }
        }
    }
}

/// What matters of `tokenizer_config.json`.
#[derive(Debug, Default, PartialEq, Eq)]
struct TokenizerConfig {
    eos_token: Option<String>,
    chat_template: Option<String>,
}

impl TokenizerConfig {
    fn parse(json: Option<&[u8]>) -> Result<Self> {
        let Some(json) = json else { return Ok(Self::default()) };
        const FILE: &str = "tokenizer_config.json";
        let value: serde_json::Value = serde_json::from_slice(json).context(FILE)?;
        if !value.is_object() {
            bail!("{FILE}: not an object");
        }
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let eos = &value["eos_token"];
        let eos_token = text(eos).or_else(|| text(&eos["content"]));
        if eos_token.is_none() && !eos.is_null() {
            bail!("{FILE}: `eos_token` must be text, or an object with text as `content`");
        }
        let template = &value["chat_template"];
        if !(template.is_null() || template.is_string() || template.is_array()) {
            bail!("{FILE}: `chat_template` must be text, or a list of named templates");
        }
        // Older files list several named templates.
        let named =
            || template.as_array()?.iter().find(|entry| entry["name"] == "default").map(|t| &t["template"]);
        let chat_template = text(template).or_else(|| named().and_then(text));
        Ok(Self { eos_token, chat_template })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokenizer_config_in_its_forms() {
        let parse = |text: &str| TokenizerConfig::parse(Some(text.as_bytes())).unwrap();
        let expected = TokenizerConfig { eos_token: Some("<e>".into()), chat_template: Some("T".into()) };
        assert_eq!(parse(r#"{"eos_token": "<e>", "chat_template": "T"}"#), expected);
        let listed = r#"{"eos_token": {"content": "<e>"},
            "chat_template": [{"name": "rag", "template": "R"}, {"name": "default", "template": "T"}]}"#;
        assert_eq!(parse(listed), expected);
        assert_eq!(parse("{}"), TokenizerConfig::default());
        let damaged =
            ["{", "[]", "3", r#"{"eos_token": 5}"#, r#"{"eos_token": {}}"#, r#"{"chat_template": 7}"#];
        for text in damaged {
            let error = TokenizerConfig::parse(Some(text.as_bytes())).unwrap_err();
            assert!(format!("{error:#}").starts_with("tokenizer_config.json: "), "{text}: {error:#}");
        }
    }

    #[test]
    fn names() {
        assert_eq!(ModelSource::Folder("/models/tiny/".into()).name(), "tiny");
        assert!(ModelSource::locate(Some("/no/such/folder")).is_err());
        #[cfg(feature = "embed-nano")]
        assert_eq!(ModelSource::locate(Some("nano")).unwrap(), ModelSource::Embedded);
    }
}

//! `quantization` in `config.json`: one scheme for all modules, and exceptions by module path.

use crate::{
    Bits, CheckpointError, GroupSize, Hint, Quantization,
    json::Fields,
    names::{self, Name},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const CONVERT_HINT: &str = "Lily reads MLX affine quantisation (2, 3, 4, 5, 6 or 8 bits) and unquantised bf16, f16 or f32; \
                            convert the bf16 checkpoint with `mlx_lm.convert -q`";

/// What the config says about quantisation.
#[derive(Debug, Default)]
pub(crate) struct QuantizationConfig {
    /// The field of `config.json` that holds it.
    field: &'static str,
    default: Option<Quantization>,
    /// By module path without the prefix.
    overrides: BTreeMap<String, Override>,
    unused: BTreeSet<String>,
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Override {
    /// The path as the config spells it.
    path: String,
    quantization: Option<Quantization>,
}

/// What the config says about one module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Quantised like this, by default or (`explicit`) by name.
    Affine { quantization: Quantization, explicit: bool, source: String },
    /// Named as not quantised.
    Plain { source: String },
    /// The config has no quantisation.
    Unsaid,
}

impl QuantizationConfig {
    /// Reads `quantization`, or else `quantization_config`. MLX writes both and reads the former, so it wins.
    pub(crate) fn from_fields(top: &Fields<'_>) -> Result<Self, CheckpointError> {
        let mut found = Vec::new();
        // A flat config inside a wrapper's `text_config` keeps its own.
        for place in std::iter::once(top.clone()).chain(top.object("text_config")?) {
            for field in ["quantization", "quantization_config"] {
                if let Some(fields) = place.object(field)? {
                    refuse_other_schemes(&fields)?;
                    found.push(Self::read(field, &fields)?);
                }
            }
        }
        let mut found = found.into_iter();
        let Some(mut first) = found.next() else { return Ok(Self::default()) };
        for other in found {
            if (other.default, &other.overrides) != (first.default, &first.overrides) {
                first.warnings.push(format!(
                    "config.json: `{}` and `{}` differ; the former is used",
                    first.field, other.field
                ));
            }
        }
        Ok(first)
    }

    fn read(field: &'static str, fields: &Fields<'_>) -> Result<Self, CheckpointError> {
        check_mode(fields)?;
        let default = scheme(fields, None)?;
        let mut config = Self { field, default: Some(default), ..Self::default() };
        for (path, value) in fields.iter() {
            let quantization = match value {
                Value::Bool(true) => Some(default),
                Value::Bool(false) => None,
                Value::Object(_) => None,
                // Fields of the scheme itself, and notes of other tools.
                _ => continue,
            };
            let module = match names::normalize(path) {
                Name::Model(module) => module.to_owned(),
                Name::Skipped => continue,
                Name::Unknown => {
                    config
                        .warnings
                        .push(format!("{}: no such module in the model; ignored", fields.path(path)));
                    continue;
                }
            };
            let quantization = match fields.get(path) {
                Some(Value::Object(_)) => {
                    let Some(entry) = fields.object(path)? else { continue };
                    check_mode(&entry)?;
                    Some(scheme(&entry, Some(default))?)
                }
                _ => quantization,
            };
            let entry = Override { path: path.to_owned(), quantization };
            if let Some(first) = config.overrides.insert(module.clone(), entry.clone())
                && first.quantization != entry.quantization
            {
                let problem =
                    format!("contradicts `{}`, another name of the same module", fields.path(&first.path));
                return Err(fields.error(path, problem, "remove the one that is wrong"));
            }
            config.unused.insert(module);
        }
        Ok(config)
    }

    /// What holds for a module, by its path without the prefix.
    pub(crate) fn scheme_of(&mut self, module: &str) -> Scheme {
        self.unused.remove(module);
        match (self.overrides.get(module), self.default) {
            (Some(Override { path, quantization: Some(quantization) }), _) => Scheme::Affine {
                quantization: *quantization,
                explicit: true,
                source: format!("`{}.{path}`", self.field),
            },
            (Some(Override { path, quantization: None }), _) => {
                Scheme::Plain { source: format!("`{}.{path}` is false", self.field) }
            }
            (None, Some(quantization)) => {
                Scheme::Affine { quantization, explicit: false, source: format!("`{}`", self.field) }
            }
            (None, None) => Scheme::Unsaid,
        }
    }

    /// Paths of exceptions that [`Self::scheme_of`] was never asked about.
    pub(crate) fn unused(&self) -> Vec<String> {
        self.unused.iter().filter_map(|module| Some(self.overrides.get(module)?.path.clone())).collect()
    }
}

/// `quant_method` names schemes of other runtimes.
fn refuse_other_schemes(fields: &Fields<'_>) -> Result<(), CheckpointError> {
    match fields.text("quant_method")? {
        None | Some("mlx" | "affine") => Ok(()),
        Some(other) => Err(unsupported(fields, "quant_method", other)),
    }
}

fn check_mode(fields: &Fields<'_>) -> Result<(), CheckpointError> {
    match fields.text("mode")? {
        None | Some("affine") => Ok(()),
        Some(other) => Err(unsupported(fields, "mode", other)),
    }
}

fn unsupported(fields: &Fields<'_>, name: &str, scheme: &str) -> CheckpointError {
    CheckpointError::Quantization {
        file: fields.file().to_owned(),
        module: format!("`{}`", fields.path(name)),
        problem: format!("quantisation `{scheme}` is not supported"),
        hint: CONVERT_HINT.into(),
    }
}

fn scheme(fields: &Fields<'_>, default: Option<Quantization>) -> Result<Quantization, CheckpointError> {
    let bits = match (fields.count("bits", 0..=usize::MAX)?, default) {
        (Some(bits), _) => u8::try_from(bits).ok().and_then(Bits::new).ok_or_else(|| {
            fields.error("bits", format!("is {bits}, supported are 2, 3, 4, 5, 6 and 8"), Hint::NONE)
        })?,
        (None, Some(default)) => default.bits,
        (None, None) => return Err(fields.missing("bits")),
    };
    let group_size = match (fields.count("group_size", 0..=usize::MAX)?, default) {
        (Some(size), _) => GroupSize::new(size).ok_or_else(|| {
            fields.error("group_size", format!("is {size}, supported are 32, 64 and 128"), Hint::NONE)
        })?,
        (None, Some(default)) => default.group_size,
        (None, None) => return Err(fields.missing("group_size")),
    };
    Ok(Quantization { bits, group_size })
}

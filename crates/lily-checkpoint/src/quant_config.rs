//! `quantization` in `config.json`: one scheme for all modules, and exceptions by module path.

use crate::{
    Bits, CheckpointError, GroupSize, Quantization,
    json::Fields,
    names::{self, Name},
};
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
    warnings: Vec<String>,
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
            // The rest are fields of the scheme itself, and notes of other tools.
            if !value.is_boolean() && !value.is_object() {
                continue;
            }
            let module = match names::normalize(path) {
                Name::Model(module) => module.to_owned(),
                Name::Skipped => continue,
                Name::Unknown => {
                    config.warnings.push(no_such_module(&fields.path(path)));
                    continue;
                }
            };
            let quantization = match value.as_object() {
                Some(map) => {
                    let entry = fields.nested(path, map);
                    check_mode(&entry)?;
                    Some(scheme(&entry, Some(default))?)
                }
                None => value.as_bool().filter(|quantised| *quantised).map(|_| default),
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

    /// Whether the config says that modules are quantised.
    pub(crate) fn is_some(&self) -> bool {
        self.default.is_some()
    }

    /// Notes about the config, once every module has been asked about with [`Self::scheme_of`].
    pub(crate) fn into_warnings(self) -> Vec<String> {
        let unused = self.unused.iter().filter_map(|module| self.overrides.get(module));
        let unused = unused.map(|entry| no_such_module(&format!("{}.{}", self.field, entry.path)));
        let mut warnings: Vec<String> = unused.collect();
        warnings.extend(self.warnings);
        warnings
    }
}

fn no_such_module(path: &str) -> String {
    format!("config.json: `{path}`: the model has no such module; ignored")
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
    let bits = fields.choice("bits", &Bits::ALL.map(Bits::get))?.and_then(|bits| Bits::new(bits as u8));
    let group_size =
        fields.choice("group_size", &GroupSize::ALL.map(GroupSize::get))?.and_then(GroupSize::new);
    Ok(Quantization {
        bits: bits.or(default.map(|d| d.bits)).ok_or_else(|| fields.missing("bits"))?,
        group_size: group_size
            .or(default.map(|d| d.group_size))
            .ok_or_else(|| fields.missing("group_size"))?,
    })
}

//! Tensor names: one model, three prefixes in use, and parts of larger models that are not read.

/// What a stored name means to this architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name<'a> {
    /// A tensor or module of the language model, without the prefix: `embed_tokens.weight`, `layers.0.mlp.gate`,
    /// `norm.weight`, `lm_head.weight`.
    Model(&'a str),
    /// The vision tower and the multi-token-prediction head: known and not read.
    Skipped,
    /// Nothing that the family has.
    Unknown,
}

const SKIPPED: [&str; 5] = ["vision_tower.", "model.visual.", "visual.", "mtp.", "language_model.mtp."];
const PREFIXES: [&str; 3] = ["language_model.model.", "model.language_model.", "model."];

/// Takes the prefix off a tensor's name or a module's path.
pub(crate) fn normalize(name: &str) -> Name<'_> {
    if SKIPPED.iter().any(|prefix| name.starts_with(prefix)) {
        return Name::Skipped;
    }
    if let Some(rest) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        return Name::Model(rest);
    }
    let bare = name.strip_prefix("language_model.").unwrap_or(name);
    if bare == "lm_head" || bare.starts_with("lm_head.") { Name::Model(bare) } else { Name::Unknown }
}

#[cfg(test)]
mod tests {
    use super::{Name, normalize};

    #[test]
    fn prefixes() {
        let model = [
            ("language_model.model.norm.weight", "norm.weight"),
            ("model.language_model.norm.weight", "norm.weight"),
            ("model.norm.weight", "norm.weight"),
            ("language_model.lm_head.weight", "lm_head.weight"),
            ("lm_head.scales", "lm_head.scales"),
            ("model.lm_head.weight", "lm_head.weight"),
            ("lm_head", "lm_head"),
        ];
        for (stored, bare) in model {
            assert_eq!(normalize(stored), Name::Model(bare), "{stored}");
        }
        for stored in ["vision_tower.a", "model.visual.a", "visual.a", "mtp.a", "language_model.mtp.a"] {
            assert_eq!(normalize(stored), Name::Skipped, "{stored}");
        }
        for stored in [
            "",
            "norm.weight",
            "language_model.vision_tower.a",
            "lm_head2.weight",
            "adapter.a",
            "language_model.",
        ] {
            assert_eq!(normalize(stored), Name::Unknown, "{stored}");
        }
    }
}

//! The model compiled into the binary (cargo feature `embed-nano`), so that an installed `lily` works alone.

/// Name of the embedded model.
pub(crate) const NAME: &str = "nano";

#[cfg(feature = "embed-nano")]
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../models/nano/", $name)))),*]
    };
}

/// The files of the embedded checkpoint, as `(name, contents)`; empty without the feature.
#[cfg(feature = "embed-nano")]
pub(crate) const FILES: &[(&str, &[u8])] = files![
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];

#[cfg(not(feature = "embed-nano"))]
pub(crate) const FILES: &[(&str, &[u8])] = &[];

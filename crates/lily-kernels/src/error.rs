//! What can be wrong with a kernel's name, constants or text.

/// Why a kernel could not be specialised or described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// No file of the catalog has this name.
    #[error("there is no kernel file `{0}`")]
    NoFile(String),
    /// A text that is no specialisation's key.
    #[error("`{0}` is not FILE[NAME=VALUE,...]")]
    Key(String),
    /// The file has no such constant.
    #[error("kernel file `{file}` has no constant `{constant}`; it has {known}")]
    UnknownConstant {
        /// The file.
        file: &'static str,
        /// What was given.
        constant: String,
        /// What could have been.
        known: String,
    },
    /// A constant without a default was not given.
    #[error("kernel file `{file}` needs a value for `{constant}` ({doc})")]
    MissingConstant {
        /// The file.
        file: &'static str,
        /// The constant.
        constant: &'static str,
        /// What it is.
        doc: &'static str,
    },
    /// The file has no such entry point.
    #[error("kernel file `{file}` has no entry point `{entry}`")]
    NoEntry {
        /// The file.
        file: &'static str,
        /// What was asked for.
        entry: String,
    },
    /// The text of an entry point does not follow the dialect.
    #[error("kernel file `{file}`, entry point `{entry}`: {reason}")]
    Text {
        /// The file.
        file: &'static str,
        /// The entry point.
        entry: String,
        /// What is wrong.
        reason: String,
    },
}

//! What can go wrong on a device.

/// What went wrong on a device.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No such device, driver or compiler.
    #[error("{what}\nhint: {hint}")]
    Unavailable {
        /// What is missing.
        what: String,
        /// What to do.
        hint: String,
    },
    /// Memory could not be had.
    #[error("{bytes} bytes for {label}: out of device memory{detail}")]
    OutOfMemory {
        /// How many.
        bytes: usize,
        /// For what.
        label: String,
        /// What else is known, or nothing.
        detail: String,
    },
    /// The model needs more than the device has.
    #[error("{0}")]
    TooLarge(String),
    /// A kernel's text, constants or signature are not right.
    #[error("kernel {kernel}: {what}")]
    Kernel {
        /// File or entry point.
        kernel: String,
        /// What is wrong, the compiler's text included.
        what: String,
    },
    /// A dispatch was recorded wrongly.
    #[error(transparent)]
    Record(#[from] crate::recorder::RecordError),
    /// The device's own call failed.
    #[error("{call}: {what}")]
    Device {
        /// The call, with its label.
        call: String,
        /// The device's words.
        what: String,
    },
    /// The emulator's checks found faults.
    #[error("{label}: {} faults, the first: {}", faults.len(), faults.first().map_or("", String::as_str))]
    Faults {
        /// The dispatch.
        label: String,
        /// One line each.
        faults: Vec<String>,
    },
    /// A weight or dimension that the kernels do not serve.
    #[error("{name}: {what}")]
    Unsupported {
        /// Which.
        name: String,
        /// Why.
        what: String,
    },
}

impl From<GpuError> for lily_engine::BackendError {
    fn from(error: GpuError) -> Self {
        match error {
            GpuError::OutOfMemory { .. } | GpuError::TooLarge(_) => Self::OutOfMemory(error.to_string()),
            _ => Self::Device(error.to_string()),
        }
    }
}

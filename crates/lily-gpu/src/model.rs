//! A model on a device.

use crate::{Device, GpuError, Kernel, Switches, weights::Weights};
use lily_checkpoint::ModelConfig;
use lily_kernels::Specialisation;
use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

/// Dimensions, weights, kernels: what plans are made from.
pub struct GpuModel {
    /// Where it is.
    pub device: Arc<dyn Device>,
    /// Dimensions.
    pub config: ModelConfig,
    /// On the device.
    pub weights: Weights,
    /// Which optimisations are on.
    pub switches: Switches,
    kernels: Mutex<HashMap<String, Kernel>>,
}

impl GpuModel {
    /// A model whose weights are loaded.
    pub fn new(device: Arc<dyn Device>, config: ModelConfig, weights: Weights, switches: Switches) -> Self {
        Self { device, config, weights, switches, kernels: Mutex::default() }
    }

    /// An entry point of a kernel file with these constants, compiled once.
    ///
    /// # Errors
    /// [`GpuError::Kernel`]: a constant or entry that the file does not have, or the compiler's words.
    pub fn kernel(&self, file: &str, constants: &[(&str, i64)], entry: &str) -> Result<Kernel, GpuError> {
        // What was asked for is the key: a plan asks for hundreds of kernels per chunk, and always in the same words.
        let mut key = String::with_capacity(96);
        key.push_str(file);
        for (name, value) in constants {
            // A String takes every write.
            let _ = write!(key, " {name}={value}");
        }
        key.push(' ');
        key.push_str(entry);
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels.get(&key) {
            return Ok(kernel.clone());
        }
        let specialisation = Specialisation::named(file, constants)
            .map_err(|error| GpuError::Kernel { kernel: file.to_owned(), what: error.to_string() })?;
        let kernel = self.device.compile(&specialisation, entry)?;
        kernels.insert(key, kernel.clone());
        Ok(kernel)
    }
}

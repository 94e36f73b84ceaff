//! A model on a device.

use crate::{
    Device, GpuError, Kernel, Switches,
    shapes::{Chip, Shapes, Tuned},
    weights::Weights,
};
use lily_checkpoint::ModelConfig;
use lily_kernels::Specialisation;
use std::{
    collections::HashMap,
    fmt::Write as _,
    path::Path,
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
    /// Most floating-point operations of one launch: the device's [`Device::launch_operations`]. What is recorded next is
    /// launched in parts where it has more and can be parted.
    pub operations: Option<u64>,
    chip: Chip,
    /// In the place of the table's.
    shapes: Mutex<Option<Shapes>>,
    kernels: Mutex<HashMap<String, Kernel>>,
}

impl GpuModel {
    /// A model whose weights are loaded.
    pub fn new(device: Arc<dyn Device>, config: ModelConfig, weights: Weights, switches: Switches) -> Self {
        let (chip, operations) = (Chip::of(&*device), device.launch_operations());
        let (shapes, kernels) = (Mutex::default(), Mutex::default());
        Self { device, config, weights, switches, operations, chip, shapes, kernels }
    }

    /// What kind of chip the device is.
    pub fn chip(&self) -> Chip {
        self.chip
    }

    /// The launch shapes of what is recorded next: those that were set or read, else the table's.
    pub fn shapes(&self) -> Shapes {
        let set = *self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        set.unwrap_or_else(|| Shapes::of(self.chip))
    }

    /// Sets the launch shapes of what is recorded next.
    pub fn set_shapes(&self, shapes: Shapes) {
        *self.shapes.lock().unwrap_or_else(PoisonError::into_inner) = Some(shapes);
    }

    /// Takes the launch shapes that `lily tune` kept in the cache folder, unless `LILY_TUNED` is `off`.
    pub fn read_kept(&self) {
        let wish = std::env::var_os("LILY_TUNED").unwrap_or_default();
        if wish == "off" {
            tracing::info!("launch shapes of the table: LILY_TUNED is off");
            return;
        }
        if !wish.is_empty() && wish != "on" {
            tracing::warn!(
                "LILY_TUNED is {wish:?} and changes nothing\nhint: off ignores what lily tune kept, on is the default"
            );
        }
        if let Some(folder) = Tuned::default_folder() {
            self.read_tuned(&folder);
        }
    }

    /// Takes the launch shapes that `lily tune` kept in a folder for this device and these dimensions, if there are any. What is of no
    /// use is told and left alone.
    pub fn read_tuned(&self, folder: &Path) {
        match Tuned::load(folder, &*self.device, &self.config) {
            Ok(None) => {}
            Ok(Some(tuned)) => {
                let named: Vec<String> = tuned
                    .winners
                    .iter()
                    .map(|(slot, values)| format!("{slot} {}", slot.describe(values)))
                    .collect();
                tracing::info!(shapes = named.join(", "), "launch shapes as measured by lily tune");
                self.set_shapes(tuned.shapes(self.chip));
            }
            Err(error) => tracing::warn!(
                "the launch shapes kept in {} are not used: {error}\nhint: run lily tune again, or lily tune --reset",
                folder.display()
            ),
        }
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

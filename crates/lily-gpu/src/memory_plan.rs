//! What will be allocated, told and checked before anything is.

use crate::{GpuError, StateSize, weights::WeightRoute};
use lily_checkpoint::ModelConfig;
use std::fmt;

/// Device memory by purpose, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Weights that are copied into the device's memory.
    pub weights: u64,
    /// Files with weights that the device reads where they are.
    pub mapped: u64,
    /// How the weights get there.
    pub route: &'static str,
    /// Recurrent state and windows of one sequence.
    pub recurrent: u64,
    /// KV rows of one sequence at the longest context.
    pub kv: u64,
    /// The longest context.
    pub context: usize,
    /// Temporaries of decode and prefill.
    pub temporaries: u64,
    /// What the device has.
    pub available: u64,
}

impl MemoryPlan {
    /// For one sequence of `context` tokens.
    pub fn new(config: &ModelConfig, weights: u64, context: usize, temporaries: u64, available: u64) -> Self {
        let size = StateSize::of(config);
        Self {
            weights,
            mapped: 0,
            route: WeightRoute::Arena.name(),
            recurrent: size.recurrent as u64,
            kv: (size.kv_per_token * context) as u64,
            context,
            temporaries,
            available,
        }
    }

    /// The same with so many bytes of files that are mapped, if any.
    #[must_use]
    pub fn with_mapped(self, mapped: u64) -> Self {
        let route = if mapped > 0 { WeightRoute::Mapped } else { WeightRoute::Arena };
        Self { mapped, route: route.name(), ..self }
    }

    /// What the model needs before its first token: everything but KV rows, which grow with use.
    pub fn least(&self) -> u64 {
        self.weights + self.mapped + self.recurrent + self.temporaries
    }

    /// With one sequence at the longest context.
    pub fn most(&self) -> u64 {
        self.least() + self.kv
    }

    /// Checks that the model fits.
    ///
    /// # Errors
    /// [`GpuError::TooLarge`] with the plan.
    pub fn check(&self) -> Result<(), GpuError> {
        if self.least() > self.available {
            return Err(GpuError::TooLarge(format!(
                "the model does not fit into the device's memory\n{self}"
            )));
        }
        if self.most() > self.available {
            tracing::warn!(
                "one sequence of {} tokens does not fit beside the weights: {} of {} bytes",
                self.context,
                self.most(),
                self.available
            );
        }
        Ok(())
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, bytes: u64| {
            writeln!(f, "{name:<34}{:>12.1} MB", bytes as f64 / 1e6)
        };
        if self.mapped > 0 {
            line(f, &format!("weights ({})", self.route), self.mapped)?;
            line(f, "weights joined in copies", self.weights)?;
        } else {
            line(f, &format!("weights ({})", self.route), self.weights)?;
        }
        line(f, "temporaries", self.temporaries)?;
        line(f, "recurrent state of a sequence", self.recurrent)?;
        line(f, &format!("KV rows of {} tokens", self.context), self.kv)?;
        line(f, "sum", self.most())?;
        write!(f, "{:<34}{:>12.1} MB", "the device has", self.available as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_does_not_fit_is_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
        let config = lily_checkpoint::Checkpoint::open(folder.as_ref()).unwrap().config;
        let plan = |available| MemoryPlan::new(&config, 16_000_000, 4096, 1_000_000, available);
        let least = plan(0).least();
        assert!(plan(least).check().is_ok());
        let error = plan(least - 1).check().unwrap_err().to_string();
        assert!(error.contains("KV rows of 4096 tokens"), "{error}");
        let mapped = plan(least + 4_000_000).with_mapped(4_000_000);
        assert!(mapped.check().is_ok() && plan(least).with_mapped(1).check().is_err());
        assert!(mapped.to_string().starts_with("weights (mapped)  "), "{mapped}");
        // 2 attention layers, 1 KV head of 256, bf16, keys and values.
        assert_eq!(plan(0).kv, 2 * 2 * 256 * 2 * 4096);
    }
}

//! The backends behind `--backend`, as one generic call.

use crate::{
    cli::{BackendChoice, GlobalOptions, PrecisionChoice},
    failure::Advice,
};
use anyhow::{Context, Result};
use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, Precision, Profile, ReferenceBackend};
use lily_engine::Backend;

/// A backend that can tell what its operations cost.
pub(crate) trait Profiled: Backend {
    /// Starts collecting; false if this backend does not.
    fn start_profile(&mut self) -> bool;

    /// What was collected since.
    fn take_profile(&mut self) -> Option<Profile>;
}

impl Profiled for CpuBackend {
    fn start_profile(&mut self) -> bool {
        Self::start_profile(self);
        true
    }

    fn take_profile(&mut self) -> Option<Profile> {
        Self::take_profile(self)
    }
}

impl Profiled for ReferenceBackend {
    fn start_profile(&mut self) -> bool {
        false
    }

    fn take_profile(&mut self) -> Option<Profile> {
        None
    }
}

/// Something to do with a backend of whatever type.
pub(crate) trait Visitor {
    type Output;

    fn visit<B: Profiled>(self, backend: B) -> Self::Output;
}

/// Cuts the model's longest context down to `--context`.
pub(crate) fn limit_context(options: &GlobalOptions, checkpoint: &mut Checkpoint) -> Result<()> {
    let longest = &mut checkpoint.config.max_position_embeddings;
    match options.context() {
        Some(wanted) if wanted > *longest => Err(Advice::usage(
            format!("--context {wanted} is more than the model was made for"),
            format!("its longest context is {longest} tokens"),
        )
        .into()),
        Some(wanted) => {
            *longest = wanted;
            Ok(())
        }
        None => Ok(()),
    }
}

/// Loads the model onto the backend that the options name, and hands it to `visitor`.
pub(crate) fn visit<V: Visitor>(
    options: &GlobalOptions,
    checkpoint: &Checkpoint,
    visitor: V,
) -> Result<V::Output> {
    match options.backend {
        BackendChoice::Cpu => {
            let cpu = CpuOptions {
                threads: options.threads(),
                precision: options.precision.map_or_else(Precision::default, precision),
                max_context: options.context(),
                ..CpuOptions::default()
            };
            let backend =
                CpuBackend::new(checkpoint, &cpu).context("cannot load the model onto the CPU backend")?;
            Ok(visitor.visit(backend))
        }
        BackendChoice::Reference => match options.precision {
            Some(PrecisionChoice::Int8 | PrecisionChoice::Bf16) => {
                Err(Advice::usage("the reference computes in f32 only", "leave --precision away").into())
            }
            None | Some(PrecisionChoice::F32) => Ok(visitor.visit(ReferenceBackend::new(checkpoint))),
        },
    }
}

fn precision(choice: PrecisionChoice) -> Precision {
    match choice {
        PrecisionChoice::Int8 => Precision::Int8,
        PrecisionChoice::Bf16 => Precision::Bf16,
        PrecisionChoice::F32 => Precision::F32,
    }
}

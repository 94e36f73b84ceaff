//! The backends behind `--backend`, as one generic call.

use crate::{
    cli::{BackendChoice, GlobalOptions, PrecisionChoice, WeightsChoice},
    failure::Advice,
};
use anyhow::{Context, Result};
use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, Precision, Profile, ReferenceBackend, WeightMemory};
use lily_engine::Backend;
use lily_gpu::{Device, GpuBackend, GpuError, GpuOptions, weights::WeightRoute};
use std::sync::Arc;

/// A backend that can tell what its operations cost.
pub(crate) trait Profiled: Backend {
    /// Starts collecting; false if this backend does not.
    fn start_profile(&mut self) -> bool;

    /// What was collected since.
    fn take_profile(&mut self) -> Option<Profile>;

    /// The backend as one on a GPU, if it is.
    fn gpu(&mut self) -> Option<&mut GpuBackend> {
        None
    }

    /// Waits until nothing is under way, so that a clock can start.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
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

impl Profiled for GpuBackend {
    fn start_profile(&mut self) -> bool {
        false
    }

    fn take_profile(&mut self) -> Option<Profile> {
        None
    }

    fn gpu(&mut self) -> Option<&mut GpuBackend> {
        Some(self)
    }

    fn settle(&mut self) -> Result<()> {
        Ok(Self::settle(self)?)
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
    let choice = match options.backend {
        BackendChoice::Auto => auto(),
        BackendChoice::Cpu => Choice::Cpu,
        BackendChoice::Cuda => Choice::Gpu(cuda_device().context("cannot use CUDA")?),
        BackendChoice::Metal => Choice::Gpu(metal_device().context("cannot use Metal")?),
        BackendChoice::Reference => Choice::Reference,
    };
    match choice {
        Choice::Cpu => {
            let cpu = CpuOptions {
                threads: options.threads(),
                precision: options.precision.map_or_else(Precision::default, precision),
                weights: weights(options.weights),
                max_context: options.context(),
                ..CpuOptions::default()
            };
            let backend =
                CpuBackend::new(checkpoint, &cpu).context("cannot load the model onto the CPU backend")?;
            Ok(visitor.visit(backend))
        }
        Choice::Gpu(device) => match options.precision {
            Some(PrecisionChoice::Int8 | PrecisionChoice::F32) => {
                Err(Advice::usage("the GPU computes with bf16 activations only", "leave --precision away")
                    .into())
            }
            None | Some(PrecisionChoice::Bf16) => {
                let weights = match options.weights {
                    None | Some(WeightsChoice::Mapped) => WeightRoute::Mapped,
                    Some(WeightsChoice::Resident) => WeightRoute::Arena,
                };
                let gpu = GpuOptions { max_context: options.context(), weights, ..GpuOptions::default() };
                let backend = GpuBackend::new(device, checkpoint, &gpu)
                    .context("cannot load the model onto the GPU")?;
                Ok(visitor.visit(backend))
            }
        },
        Choice::Reference => {
            check_reference(options)?;
            let backend = ReferenceBackend::new(checkpoint);
            Ok(visitor.visit(match options.context() {
                Some(limit) => backend.with_max_context(limit),
                None => backend,
            }))
        }
    }
}

/// That nothing is asked of the reference which it would not heed.
fn check_reference(options: &GlobalOptions) -> Result<()> {
    let refused = |what: &str, name: &str| Err(Advice::usage(what, format!("leave {name} away")).into());
    if matches!(options.precision, Some(PrecisionChoice::Int8 | PrecisionChoice::Bf16)) {
        return refused("the reference computes in f32 only", "--precision");
    }
    if options.weights.is_some() {
        return refused("the reference reads weights where they are, and keeps none", "--weights");
    }
    if options.threads().is_some() {
        return refused("the reference computes on all cores", "--threads");
    }
    Ok(())
}

/// A backend, with the device that was opened for it.
enum Choice {
    Cpu,
    Gpu(Arc<dyn Device>),
    Reference,
}

/// The machine's GPU where it can be had, else the CPU; says which.
fn auto() -> Choice {
    let device = if cfg!(target_os = "macos") { metal_device() } else { cuda_device() };
    match device {
        Ok(device) => {
            tracing::info!(device = device.describe(), "--backend auto chose the GPU");
            Choice::Gpu(device)
        }
        Err(error) => {
            tracing::info!("--backend auto chose the CPU: {error}");
            Choice::Cpu
        }
    }
}

#[cfg(not(target_os = "macos"))]
fn cuda_device() -> Result<Arc<dyn Device>, GpuError> {
    use lily_gpu::device::{CudaDevice, CudaOptions};
    Ok(Arc::new(CudaDevice::new(&CudaOptions::default())?))
}

#[cfg(target_os = "macos")]
fn cuda_device() -> Result<Arc<dyn Device>, GpuError> {
    Err(GpuError::Unavailable {
        what: "there is no CUDA on macOS".to_owned(),
        hint: "use --backend metal".to_owned(),
    })
}

#[cfg(target_os = "macos")]
fn metal_device() -> Result<Arc<dyn Device>, GpuError> {
    use lily_gpu::device::{MetalDevice, MetalOptions};
    Ok(Arc::new(MetalDevice::new(&MetalOptions::default())?))
}

#[cfg(not(target_os = "macos"))]
fn metal_device() -> Result<Arc<dyn Device>, GpuError> {
    Err(GpuError::Unavailable {
        what: "there is no Metal outside macOS".to_owned(),
        hint: "use --backend cuda on an NVIDIA GPU, or --backend cpu".to_owned(),
    })
}

fn weights(choice: Option<WeightsChoice>) -> WeightMemory {
    match choice {
        None | Some(WeightsChoice::Mapped) => WeightMemory::Mapped,
        Some(WeightsChoice::Resident) => WeightMemory::Resident,
    }
}

fn precision(choice: PrecisionChoice) -> Precision {
    match choice {
        PrecisionChoice::Int8 => Precision::Int8,
        PrecisionChoice::Bf16 => Precision::Bf16,
        PrecisionChoice::F32 => Precision::F32,
    }
}

//! The backends behind `--backend`, as one generic call.

use crate::{
    cli::{BackendChoice, GlobalOptions, PrecisionChoice},
    failure::Advice,
};
use anyhow::Result;
use lily_checkpoint::Checkpoint;
use lily_cpu::ReferenceBackend;
use lily_engine::Backend;

/// Something to do with a backend of whatever type.
pub(crate) trait Visitor {
    type Output;

    fn visit<B: Backend>(self, backend: B) -> Self::Output;
}

/// Cuts the model's longest context down to `--context`.
pub(crate) fn limit_context(options: &GlobalOptions, checkpoint: &mut Checkpoint) -> Result<()> {
    let longest = &mut checkpoint.config.max_position_embeddings;
    match options.context.map(std::num::NonZeroUsize::get) {
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
        BackendChoice::Reference => match options.precision {
            Some(PrecisionChoice::Int8 | PrecisionChoice::Bf16) => {
                Err(Advice::usage("the reference computes in f32 only", "leave --precision away").into())
            }
            None | Some(PrecisionChoice::F32) => Ok(visitor.visit(ReferenceBackend::new(checkpoint))),
        },
    }
}

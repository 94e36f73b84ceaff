//! Which experts a pass went to: for comparing with another path along the same experts.

use crate::{Device, GpuError, Pass, Recording};

/// Experts chosen by each layer for each row, while switched on.
#[derive(Debug, Default)]
pub(super) struct Trace {
    per_token: usize,
    /// `[calls][layers][rows * per_token]`.
    pub(super) passes: Vec<Vec<Vec<u32>>>,
}

/// Entry points that write the choice of a layer, with the argument that holds it: the ids first.
const CHOOSERS: [(&str, &str); 3] =
    [("expert_gate_up", "routes"), ("route_top_k", "ids"), ("top_experts", "routes")];

impl Trace {
    pub(super) fn new(per_token: usize) -> Self {
        Self { per_token, passes: Vec::new() }
    }

    /// Runs a recording dispatch by dispatch and keeps what the routers choose for `rows` rows.
    pub(super) fn run(
        &mut self,
        device: &dyn Device,
        recording: &Recording,
        rows: usize,
    ) -> Result<(), GpuError> {
        let mut layers = Vec::new();
        for step in recording.steps() {
            device.run(&step, Pass::Serial)?;
            let dispatch = &step.dispatches()[0];
            let (entry, signature) = (dispatch.kernel.entry(), dispatch.kernel.signature());
            let Some((_, name)) = CHOOSERS.iter().find(|(chooser, _)| *chooser == entry) else { continue };
            let at = signature.bindings.iter().position(|binding| binding.name == *name);
            let Some(bound) = at.map(|at| &dispatch.bindings[at]) else { continue };
            let mut bytes = vec![0; rows * self.per_token * 4];
            device.download(&bound.view, &mut bytes)?;
            layers
                .push(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect());
        }
        self.passes.push(layers);
        Ok(())
    }

    /// `[positions, layers, per_token]`, in the order of the calls.
    pub(super) fn experts(&self) -> Vec<usize> {
        let mut experts = Vec::new();
        for layers in &self.passes {
            let rows = layers.first().map_or(0, |layer| layer.len() / self.per_token.max(1));
            for row in 0..rows {
                for layer in layers {
                    let chosen = &layer[row * self.per_token..(row + 1) * self.per_token];
                    experts.extend(chosen.iter().map(|&expert| expert as usize));
                }
            }
        }
        experts
    }
}

#[cfg(test)]
mod tests {
    use super::Trace;

    #[test]
    fn positions_then_layers() {
        // Two calls: of two rows and of one; two layers, one expert a token.
        let passes = vec![vec![vec![1, 2], vec![10, 20]], vec![vec![3], vec![30]]];
        let trace = Trace { per_token: 1, passes };
        assert_eq!(trace.experts(), [1, 10, 2, 20, 3, 30]);
    }
}

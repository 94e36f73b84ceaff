//! A checkpoint's files as a device reads them itself, without a copy.

use super::arena::one_run;
use crate::{Buffer, Device, GpuError};
use lily_checkpoint::{Bytes, Checkpoint, LayerWeights, Matrix, MixerWeights};

/// Where kernels may begin to read: they take 16 bytes at a time.
const ALIGNMENT: usize = 16;

/// Files, and the buffers over them.
pub(super) struct MappedFiles {
    files: Vec<(Bytes, Buffer)>,
}

impl MappedFiles {
    /// Has the device read a checkpoint's files itself; or why it cannot: it does not read memory of others, or a matrix of a
    /// file does not lie as kernels read it.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn of(checkpoint: &Checkpoint, device: &dyn Device) -> Result<Result<Self, String>, GpuError> {
        let mut wholes: Vec<Bytes> = Vec::new();
        for (name, parts) in matrices(checkpoint) {
            for tensors in parts {
                let Some(run) = one_run(tensors.iter().copied()) else {
                    return Ok(Err(format!("{name} is not one run of bytes")));
                };
                let (whole, offset) = run.whole();
                if !offset.is_multiple_of(ALIGNMENT) {
                    return Ok(Err(format!(
                        "{name} begins at byte {offset} of its file, not a multiple of {ALIGNMENT}"
                    )));
                }
                if !wholes.iter().any(|known| known.is_beside(&whole)) {
                    wholes.push(whole);
                }
            }
        }
        let mut files = Vec::with_capacity(wholes.len());
        for (number, whole) in wholes.into_iter().enumerate() {
            match device.wrap(&whole, &format!("weights, file {}", number + 1))? {
                Some(buffer) => files.push((whole, buffer)),
                None => return Ok(Err("the device does not read these files without a copy".to_owned())),
            }
        }
        Ok(Ok(Self { files }))
    }

    /// Number of the file and first byte in it, of what may be read there.
    pub(super) fn find(&self, run: &Bytes) -> Option<(usize, usize)> {
        let (whole, offset) = run.whole();
        let number = self.files.iter().position(|(file, _)| file.is_beside(&whole))?;
        offset.is_multiple_of(ALIGNMENT).then_some((number, offset))
    }

    pub(super) fn buffer(&self, number: usize) -> &Buffer {
        &self.files[number].1
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|(file, _)| file.len() as u64).sum()
    }
}

/// The matrices that make up a model's weight but for a few percent, each as the runs that a kernel binds: embedding, head,
/// experts, projections out of the mixers. What is joined from several tensors (projections into the mixers, routers) is copied
/// on every route.
fn matrices(checkpoint: &Checkpoint) -> Vec<(String, Vec<Vec<&Bytes>>)> {
    let weights = &checkpoint.weights;
    let mut found = vec![("embed_tokens".to_owned(), runs(&[&weights.embed_tokens]))];
    if !checkpoint.config.tie_word_embeddings {
        found.push(("lm_head".to_owned(), runs(&[&weights.lm_head])));
    }
    for (index, LayerWeights { mixer, moe, .. }) in weights.layers.iter().enumerate() {
        let out_proj = match mixer {
            MixerWeights::GatedDeltaNet(w) => &w.out_proj,
            MixerWeights::Attention(w) => &w.o_proj,
        };
        let name = |part: &str| format!("layers.{index}.{part}");
        found.push((name("the mixer's out_proj"), runs(&[out_proj])));
        for (part, bank) in
            [("gate_proj", &moe.gate_proj), ("up_proj", &moe.up_proj), ("down_proj", &moe.down_proj)]
        {
            let matrices: Vec<&Matrix> = bank.experts.iter().collect();
            found.push((name(&format!("mlp.experts.{part}")), runs(&matrices)));
        }
        found.push((name("mlp.shared_expert.down_proj"), runs(&[&moe.shared_down_proj])));
    }
    found
}

/// Codes, scales and biases of matrices that are stacked.
fn runs<'a>(matrices: &[&'a Matrix]) -> Vec<Vec<&'a Bytes>> {
    let mut runs = vec![Vec::new(), Vec::new(), Vec::new()];
    for matrix in matrices {
        match matrix {
            Matrix::Affine(matrix) => {
                runs[0].push(&matrix.codes.bytes);
                runs[1].push(&matrix.scales.bytes);
                runs[2].push(&matrix.biases.bytes);
            }
            Matrix::Dense(matrix) => runs[0].push(&matrix.data.bytes),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

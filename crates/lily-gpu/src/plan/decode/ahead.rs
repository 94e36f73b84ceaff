//! Weights of launches to come, brought near by launches that wait for little else ("prefetch-weights"): a hint to the cache,
//! on devices that take one.

use super::Step;
use crate::{
    Optimisation, View,
    weights::{LayerWeights, MatrixGroup, MatrixView, MixerWeights},
};
use lily_kernels::Platform;

/// Most that is brought near of the head, which follows the last layer: what a cache holds of it until then.
const HEAD: usize = 16 << 20;

/// What a launch is to bring near.
pub(super) struct Ahead {
    /// Something to bind, also if there is nothing to bring.
    pub(super) view: View,
    /// Words from its start; 0 is nothing.
    pub(super) words: usize,
}

impl Ahead {
    fn all(view: View) -> Self {
        Self { words: view.bytes() / 4, view }
    }

    fn nothing(view: View) -> Self {
        Self { view, words: 0 }
    }

    /// One half of a run, at a multiple of what a hint covers.
    fn half(view: &View, second: bool) -> Self {
        let middle = view.bytes() / 2 / 256 * 256;
        let part = if second { view.slice(middle, view.bytes() - middle) } else { view.slice(0, middle) };
        Self::all(part)
    }
}

/// From the first matrix's codes to the last one's biases, if they lie so in one buffer.
fn run(first: &MatrixView, last: &MatrixView) -> Option<View> {
    let (start, end) = (first.codes.range().start, last.biases.range().end.max(last.codes.range().end));
    let one = first.codes.buffer().id() == last.biases.buffer().id();
    (one && start < end).then(|| first.codes.buffer().view(start, end - start))
}

fn run_of_groups(first: &MatrixGroup, last: &MatrixGroup) -> Option<View> {
    run(&first.segments.first()?.1, &last.segments.last()?.1)
}

impl Step<'_> {
    fn bring(&self, what: Option<Ahead>, otherwise: &MatrixView) -> Ahead {
        what.filter(|_| self.wants_ahead()).unwrap_or_else(|| Ahead::nothing(otherwise.codes.clone()))
    }

    /// Words of codes and of scales of one expert's `rows` rows, which its way in brings near for its way out; zeros where
    /// that is not wanted.
    pub(super) fn expert_words_ahead(&self, w: &MatrixView, rows: usize) -> [usize; 2] {
        let words = [rows * w.format.code_bytes(w.cols) / 4, rows * w.format.scale_bytes(w.cols) / 4];
        if self.wants_ahead() { words } else { [0, 0] }
    }

    fn wants_ahead(&self) -> bool {
        let device = self.model.device.platform();
        self.model.switches.has(Optimisation::PrefetchWeights) && device == Platform::Cuda
    }

    /// During the state step, or where attention's blocks are joined: the projection out of the mixer.
    pub(super) fn ahead_of_out_proj(&self, out_proj: &MatrixView) -> Ahead {
        self.bring(run(out_proj, out_proj).map(Ahead::all), out_proj)
    }

    /// During the projection out of the mixer: router and shared expert.
    pub(super) fn ahead_of_router(&self, layer: &LayerWeights, own: &MatrixView) -> Ahead {
        self.bring(run_of_groups(&layer.moe.router, &layer.moe.shared_in).map(Ahead::all), own)
    }

    /// During the router (first half) and the experts' way out (second): what the next layer starts with, or the head.
    pub(super) fn ahead_of_next(&self, second: bool, own: &MatrixView) -> Ahead {
        let weights = &self.model.weights;
        let next = match weights.layers.get(self.layer + 1).map(|layer| &layer.mixer) {
            Some(MixerWeights::Gdn(w)) => run_of_groups(&w.in_proj, &w.in_proj),
            Some(MixerWeights::Attention(w)) => run_of_groups(&w.in_proj, &w.in_proj),
            None => {
                let codes = &weights.lm_head.codes;
                Some(codes.slice(0, codes.bytes().min(HEAD)))
            }
        };
        self.bring(next.map(|next| Ahead::half(&next, second)), own)
    }
}

//! The buffers of a forward pass over some rows. They grow with the rows of a call, never with the context.

use crate::{
    attention::Partials,
    input::Input,
    model::{Mixer, Model},
    rotary::Rotary,
    router::Routing,
    state::zeros,
};
use lily_engine::BackendError;

/// Buffers for up to `rows` rows.
pub(crate) struct Buffers {
    rows: usize,
    /// Residual stream, `[rows][hidden]`.
    pub x: Vec<f32>,
    /// Normed rows, input of everything of hidden width.
    pub hidden: Input,
    /// Outputs of a mixer's input projections.
    pub projected: Vec<f32>,
    /// Inputs of the output projections of Gated DeltaNet and of attention.
    pub mixed: [Input; 2],
    /// Inputs of the routed experts' down projections, one row per route.
    pub inner: Input,
    /// Inputs of the shared expert's down projection.
    pub shared: Input,
    /// Weight of the shared expert per row.
    pub shared_gate: Vec<f32>,
    /// Routes.
    pub routing: Routing,
    /// Rotary angles per row.
    pub angles: Vec<f32>,
    /// Positions per row.
    pub positions: Vec<usize>,
    /// Partial softmaxes of decode.
    pub partials: Partials,
    /// Logits of rows that have no place of their own.
    pub logits: Vec<f32>,
}

impl Buffers {
    /// Buffers for `rows` rows.
    pub(crate) fn new(model: &Model, rotary: &Rotary, rows: usize) -> Result<Self, BackendError> {
        let (config, moe) = (&model.config, &model.config.moe);
        let gdn = config.gated_delta_net.value_heads * config.gated_delta_net.value_head_dim;
        let attention = config.attention.heads * config.attention.head_dim;
        let in_proj = |mixer: &Mixer| match mixer {
            Mixer::Gdn(gdn) => gdn.in_proj.rows,
            Mixer::Attention(attention) => attention.in_proj.rows,
        };
        let projected = model.layers.iter().map(|layer| in_proj(&layer.mixer)).max().unwrap_or(0);
        Ok(Self {
            rows,
            x: zeros(rows * config.hidden_size)?,
            hidden: Input::new(rows, config.hidden_size, &model.hidden_forms)?,
            projected: zeros(rows * projected)?,
            mixed: [
                Input::new(rows, gdn, &model.mixed_forms[0])?,
                Input::new(rows, attention, &model.mixed_forms[1])?,
            ],
            inner: Input::new(rows * moe.experts_per_token, moe.inner, &model.inner_forms)?,
            shared: Input::new(rows, moe.shared_inner, &model.shared_forms)?,
            shared_gate: zeros(rows)?,
            routing: Routing::default(),
            angles: zeros(rows * rotary.width())?,
            positions: vec![0; rows],
            partials: Partials::default(),
            logits: Vec::new(),
        })
    }

    /// Rows there is room for.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
}

//! The buffers of a forward pass over some rows. They grow with the rows of a call, never with the context.

use crate::{
    activations::Product,
    attention::Partials,
    input::Input,
    model::{Mixer, Model},
    rotary::Rotary,
    router::Routing,
    state::zeros,
};
use lily_engine::BackendError;

/// Buffers for up to `rows` rows, for products with single vectors (decode) or with many (prefill).
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
    /// 0, 1, 2, ...: every row of an input.
    pub identity: Vec<u32>,
    /// Rotary angles per row.
    pub angles: Vec<f32>,
    /// Positions per row.
    pub positions: Vec<usize>,
    /// Partial softmaxes of decode.
    pub partials: Partials,
}

impl Buffers {
    /// Buffers for `rows` rows.
    pub(crate) fn new(
        model: &Model,
        rotary: &Rotary,
        rows: usize,
        product: Product,
    ) -> Result<Self, BackendError> {
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
            hidden: Input::new(rows, config.hidden_size, &model.hidden_forms, product)?,
            projected: zeros(rows * projected)?,
            mixed: [
                Input::new(rows, gdn, &model.mixed_forms[0], product)?,
                Input::new(rows, attention, &model.mixed_forms[1], product)?,
            ],
            inner: Input::new(rows * moe.experts_per_token, moe.inner, &model.inner_forms, product)?,
            shared: Input::new(rows, moe.shared_inner, &model.shared_forms, product)?,
            shared_gate: zeros(rows)?,
            routing: Routing::default(),
            identity: (0..(rows * moe.experts_per_token) as u32).collect(),
            angles: zeros(rows * rotary.width())?,
            positions: vec![0; rows],
            partials: Partials::default(),
        })
    }

    /// Rows there is room for.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
}

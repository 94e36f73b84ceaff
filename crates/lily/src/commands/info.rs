//! `lily info`: what a checkpoint is.

use crate::{
    cli::{GlobalOptions, PrecisionChoice},
    memory::{self, count, human},
    model::ModelSource,
    printer::write_to,
    terminal::{Stream, Terminal},
};
use anyhow::Result;
use clap::Args;
use lily_checkpoint::{Checkpoint, Layout, Summary};
use serde_json::{Value, json};
use std::{fmt::Write, process::ExitCode};

const LONG: &str = "\
Show what a checkpoint is: dimensions, parameters, bytes per part, quantisation, the memory that a context needs, and \
what is odd about the folder. Reads headers only, no weights.";

/// Show what a checkpoint is
#[derive(Debug, Args)]
#[command(long_about = LONG)]
pub(crate) struct InfoArgs {
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &InfoArgs, options: &GlobalOptions, terminal: &Terminal) -> Result<ExitCode> {
    let source = ModelSource::locate(options.model.as_deref())?;
    let checkpoint = source.checkpoint()?;
    let info = Info {
        name: source.name(),
        place: source.place(),
        summary: checkpoint.summary(),
        contexts: contexts(&checkpoint, options),
        precision: options.precision,
        checkpoint,
    };
    let text = if args.json { format!("{}\n", info.json()) } else { info.table()? };
    write_to(Stream::Stdout, &terminal.foreign(Stream::Stdout, &text))?;
    Ok(ExitCode::SUCCESS)
}

/// The context lengths to tell the memory for: the one asked for, or some up to the model's longest.
fn contexts(checkpoint: &Checkpoint, options: &GlobalOptions) -> Vec<u64> {
    let longest = checkpoint.config.max_position_embeddings as u64;
    match options.context() {
        Some(context) => vec![context as u64],
        None => [4_096, 32_768, 131_072]
            .into_iter()
            .filter(|&context| context < longest)
            .chain([longest])
            .collect(),
    }
}

struct Info {
    name: String,
    place: String,
    checkpoint: Checkpoint,
    summary: Summary,
    contexts: Vec<u64>,
    precision: Option<PrecisionChoice>,
}

impl Info {
    /// Weights, KV rows and recurrent state of one sequence of this length.
    fn memory(&self, context: u64) -> (u64, u64, u64) {
        let config = &self.checkpoint.config;
        let kv = memory::kv_bytes_per_token(config, self.precision).saturating_mul(context);
        let state = memory::recurrent_bytes(config) + memory::conv_bytes(config);
        (self.summary.total().bytes, kv, state)
    }

    fn table(&self) -> Result<String> {
        let config = &self.checkpoint.config;
        let (attention, gdn, moe) = (&config.attention, &config.gated_delta_net, &config.moe);
        let total = self.summary.total();
        let attention_layers =
            config.layers.iter().filter(|&&kind| kind == lily_checkpoint::LayerKind::Attention).count();
        let mut out = String::new();
        writeln!(out, "{} ({})", self.name, self.place)?;
        writeln!(out)?;
        writeln!(
            out,
            "parameters   {} ({} used per token)",
            count(total.parameters),
            count(total.active_parameters)
        )?;
        writeln!(
            out,
            "layers       {}: {} Gated DeltaNet, {attention_layers} attention",
            config.layers.len(),
            config.layers.len() - attention_layers
        )?;
        writeln!(
            out,
            "width        hidden {}, vocabulary {}{}",
            config.hidden_size,
            config.vocab_size,
            if config.tie_word_embeddings { ", head tied to the embedding" } else { "" }
        )?;
        writeln!(
            out,
            "attention    {} query heads, {} KV heads of {}, {} of them rotated, theta {}",
            attention.heads,
            attention.kv_heads,
            attention.head_dim,
            attention.rotary_dim,
            attention.rope_theta
        )?;
        writeln!(
            out,
            "GDN          {} key heads of {}, {} value heads of {}, convolution of {}",
            gdn.key_heads, gdn.key_head_dim, gdn.value_heads, gdn.value_head_dim, gdn.conv_width
        )?;
        writeln!(
            out,
            "experts      {} of {} per token, inner {}; shared inner {}",
            moe.experts_per_token, moe.experts, moe.inner, moe.shared_inner
        )?;
        writeln!(out, "context      {} tokens", config.max_position_embeddings)?;
        writeln!(out, "layout       {}", layout_name(self.checkpoint.layout))?;

        writeln!(out, "\n{:<20}{:>12}{:>12}{:>18}", "part", "parameters", "bytes", "read per token")?;
        for (part, size) in self.summary.parts.iter().filter(|(_, size)| size.active_bytes > 0) {
            writeln!(
                out,
                "{part:<20}{:>12}{:>12}{:>18}",
                count(size.parameters),
                human(size.bytes),
                human(size.active_bytes)
            )?;
        }
        writeln!(
            out,
            "{:<20}{:>12}{:>12}{:>18}",
            "sum",
            count(total.parameters),
            human(total.bytes),
            human(total.active_bytes)
        )?;

        writeln!(out, "\n{:<20}{:>12}{:>12}", "matrices stored as", "parameters", "bytes")?;
        for (storage, size) in &self.summary.storage {
            writeln!(
                out,
                "{:<20}{:>12}{:>12}",
                storage.to_string(),
                count(size.parameters),
                human(size.bytes)
            )?;
        }

        writeln!(
            out,
            "\n{:<20}{:>12}{:>12}{:>12}{:>12}",
            "memory for a context", "weights", "KV cache", "state", "sum"
        )?;
        for &context in &self.contexts {
            let (weights, kv, state) = self.memory(context);
            let sum = weights.saturating_add(kv).saturating_add(state);
            writeln!(
                out,
                "{:<20}{:>12}{:>12}{:>12}{:>12}",
                format!("{context} tokens"),
                human(weights),
                human(kv),
                human(state),
                human(sum)
            )?;
        }
        for warning in &self.checkpoint.warnings {
            writeln!(out, "\nwarning: {warning}")?;
        }
        Ok(out)
    }

    fn json(&self) -> Value {
        let config = &self.checkpoint.config;
        let (attention, gdn, moe) = (&config.attention, &config.gated_delta_net, &config.moe);
        let size = |size: &lily_checkpoint::Size| {
            json!({
                "tensors": size.tensors,
                "parameters": size.parameters,
                "bytes": size.bytes,
                "parameters_per_token": size.active_parameters,
                "bytes_per_token": size.active_bytes,
            })
        };
        let layers = config.layers.iter().map(|kind| match kind {
            lily_checkpoint::LayerKind::Attention => "full_attention",
            lily_checkpoint::LayerKind::GatedDeltaNet => "linear_attention",
        });
        let memory = self.contexts.iter().map(|&context| {
            let (weights, kv, state) = self.memory(context);
            json!({"context": context, "weights": weights, "kv_cache": kv, "state": state, "sum": weights.saturating_add(kv).saturating_add(state)})
        });
        json!({
            "name": self.name,
            "place": self.place,
            "layout": layout_name(self.checkpoint.layout),
            "config": {
                "layers": layers.collect::<Vec<_>>(),
                "hidden_size": config.hidden_size,
                "vocab_size": config.vocab_size,
                "max_context": config.max_position_embeddings,
                "tie_word_embeddings": config.tie_word_embeddings,
                "attention": {
                    "heads": attention.heads,
                    "kv_heads": attention.kv_heads,
                    "head_dim": attention.head_dim,
                    "rotary_dim": attention.rotary_dim,
                    "rope_theta": attention.rope_theta,
                },
                "gated_delta_net": {
                    "key_heads": gdn.key_heads,
                    "value_heads": gdn.value_heads,
                    "key_head_dim": gdn.key_head_dim,
                    "value_head_dim": gdn.value_head_dim,
                    "conv_width": gdn.conv_width,
                },
                "experts": {
                    "count": moe.experts,
                    "per_token": moe.experts_per_token,
                    "inner": moe.inner,
                    "shared_inner": moe.shared_inner,
                },
            },
            "total": size(&self.summary.total()),
            "parts": self.summary.parts.iter().map(|(part, s)| (part.to_string(), size(s))).collect::<serde_json::Map<_, _>>(),
            "storage": self.summary.storage.iter().map(|(storage, s)| (storage.to_string(), size(s))).collect::<serde_json::Map<_, _>>(),
            "memory": memory.collect::<Vec<_>>(),
            "warnings": self.checkpoint.warnings,
        })
    }
}

fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Mlx => "converted for MLX",
        Layout::HuggingFace => "Hugging Face",
    }
}

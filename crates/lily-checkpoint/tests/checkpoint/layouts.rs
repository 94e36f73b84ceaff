//! Raw and converted layouts, prefixes, alignment.

use crate::support::{Draft, Tensor, Tiny, assert_says};
use lily_checkpoint::{Checkpoint, Layout, Matrix, MixerWeights};
use serde_json::json;

/// Every value of a model, in one list.
fn values(checkpoint: &Checkpoint) -> Vec<f32> {
    fn matrices(out: &mut Vec<f32>, matrices: &[&Matrix]) {
        for matrix in matrices {
            for row in 0..matrix.rows() {
                let start = out.len();
                out.resize(start + matrix.cols(), f32::NAN);
                matrix.dequantize_row(row, &mut out[start..]);
            }
        }
    }
    let (weights, mut all) = (&checkpoint.weights, Vec::new());
    let out = &mut all;
    matrices(out, &[&weights.embed_tokens, &weights.lm_head]);
    out.extend(&weights.norm);
    for layer in &weights.layers {
        out.extend(layer.input_layernorm.iter().chain(&layer.post_attention_layernorm));
        match &layer.mixer {
            MixerWeights::GatedDeltaNet(m) => {
                matrices(out, &[&m.in_proj_qkv, &m.in_proj_z, &m.in_proj_b, &m.in_proj_a, &m.out_proj]);
                out.extend(m.conv1d.iter().chain(&m.a_log).chain(&m.dt_bias).chain(&m.norm));
            }
            MixerWeights::Attention(m) => {
                matrices(out, &[&m.q_proj, &m.k_proj, &m.v_proj, &m.o_proj]);
                out.extend(m.q_norm.iter().chain(&m.k_norm));
            }
        }
        let moe = &layer.moe;
        for bank in [&moe.gate_proj, &moe.up_proj, &moe.down_proj] {
            matrices(out, &bank.experts.iter().collect::<Vec<_>>());
        }
        matrices(out, &[&moe.gate, &moe.shared_expert_gate]);
        matrices(out, &[&moe.shared_gate_proj, &moe.shared_up_proj, &moe.shared_down_proj]);
    }
    all
}

fn renamed(draft: &Draft, rename: impl Fn(&str) -> String) -> Draft {
    let mut draft = draft.clone();
    for tensor in &mut draft.tensors {
        tensor.name = rename(&tensor.name);
    }
    draft
}

#[test]
fn raw_and_converted_hold_the_same_model() {
    let converted = Tiny::narrow().plain().open().unwrap();
    let raw = Tiny::narrow().raw().open().unwrap();
    assert_eq!((converted.layout, raw.layout), (Layout::Mlx, Layout::HuggingFace));
    assert_eq!(values(&converted), values(&raw));
    assert!(values(&raw).iter().all(|v| v.is_finite()));
}

#[test]
fn every_prefix() {
    let draft = Tiny::new().converted();
    let wanted = values(&draft.open().unwrap());
    for (model, head) in
        [("model.language_model.", "lm_head"), ("model.", "lm_head"), ("model.", "model.lm_head")]
    {
        let draft = renamed(&draft, |name| {
            name.replace("language_model.model.", model).replace("language_model.lm_head", head)
        });
        // The config's paths keep the prefix of the conversion: they mean the same modules.
        assert_eq!(values(&draft.open().unwrap()), wanted);
    }
}

#[test]
fn any_alignment_and_any_number_of_files() {
    let mut draft = Tiny::new().converted();
    let wanted = values(&draft.open().unwrap());
    for (unpadded, shards) in [(false, 1), (true, 5), (false, 5)] {
        (draft.unpadded, draft.shards) = (unpadded, shards);
        let folder = tempfile::tempdir().unwrap();
        draft.write(folder.path());
        let opened = Checkpoint::open(folder.path()).unwrap();
        assert_eq!(values(&opened), wanted);
        assert_eq!(opened.folder(), Some(folder.path()));
        let Matrix::Affine(embedding) = &opened.weights.embed_tokens else { panic!("quantised") };
        let odd = embedding.codes.bytes.as_ptr() as usize % 2 == 1;
        assert_eq!(odd, unpadded, "the test is about odd addresses");
    }
}

#[test]
fn mixed_layouts_are_refused() {
    let mut draft = Tiny::narrow().plain();
    draft.tensor("layers.1.linear_attn.conv1d.weight").shape.swap(1, 2);
    let text = draft.refusal();
    assert_says(
        &text,
        &["mixed layouts", "layers.0.linear_attn.conv1d.weight", "layers.1.linear_attn.conv1d.weight"],
    );
    let mut draft = Tiny::narrow().plain();
    draft.tensor("layers.1.linear_attn.conv1d.weight").shape.swap(0, 2);
    assert_says(&draft.refusal(), &["[1, 4, 32]", "[32, 4, 1] or [32, 1, 4]"]);
    // A width that looks like either layout.
    let mut draft = Tiny::narrow().plain();
    draft.config["text_config"]["linear_conv_kernel_dim"] = json!(1);
    assert_says(&draft.refusal(), &["linear_conv_kernel_dim", "found 1"]);
}

#[test]
fn missing_tensors_are_all_listed() {
    let mut draft = Tiny::new().converted();
    draft.drop("layers.2.linear_attn.A_log");
    draft.drop("layers.0.mlp.gate.scales");
    draft.drop("layers.1.mlp.switch_mlp.up_proj.biases");
    draft.drop("layers.3.self_attn.q_norm.weight");
    assert_says(
        &draft.refusal(),
        &[
            "4 tensors missing",
            "layers.2.linear_attn.A_log",
            "layers.0.mlp.gate.scales",
            "layers.1.mlp.switch_mlp.up_proj.biases",
            "layers.3.self_attn.q_norm.weight",
        ],
    );
    let mut draft = Tiny::narrow().raw();
    draft.drop("layers.0.mlp.experts.gate_up_proj");
    draft.drop("layers.1.mlp.experts.down_proj");
    assert_says(&draft.refusal(), &["layers.0.mlp.experts.gate_up_proj", "layers.1.mlp.experts.down_proj"]);
    // All weights of a layer: no long list.
    let mut draft = Tiny::new().converted();
    draft.tensors.retain(|t| !t.name.contains("layers.1."));
    assert_says(&draft.refusal(), &["tensors missing", " and ", " more"]);
}

#[test]
fn wrong_shapes_are_refused_with_both() {
    for (tensor, field, value, says) in [
        ("norm.weight", "hidden_size", 256, ["[128]", "[256]"]),
        ("embed_tokens.weight", "vocab_size", 32, ["[24, 16]", "[32, 16]"]),
        ("switch_mlp.gate_proj.weight", "num_experts", 5, ["[3, 128, 16]", "[5, 128, 16]"]),
        ("q_proj.weight", "num_attention_heads", 4, ["[256, 16]", "[512, 16]"]),
        ("A_log", "linear_num_value_heads", 2, ["[3]", "[2]"]),
    ] {
        let mut draft = Tiny::new().converted();
        if tensor == "A_log" {
            *draft.tensor(tensor) =
                Tensor::floats("language_model.model.layers.2.linear_attn.A_log", "F32", &[3], &[0.0; 3]);
        } else {
            draft.config["text_config"][field] = json!(value);
        }
        if field == "hidden_size" {
            // The first tensor that differs is the embedding; shapes are checked in the model's order.
            assert_says(&draft.refusal(), &["embed_tokens.weight", "[24, 16]", "[24, 32]"]);
            continue;
        }
        assert_says(&draft.refusal(), &says);
        assert_says(&draft.refusal(), &[tensor, "model.safetensors"]);
    }
    let mut draft = Tiny::narrow().raw();
    draft.tensor("experts.gate_up_proj").shape.swap(1, 2);
    assert_says(&draft.refusal(), &["experts.gate_up_proj", "[3, 16, 24]", "[3, 24, 16]"]);
}

#[test]
fn one_tensor_under_two_names_is_refused() {
    let mut draft = Tiny::new().converted();
    draft.tensors.push(Tensor::zeros("model.norm.weight", "BF16", &[128], 2));
    assert_says(
        &draft.refusal(),
        &["the same tensor twice", "`language_model.model.norm.weight`", "`model.norm.weight`"],
    );
    // Experts both apart and fused.
    let mut draft = Tiny::narrow().plain();
    draft.tensors.push(Tensor::zeros("model.layers.0.mlp.experts.down_proj", "BF16", &[3, 16, 12], 2));
    assert_says(&draft.refusal(), &["unknown tensor", "switch_mlp"]);
}

#[test]
fn weights_of_a_type_without_meaning_are_refused() {
    for (end, dtype, says) in
        [("norm.weight", "I64", "I64"), ("layers.0.mlp.gate.scales", "U8", "U8"), ("A_log", "F64", "F64")]
    {
        let mut draft = Tiny::new().converted();
        let tensor = draft.tensor(end);
        let size = if dtype == "U8" { 1 } else { 8 };
        *tensor = Tensor::zeros(tensor.name.clone(), dtype, &tensor.shape.clone(), size);
        assert_says(&draft.refusal(), &[end, says, "expected BF16, F16, F32"]);
    }
    let mut draft = Tiny::new().converted();
    draft.drop("layers.0.mlp.gate.scales");
    draft.drop("layers.0.mlp.gate.biases");
    draft.config["quantization"].as_object_mut().unwrap().remove("language_model.model.layers.0.mlp.gate");
    assert_says(&draft.refusal(), &["mlp.gate.weight", "U32", "need their `.scales`"]);
}

#[test]
fn layers_beyond_the_config() {
    let mut draft = Tiny { layers: 8, ..Tiny::new() }.converted();
    draft.config["text_config"]["num_hidden_layers"] = json!(4);
    assert_says(&draft.refusal(), &["unknown tensors", "layers.4.", "hint: config.json has 4 layers"]);
    let mut draft = Tiny::new().converted();
    draft.config["text_config"]["num_hidden_layers"] = json!(8);
    assert_says(&draft.refusal(), &["tensors missing", "layers.4."]);
}

#[test]
fn a_head_that_is_tied_and_stored() {
    let mut draft = Tiny::new().converted();
    draft.edit(&json!({ "tie_word_embeddings": true }));
    let checkpoint = draft.open().unwrap();
    assert_says(&checkpoint.warnings.join("\n"), &["`language_model.lm_head.weight` is not read"]);
}

/// Set `LILY_RAW_NANO` to a folder made by `tools/dequantise_nano.py --dtype f32` to compare it with nano itself.
#[test]
fn raw_nano() {
    let Ok(folder) = std::env::var("LILY_RAW_NANO") else {
        eprintln!("skipped: LILY_RAW_NANO is not set");
        return;
    };
    let raw = Checkpoint::open(folder.as_ref()).unwrap();
    let nano = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    let nano = Checkpoint::open(nano.as_ref()).unwrap();
    assert_eq!(raw.layout, Layout::HuggingFace);
    assert_eq!(raw.config, nano.config);
    assert!(values(&raw) == values(&nano));
}

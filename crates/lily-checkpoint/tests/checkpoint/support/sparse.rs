//! The full model's shapes without its weights.

use serde_json::{Map, Value, json};
use std::{fs, io::Write, path::Path};

/// A checkpoint of 19.5 GB, all holes: it takes no disk.
pub(crate) fn write_sparse(folder: &Path, layers: usize) {
    let (hidden, vocab, experts, inner) = (2048, 248_320, 256, 512);
    let mut tensors: Vec<(String, &str, Vec<usize>)> = Vec::new();
    let mut matrix = |name: String, shape: &[usize], bits: usize| {
        let (cols, lead) = shape.split_last().unwrap();
        let shape = |last: usize| lead.iter().copied().chain([last]).collect::<Vec<_>>();
        tensors.push((format!("{name}.weight"), "U32", shape(cols * bits / 32)));
        tensors.push((format!("{name}.scales"), "BF16", shape(cols / 64)));
        tensors.push((format!("{name}.biases"), "BF16", shape(cols / 64)));
    };
    let layer_name = |layer: usize| format!("language_model.model.layers.{layer}");
    matrix("language_model.model.embed_tokens".to_owned(), &[vocab, hidden], 4);
    matrix("language_model.lm_head".to_owned(), &[vocab, hidden], 4);
    for layer in 0..layers {
        let name = layer_name(layer);
        if layer % 4 == 3 {
            for (part, rows, cols) in
                [("q", 8192, 2048), ("k", 512, 2048), ("v", 512, 2048), ("o", 2048, 4096)]
            {
                matrix(format!("{name}.self_attn.{part}_proj"), &[rows, cols], 4);
            }
        } else {
            for (part, rows, cols) in [
                ("in_proj_qkv", 8192, 2048),
                ("in_proj_z", 4096, 2048),
                ("in_proj_b", 32, 2048),
                ("in_proj_a", 32, 2048),
                ("out_proj", 2048, 4096),
            ] {
                matrix(format!("{name}.linear_attn.{part}"), &[rows, cols], 4);
            }
        }
        matrix(format!("{name}.mlp.gate"), &[experts, hidden], 8);
        matrix(format!("{name}.mlp.shared_expert_gate"), &[1, hidden], 8);
        for (part, rows, cols) in
            [("gate_proj", inner, hidden), ("up_proj", inner, hidden), ("down_proj", hidden, inner)]
        {
            matrix(format!("{name}.mlp.switch_mlp.{part}"), &[experts, rows, cols], 4);
            matrix(format!("{name}.mlp.shared_expert.{part}"), &[rows, cols], 4);
        }
    }
    tensors.push(("language_model.model.norm.weight".to_owned(), "BF16", vec![hidden]));
    let mut quantization = json!({ "bits": 4, "group_size": 64 });
    for layer in 0..layers {
        let name = layer_name(layer);
        for module in ["gate", "shared_expert_gate"] {
            quantization[format!("{name}.mlp.{module}")] = json!({ "bits": 8 });
        }
        let mut vector = |part: &str, dtype, shape: &[usize]| {
            tensors.push((format!("{name}.{part}"), dtype, shape.to_vec()));
        };
        vector("input_layernorm.weight", "BF16", &[hidden]);
        vector("post_attention_layernorm.weight", "BF16", &[hidden]);
        if layer % 4 == 3 {
            vector("self_attn.q_norm.weight", "BF16", &[256]);
            vector("self_attn.k_norm.weight", "BF16", &[256]);
        } else {
            vector("linear_attn.conv1d.weight", "BF16", &[8192, 4, 1]);
            vector("linear_attn.A_log", "F32", &[32]);
            vector("linear_attn.dt_bias", "BF16", &[32]);
            vector("linear_attn.norm.weight", "BF16", &[128]);
        }
    }
    let config = json!({
        "model_type": "qwen3_5_moe", "quantization": quantization,
        "text_config": {
            "hidden_size": hidden, "vocab_size": vocab, "num_hidden_layers": layers, "full_attention_interval": 4,
            "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16,
            "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4, "num_experts": experts, "num_experts_per_tok": 8,
            "moe_intermediate_size": inner, "shared_expert_intermediate_size": inner, "rms_norm_eps": 1e-6,
            "max_position_embeddings": 262_144,
            "rope_parameters": { "rope_type": "default", "rope_theta": 10_000_000, "partial_rotary_factor": 0.25 },
        },
    });
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let per_file = tensors.len().div_ceil(4);
    for (number, tensors) in tensors.chunks(per_file).enumerate() {
        let (mut header, mut offset) = (Map::new(), 0);
        for (name, dtype, shape) in tensors {
            let end = offset + shape.iter().product::<usize>() * if *dtype == "BF16" { 2 } else { 4 };
            header.insert(
                name.clone(),
                json!({ "dtype": dtype, "shape": shape, "data_offsets": [offset, end] }),
            );
            offset = end;
        }
        let header = Value::Object(header).to_string();
        let mut file =
            fs::File::create(folder.join(format!("model-{:05}-of-00004.safetensors", number + 1))).unwrap();
        file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
        file.write_all(header.as_bytes()).unwrap();
        file.set_len((8 + header.len() + offset) as u64).unwrap();
    }
}

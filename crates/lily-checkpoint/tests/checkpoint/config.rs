//! `config.json` and `generation_config.json`, right and wrong.

use crate::support::{Tiny, assert_says};
use lily_checkpoint::{GenerationConfig, LayerKind, ModelConfig};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(config: &Value) -> Result<ModelConfig, String> {
    ModelConfig::from_json(config.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// A tiny config with fields of `text_config` changed (`null` removes).
fn with(fields: &Value) -> Result<ModelConfig, String> {
    let mut config = Tiny::new().config();
    for (name, value) in fields.as_object().unwrap() {
        config["text_config"][name] = value.clone();
    }
    read(&config)
}

#[test]
fn wrapper_and_flat_are_the_same() {
    let wrapper = Tiny::new().config();
    let mut flat = wrapper["text_config"].clone();
    flat["eos_token_id"] = json!([3, 2]);
    assert_eq!(read(&wrapper).unwrap(), read(&flat).unwrap());
    flat["model_type"] = json!("qwen3_5_moe");
    assert_eq!(read(&wrapper).unwrap(), read(&flat).unwrap());
    assert_eq!(read(&wrapper).unwrap().eos_token_ids, [3, 2]);
}

#[test]
fn accepted_spellings() {
    let plain = with(&json!({})).unwrap();
    assert_eq!(plain.attention.rotary_dim, 16);
    for same in [
        json!({ "rope_parameters": { "type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.25 } }),
        json!({ "rope_parameters": null, "rope_theta": 10000.0, "partial_rotary_factor": 0.25 }),
        json!({ "rope_parameters": null, "rope_scaling": null, "rope_theta": 10000 }),
        json!({ "rope_parameters": null, "rope_theta": 1e4, "rope_scaling": { "type": "mrope", "mrope_section": [1, 1, 2] } }),
        json!({ "rope_parameters": { "rope_type": "default", "type": "default", "rope_theta": 10000, "mrope_section": [3] } }),
        json!({ "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] }),
        json!({ "full_attention_interval": null,
                "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] }),
        json!({ "norm_topk_prob": true, "hidden_size": 128.0, "unknown": { "a": [] }, "mlp_only_layers": [] }),
        json!({ "attn_output_gate": null, "attention_bias": null, "hidden_act": null }),
        json!({ "model_type": null, "head_dim": null }),
    ] {
        assert_eq!(with(&same).unwrap(), plain, "{same}");
    }
    assert!(!with(&json!({ "norm_topk_prob": false })).unwrap().moe.norm_topk_prob);
    let layers = with(&json!({ "full_attention_interval": 2 })).unwrap().layers;
    use LayerKind::{Attention, GatedDeltaNet};
    assert_eq!(layers, [GatedDeltaNet, Attention, GatedDeltaNet, Attention]);
}

#[test]
fn refused_values_are_named() {
    let huge = 1_u64 << 40;
    for (fields, says) in [
        (json!({ "hidden_size": null }), ["text_config.hidden_size", "is missing"]),
        (json!({ "hidden_size": 0 }), ["text_config.hidden_size", "found 0"]),
        (json!({ "hidden_size": -1 }), ["text_config.hidden_size", "found -1"]),
        (json!({ "hidden_size": 2.5 }), ["text_config.hidden_size", "found 2.5"]),
        (json!({ "hidden_size": huge }), ["text_config.hidden_size", "found 1099511627776"]),
        (json!({ "hidden_size": 1e300 }), ["text_config.hidden_size", "found 1e+300"]),
        (json!({ "hidden_size": "128" }), ["text_config.hidden_size", "found \"128\""]),
        (json!({ "vocab_size": 0 }), ["vocab_size", "found 0"]),
        (json!({ "num_hidden_layers": 0 }), ["num_hidden_layers", "found 0"]),
        (json!({ "num_hidden_layers": huge }), ["num_hidden_layers", "found 1099511627776"]),
        (json!({ "full_attention_interval": 0 }), ["full_attention_interval", "found 0"]),
        (json!({ "full_attention_interval": 1 }), ["layer_types", "no linear_attention layer"]),
        (json!({ "full_attention_interval": null }), ["layer_types", "so is `full_attention_interval`"]),
        (json!({ "layer_types": ["linear_attention"] }), ["layer_types", "1 entries for 4 layers"]),
        (json!({ "layer_types": [0, 1, 2, 3] }), ["layer_types", "0 for layer 0"]),
        (json!({ "layer_types": "linear_attention" }), ["layer_types", "must be a list"]),
        (
            json!({ "layer_types": ["linear_attention", "sliding_attention", "linear_attention", "full_attention"] }),
            ["layer_types", "\"sliding_attention\" for layer 1"],
        ),
        (
            json!({ "num_attention_heads": 3, "num_key_value_heads": 2 }),
            ["num_key_value_heads", "does not divide the 3"],
        ),
        (json!({ "num_key_value_heads": 0 }), ["num_key_value_heads", "found 0"]),
        (json!({ "head_dim": 0 }), ["head_dim", "found 0"]),
        (json!({ "head_dim": null, "num_attention_heads": 3 }), ["head_dim", "is missing"]),
        (
            json!({ "linear_num_value_heads": 3, "linear_num_key_heads": 2 }),
            ["linear_num_value_heads", "not a multiple"],
        ),
        (json!({ "linear_key_head_dim": 0 }), ["linear_key_head_dim", "found 0"]),
        (json!({ "linear_conv_kernel_dim": 0 }), ["linear_conv_kernel_dim", "found 0"]),
        (json!({ "num_experts": 0 }), ["num_experts", "found 0"]),
        (json!({ "num_experts_per_tok": 0 }), ["num_experts_per_tok", "found 0"]),
        (json!({ "num_experts_per_tok": 4 }), ["num_experts_per_tok", "from 1 to 3"]),
        (json!({ "moe_intermediate_size": 0 }), ["moe_intermediate_size", "found 0"]),
        (json!({ "rms_norm_eps": 0 }), ["rms_norm_eps", "found 0"]),
        (json!({ "rms_norm_eps": -1e-6 }), ["rms_norm_eps", "found -1e-6"]),
        (json!({ "rms_norm_eps": 1e-60 }), ["rms_norm_eps", "above 0 and below 1"]),
        (json!({ "rms_norm_eps": null }), ["rms_norm_eps", "is missing"]),
        (json!({ "max_position_embeddings": 0 }), ["max_position_embeddings", "found 0"]),
        (json!({ "attention_bias": true }), ["attention_bias", "only false is supported"]),
        (json!({ "attn_output_gate": false }), ["attn_output_gate", "only true is supported"]),
        (json!({ "hidden_act": "gelu" }), ["hidden_act", "`gelu`"]),
        (json!({ "mlp_only_layers": [0] }), ["mlp_only_layers", "not empty"]),
        (json!({ "decoder_sparse_step": 2 }), ["decoder_sparse_step", "not 1"]),
        (json!({ "norm_topk_prob": 1 }), ["norm_topk_prob", "true or false"]),
        (json!({ "eos_token_id": "2" }), ["eos_token_id", "found \"2\""]),
        (json!({ "eos_token_id": [2, -3] }), ["eos_token_id", "found [2,-3]"]),
        (json!({ "model_type": "qwen3_5_text" }), ["text_config.model_type", "dense model"]),
        (
            json!({ "rope_parameters": { "rope_type": "yarn" } }),
            ["text_config.rope_parameters.rope_type", "`yarn`"],
        ),
        (json!({ "rope_scaling": { "type": "linear" } }), ["text_config.rope_scaling.type", "`linear`"]),
        (
            json!({ "rope_scaling": { "rope_type": "default", "type": "yarn" } }),
            ["rope_scaling.type", "`yarn`"],
        ),
        (json!({ "rope_parameters": [] }), ["text_config.rope_parameters", "an object"]),
        (json!({ "rope_parameters": {} }), ["rope_theta", "is missing"]),
        (json!({ "rope_parameters": { "rope_theta": 0 } }), ["rope_theta", "found 0"]),
        (
            json!({ "rope_theta": 1e7 }),
            ["rope_parameters.rope_theta", "`text_config.rope_theta` is 10000000"],
        ),
        (json!({ "partial_rotary_factor": 1.5 }), ["partial_rotary_factor", "found 1.5"]),
        (json!({ "head_dim": 4 }), ["partial_rotary_factor", "1 rotated dims of 4"]),
    ] {
        match with(&fields) {
            Ok(_) => panic!("{fields} was accepted"),
            Err(text) => assert_says(&text, &says),
        }
    }
}

#[test]
fn other_models_are_named() {
    for (model_type, says) in
        [("qwen3_5", "dense model"), ("llama", "`llama`"), ("qwen3_next", "`qwen3_next`")]
    {
        let text = read(&json!({ "model_type": model_type, "hidden_size": 1 })).unwrap_err();
        assert_says(&text, &["config.json", "`model_type`", says, "hint: Lily runs"]);
    }
    assert_says(&read(&json!({ "a": 1 })).unwrap_err(), &["model_type", "is missing"]);
    assert_says(&read(&json!([1])).unwrap_err(), &["expected an object"]);
}

#[test]
fn json_as_python_writes_it() {
    let text = Tiny::new().config().to_string();
    let read = |text: &str| ModelConfig::from_json(text.as_bytes()).map_err(|error| error.to_string());
    let wanted = read(&text).unwrap();
    let oddities =
        text.replacen('{', r#"{"a": NaN, "b": [-Infinity, Infinity], "NaN \" NaN": "Infinity, NaN", "#, 1);
    assert_eq!(read(&format!("\u{feff}{oddities}\n")).unwrap(), wanted);
    let text = text.replace("1e-6", "NaN");
    assert_says(&read(&text).unwrap_err(), &["text_config.rms_norm_eps", "found \"NaN\""]);
    assert_says(
        &read(&text.replace("NaN", "-Infinity")).unwrap_err(),
        &["rms_norm_eps", "found \"-Infinity\""],
    );
    assert_says(&read(&text[..text.len() - 1]).unwrap_err(), &["config.json", "line 1 column"]);
    assert_says(&read(&"[".repeat(100_000)).unwrap_err(), &["recursion limit"]);
}

#[test]
fn generation_config() {
    let read = |text: &str| GenerationConfig::from_json(text.as_bytes()).map_err(|error| error.to_string());
    assert_eq!(read("{}").unwrap(), GenerationConfig::default());
    let text = r#"{"do_sample": true, "temperature": 1, "top_k": 20.0, "top_p": 0.95, "min_p": null, "x": NaN,
                   "repetition_penalty": 1.05, "eos_token_id": 7, "transformers_version": "4"}"#;
    let expected = GenerationConfig {
        do_sample: Some(true),
        temperature: Some(1.0),
        top_p: Some(0.95),
        top_k: Some(20),
        min_p: None,
        repetition_penalty: Some(1.05),
        eos_token_ids: vec![7],
    };
    assert_eq!(read(text).unwrap(), expected);
    for (text, says) in [
        ("", "EOF while parsing"),
        ("{", "line 1 column 1"),
        ("[]", "expected an object"),
        (r#"{"temperature": -1}"#, "`temperature` must be a number from 0"),
        (r#"{"temperature": NaN}"#, "`temperature` must be a number from 0 to 1000, found \"NaN\""),
        (r#"{"top_p": 1.5}"#, "`top_p` must be"),
        (r#"{"top_k": -1}"#, "`top_k` must be a whole number"),
        (r#"{"repetition_penalty": 0}"#, "`repetition_penalty` must be"),
        (r#"{"eos_token_id": [1, null]}"#, "`eos_token_id` must be"),
    ] {
        assert_says(&read(text).unwrap_err(), &["generation_config.json", says]);
    }
}

/// Configs of the real model and its siblings by size, when they are at hand.
#[test]
fn real_config() {
    let Ok(folder) = std::env::var("LILY_QWEN36_DIR") else {
        eprintln!("skipped: LILY_QWEN36_DIR is not set");
        return;
    };
    let read = |name: &str| std::fs::read(std::path::Path::new(&folder).join(name)).unwrap();
    let config = ModelConfig::from_json(&read("config.json")).unwrap();
    assert_eq!((config.layers.len(), config.hidden_size, config.vocab_size), (40, 2048, 248_320));
    assert_eq!((config.attention.rotary_dim, config.max_position_embeddings), (64, 262_144));
    assert_eq!(config.eos_token_ids, [248_044]);
    let generation = GenerationConfig::from_json(&read("generation_config.json")).unwrap();
    assert_eq!(generation.eos_token_ids, [248_046, 248_044]);
    assert_eq!(config.kv_elements_per_token() * 2, 20_480);
    assert_eq!(config.recurrent_state_elements() * 4, 62_914_560);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = ModelConfig::from_json(&bytes);
        let _ = GenerationConfig::from_json(&bytes);
    }

    #[test]
    fn arbitrary_values_never_panic(field in 0_usize..40, pick in 0_usize..12) {
        let values = [
            json!(null), json!(0), json!(-1), json!(1), json!(u64::MAX), json!(1e308), json!(0.5), json!(""), json!([]),
            json!({}), json!(true), json!([[1]]),
        ];
        let mut config = Tiny::new().config();
        let text = config["text_config"].as_object_mut().unwrap();
        let index = field % text.len();
        *text.values_mut().nth(index).unwrap() = values[pick].clone();
        let _ = read(&config);
    }
}

//! Arbitrary bytes as each of a checkpoint's JSON files, beside weights that are sound.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lily_checkpoint::{Bytes, Checkpoint, GenerationConfig, ModelConfig};

const CONFIG: &[u8] = include_bytes!("../seeds/config/plain.json");
const PLAIN: &[u8] = include_bytes!("../seeds/safetensors_header/plain.safetensors");
const QUANTISED: &[u8] = include_bytes!("../seeds/safetensors_header/quantised.safetensors");

fuzz_target!(|text: &[u8]| {
    if let Ok(config) = ModelConfig::from_json(text) {
        assert!(config.attention.heads % config.attention.kv_heads == 0);
        assert!(config.attention.rotary_dim <= config.attention.head_dim);
        let last = config.gated_delta_net.key_head_of(config.gated_delta_net.value_heads - 1);
        assert_eq!(last, config.gated_delta_net.key_heads - 1);
        // Cannot overflow: overflow checks are on.
        let _ =
            (config.kv_elements_per_token(), config.recurrent_state_elements(), config.conv_state_elements());
        open(&[("config.json", text), ("model.safetensors", PLAIN)]);
        open(&[("config.json", text), ("model.safetensors", QUANTISED)]);
    }
    let _ = GenerationConfig::from_json(text);
    let index = ("model.safetensors.index.json", text);
    open(&[("config.json", CONFIG), index, ("model.safetensors", PLAIN)]);
});

fn open(files: &[(&str, &[u8])]) {
    let files = files.iter().map(|(name, contents)| ((*name).to_owned(), Bytes::new(contents.to_vec())));
    if let Err(error) = Checkpoint::from_contents(files.collect()) {
        assert!(!error.to_string().is_empty());
    }
}

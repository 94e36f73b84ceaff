//! The `checkpoint` cases of `tests/data/cases/cases.jsonl`, each by its id.

use crate::support::{Tensor, Tiny, assert_says, refusal, safetensors};
use lily_checkpoint::{Bits, Bytes, Checkpoint, Layout, Matrix, MixerWeights, unpack_codes};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a case is run by; it gets the case's `input`.
type Run = fn(&Value);

/// One entry per case: a new case fails here until it has one.
const CASES: [(&str, Run); 13] = [
    ("CKPT-01", converted_with_mtp),
    ("CKPT-02", raw),
    ("CKPT-03", converted_without_mtp),
    ("CKPT-04", skipped_and_unknown_tensors),
    ("CKPT-05", quantization_by_path),
    ("CKPT-08", missing_shard),
    ("CKPT-10", damaged_headers),
    ("CKPT-12", stray_file),
    ("CKPT-13", unusual_file_name),
    ("CKPT-16", codes_across_words),
    ("CKPT-18", rows_of_in_proj_qkv),
    ("CKPT-19", tied_embeddings),
    ("CKPT-20", dtypes_per_tensor),
];

#[test]
fn all() {
    let text = include_str!("../../../../tests/data/cases/cases.jsonl");
    let cases: BTreeMap<String, Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|case| case["kind"] == "checkpoint")
        .map(|case| (case["id"].as_str().unwrap().to_owned(), case))
        .collect();
    let known: BTreeMap<_, _> = CASES.into();
    assert_eq!(cases.keys().collect::<Vec<_>>(), known.keys().collect::<Vec<_>>());
    for (id, run) in CASES {
        eprintln!("{id}: {}", cases[id]["symptom"]);
        run(&cases[id]["input"]);
    }
}

/// `[32,4,1]`
fn shape(text: &Value) -> Vec<usize> {
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

fn converted_with_mtp(input: &Value) {
    let mut draft = Tiny::narrow().plain();
    let tiny = input["tiny_checkpoint"].as_object().unwrap();
    let conv = "language_model.model.layers.0.linear_attn.conv1d.weight";
    assert_eq!(draft.tensor(conv).shape, shape(&tiny[conv]));
    let extra = tiny.keys().find(|name| name.starts_with("mtp.")).unwrap();
    draft.tensors.push(Tensor::zeros(extra.clone(), "BF16", &[3, 5], 2));
    let checkpoint = draft.open().unwrap();
    assert_eq!(checkpoint.weights.layers[0].input_layernorm, [0.96875; 16]);
    assert_says(
        &checkpoint.warnings.join("\n"),
        &["1 tensors of the vision tower and of multi-token prediction"],
    );
}

fn raw(input: &Value) {
    let mut draft = Tiny::narrow().raw();
    let conv = "model.language_model.layers.0.linear_attn.conv1d.weight";
    assert_eq!(draft.tensor(conv).shape, shape(&input["tiny_checkpoint"][conv]));
    let weights = draft.open().unwrap().weights;
    assert_eq!(weights.norm, [0.96875; 16]);
    for layer in &weights.layers {
        assert_eq!(layer.input_layernorm, [0.96875; 16]);
        assert_eq!(layer.post_attention_layernorm, [0.96875; 16]);
        match &layer.mixer {
            MixerWeights::GatedDeltaNet(mixer) => {
                assert_eq!(mixer.norm, [1.0; 8]);
                assert_eq!(mixer.conv1d, [0.5; 32 * 4]);
            }
            MixerWeights::Attention(mixer) => {
                assert_eq!(mixer.q_norm, [0.96875; 8]);
                assert_eq!(mixer.k_norm, [0.96875; 8]);
            }
        }
    }
}

fn converted_without_mtp(_: &Value) {
    let checkpoint = Tiny::narrow().plain().open().unwrap();
    assert_eq!(checkpoint.layout, Layout::Mlx);
    assert_eq!(checkpoint.weights.norm, [0.96875; 16]);
    assert_eq!(checkpoint.weights.layers[3].input_layernorm, [0.96875; 16]);
}

fn skipped_and_unknown_tensors(input: &Value) {
    let names = |field: &str| -> Vec<String> {
        input["index_edit"][field]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_str().unwrap().to_owned())
            .collect()
    };
    let mut draft = Tiny::new().converted();
    // Types that only tensors which nothing reads have.
    for (name, (dtype, size)) in names("add").into_iter().zip([("I64", 8), ("BOOL", 1), ("F8_E4M3", 1)]) {
        draft.tensors.push(Tensor::zeros(name, dtype, &[2, 3], size));
    }
    for shards in [1, 3] {
        draft.shards = shards;
        assert_says(&draft.open().unwrap().warnings.join("\n"), &["3 tensors of the vision tower"]);
        for bad in names("add_bad") {
            let mut draft = draft.clone();
            draft.tensors.push(Tensor::zeros(bad.clone(), "BF16", &[2, 3], 2));
            assert_says(&draft.refusal(), &[&bad, "unknown tensor", "hint: experts are read stacked"]);
        }
    }
    for bad in [
        "language_model.vision_tower.blocks.0.norm1.weight",
        "adapter.weight",
        "model.layers.0.self_attn.q.bias",
    ] {
        let mut draft = Tiny::new().converted();
        draft.tensors.push(Tensor::zeros(bad, "BF16", &[2, 3], 2));
        assert_says(&draft.refusal(), &[bad, "unknown tensor"]);
    }
}

fn quantization_by_path(input: &Value) {
    let mut draft = Tiny::new().quantised(|module| match module {
        "layers.0.mlp.gate" | "layers.1.mlp.gate" => Some((8, 64)),
        "layers.2.mlp.shared_expert_gate" => None,
        _ => Some((4, 64)),
    });
    draft.edit(&input["config_edit"]);
    let checkpoint = draft.open().unwrap();
    let bits = |layer: usize| match &checkpoint.weights.layers[layer].moe.gate {
        Matrix::Affine(gate) => (gate.quantization.bits.get(), gate.quantization.group_size.get()),
        Matrix::Dense(_) => panic!("quantised"),
    };
    assert_eq!([bits(0), bits(1), bits(2)], [(8, 64), (8, 64), (4, 64)]);
    assert!(matches!(checkpoint.weights.layers[2].moe.shared_expert_gate, Matrix::Dense(_)));
    assert!(matches!(checkpoint.weights.layers[1].moe.shared_expert_gate, Matrix::Affine(_)));
}

fn missing_shard(input: &Value) {
    let folder = tempfile::tempdir().unwrap();
    let mut draft = Tiny::new().converted();
    draft.shards = 4;
    draft.write(folder.path());
    Checkpoint::open(folder.path()).unwrap();
    let file = input["file_op"].as_str().unwrap().strip_prefix("delete ").unwrap();
    std::fs::remove_file(folder.path().join(file)).unwrap();
    assert_says(&refusal(Checkpoint::open(folder.path())), &["incomplete download", file]);
    // Without the index the names tell.
    std::fs::remove_file(folder.path().join("model.safetensors.index.json")).unwrap();
    assert_says(&refusal(Checkpoint::open(folder.path())), &["incomplete download", file]);
}

fn damaged_headers(input: &Value) {
    let sound = Tiny::new().converted();
    let config = sound.config.to_string().into_bytes();
    let file = safetensors(&sound.tensors, true);
    let with_header = |json: &str| [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &[0; 64]].concat();
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        with_header(&format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#))
    };
    for damage in input["bytes"].as_array().unwrap() {
        let damage = damage.as_str().unwrap();
        let length = |length: u64| [&length.to_le_bytes(), &file[8..]].concat();
        let (bytes, says) = match damage {
            "header_len=2^63-1" => (length((1 << 63) - 1), "its length field says 9223372036854775807 bytes"),
            "header_len > file" => (length(file.len() as u64), "incomplete download"),
            "'{' only" => (with_header("{"), "EOF while parsing"),
            "data_offsets [8,0]" => (entry("F32", "[2]", "[8,0]"), "before they begin"),
            "shape [4294967296,4294967296]" => {
                (entry("F32", "[4294967296,4294967296]", "[0,8]"), "overflows")
            }
            "dtype 'F7'" => (entry("F7", "[8]", "[0,8]"), "unknown element type `F7`"),
            other => panic!("no such damage: {other}"),
        };
        let files = [("config.json", config.clone()), ("model.safetensors", bytes)];
        let files = files.map(|(name, bytes)| (name.to_owned(), Bytes::new(bytes)));
        assert_says(&refusal(Checkpoint::from_contents(files.to_vec())), &["model.safetensors", says]);
    }
}

fn stray_file(input: &Value) {
    let name = input["file_op"].as_str().unwrap().split(' ').nth(1).unwrap();
    let mut draft = Tiny::new().converted();
    let clash = Tensor::zeros("language_model.model.norm.weight", "BF16", &[128], 2);
    draft.others.push((name.to_owned(), safetensors(&[clash], false)));
    for shards in [1, 4] {
        draft.shards = shards;
        let checkpoint = draft.open().unwrap();
        assert_says(&checkpoint.warnings.join("\n"), &["not read", name]);
        assert_eq!(checkpoint.weights.norm, [0.96875; 128]);
    }
}

fn unusual_file_name(input: &Value) {
    let folder = tempfile::tempdir().unwrap();
    Tiny::new().converted().write(folder.path());
    let mut words = input["file_op"].as_str().unwrap().split([' ', ',']);
    let (from, to) = (words.nth(1).unwrap(), words.nth(1).unwrap());
    std::fs::rename(folder.path().join(from), folder.path().join(to)).unwrap();
    assert_says(
        &refusal(Checkpoint::open(folder.path())),
        &["found weights.safetensors", "needed is model.safetensors"],
    );
}

fn codes_across_words(_: &Value) {
    for (bits, packed) in [(3, 3), (5, 20), (6, 48)] {
        let codes: Vec<u8> = (0..1 << bits).collect();
        let tensor = Tensor::codes("a", bits, &[codes.len() * 32 / codes.len().min(32)], &codes);
        assert_eq!(tensor.bytes.len(), packed);
        let mut unpacked = vec![0; codes.len()];
        unpack_codes(Bits::new(bits as u8).unwrap(), &tensor.bytes, &mut unpacked);
        assert_eq!(unpacked, codes, "{bits} bits");
    }
    // 0 to 7 at 3 bits, by hand: 0b_10_001_000, 0b1_100_011_0, 0b_111_110_10 (low bits first).
    let mut unpacked = [0; 8];
    unpack_codes(Bits::new(3).unwrap(), &[0b1000_1000, 0b1100_0110, 0b1111_1010], &mut unpacked);
    assert_eq!(unpacked, [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// Which rows are whose. That the forward pass reads them so is tested where it lives.
fn rows_of_in_proj_qkv(_: &Value) {
    let tiny = Tiny { key_heads: 2, value_heads: 6, ..Tiny::narrow() };
    let mut draft = tiny.plain();
    // Row r holds r everywhere.
    let values: Vec<f32> = (0..tiny.channels()).flat_map(|row| vec![row as f32; tiny.hidden]).collect();
    let qkv = draft.tensor("layers.0.linear_attn.in_proj_qkv.weight");
    *qkv = Tensor::floats(qkv.name.clone(), "F32", &qkv.shape.clone(), &values);
    let checkpoint = draft.open().unwrap();
    let MixerWeights::GatedDeltaNet(mixer) = &checkpoint.weights.layers[0].mixer else { panic!("layer 0") };
    let first = |row: usize| {
        let mut out = vec![0.0; tiny.hidden];
        mixer.in_proj_qkv.dequantize_row(row, &mut out);
        out[0]
    };
    let config = &checkpoint.config.gated_delta_net;
    // All q (2 heads of 8), all k (2 of 8), all v (6 of 8); flat, not interleaved by head.
    assert_eq!((config.key_width(), config.value_width(), config.channels()), (16, 48, 80));
    assert_eq!([first(0), first(15), first(16), first(32), first(79)], [0.0, 15.0, 16.0, 32.0, 79.0]);
    assert_eq!([0, 2, 3, 5].map(|head| config.key_head_of(head)), [0, 0, 1, 1]);
}

fn tied_embeddings(input: &Value) {
    let edit = &input["config_edit"];
    assert_eq!(edit["drop"], "lm_head.*");
    let mut draft = Tiny::new().converted();
    draft.tensors.retain(|t| !t.name.contains("lm_head."));
    assert_says(&draft.refusal(), &["missing", "lm_head.weight"]);
    let mut inner = draft.clone();
    draft.edit(&json!({ "tie_word_embeddings": edit["tie_word_embeddings"] }));
    inner.config["text_config"]["tie_word_embeddings"] = edit["tie_word_embeddings"].clone();
    for draft in [draft, inner] {
        let checkpoint = draft.open().unwrap();
        assert!(checkpoint.config.tie_word_embeddings);
        assert!(matches!(checkpoint.weights.lm_head, Matrix::Affine(_)));
        let row = |matrix: &Matrix| {
            let mut out = vec![0.0; 128];
            matrix.dequantize_row(23, &mut out);
            out
        };
        assert_eq!(row(&checkpoint.weights.lm_head), row(&checkpoint.weights.embed_tokens));
    }
}

fn dtypes_per_tensor(input: &Value) {
    let options =
        |field: &str| input["tiny_checkpoint"][field].as_str().unwrap().split('|').collect::<Vec<_>>();
    let mut opened = Vec::new();
    for scales in options("scales") {
        for a_log in options("A_log") {
            let scales = ["F32", "F16", "BF16"].into_iter().find(|d| *d == scales).unwrap();
            let a_log = ["F32", "BF16"].into_iter().find(|d| *d == a_log).unwrap();
            let mut draft = Tiny { dtype: scales, ..Tiny::new() }.converted();
            let tensor = draft.tensor("layers.1.linear_attn.A_log");
            *tensor = Tensor::floats(tensor.name.clone(), a_log, &[2], &[0.75, -1.5]);
            let weights = draft.open().unwrap().weights;
            let MixerWeights::GatedDeltaNet(mixer) = &weights.layers[1].mixer else { panic!("layer 1") };
            assert_eq!((&mixer.a_log[..], &mixer.dt_bias[..]), (&[0.75, -1.5][..], &[0.25, 0.25][..]));
            let mut row = vec![0.0; 128];
            weights.layers[0].moe.down_proj.experts[2].dequantize_row(127, &mut row);
            opened.push(row);
        }
    }
    // The values of the tiny model are exact in each of these types.
    assert_eq!(opened.len(), 6);
    assert!(opened.windows(2).all(|pair| pair[0] == pair[1]));
}

//! Affine quantisation: values against MLX's own, and configs that do not fit the tensors.

use crate::support::{Tiny, assert_says};
use lily_checkpoint::{
    AffineMatrix, Bits, Bytes, Dtype, GroupSize, Matrix, Quantization, SafetensorsHeader, StoredTensor,
    TensorData, unpack_codes,
};
use proptest::prelude::*;
use serde_json::json;

/// Every width, group size and type of scale, bit by bit.
#[test]
fn rows_are_those_of_mlx() {
    let golden = include_bytes!("../data/mlx_quantized.safetensors");
    let header = SafetensorsHeader::parse(golden).unwrap();
    let mut compared = 0;
    for bits in Bits::ALL {
        for group_size in GroupSize::ALL {
            for dtype in ["f32", "f16", "bf16"] {
                let name = format!("{}.{}.{dtype}", bits.get(), group_size.get());
                let part = |part: &str| {
                    let stored = header.tensors.iter().find(|t| t.name == format!("{name}.{part}")).unwrap();
                    // One byte further, to an odd address.
                    unaligned(stored, golden)
                };
                let matrix = Matrix::Affine(AffineMatrix {
                    rows: 2,
                    cols: 128,
                    quantization: Quantization { bits, group_size },
                    codes: part("codes"),
                    scales: part("scales"),
                    biases: part("biases"),
                });
                let expected = part("weights").to_f32();
                let mut row = vec![0.0; 128];
                for (index, expected) in expected.chunks(128).enumerate() {
                    matrix.dequantize_row(index, &mut row);
                    let bits_of = |row: &[f32]| row.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits_of(&row), bits_of(expected), "{name}, row {index}");
                    compared += row.len();
                }
            }
        }
    }
    assert_eq!(compared, 6 * 3 * 3 * 2 * 128);
}

fn unaligned(stored: &StoredTensor, file: &[u8]) -> TensorData {
    let mut bytes = vec![0];
    bytes.extend(&file[stored.range.clone()]);
    let bytes = Bytes::new(bytes);
    let range = 1..bytes.len();
    TensorData {
        dtype: stored.dtype.as_dtype().unwrap(),
        shape: stored.shape.clone(),
        bytes: bytes.slice(range),
    }
}

#[test]
fn every_scheme_opens() {
    for bits in [2, 3, 4, 5, 6, 8] {
        for group in [32, 64, 128] {
            let mut draft = Tiny::new().quantised(|_| Some((bits, group)));
            draft.edit(&json!({ "quantization": { "bits": bits, "group_size": group } }));
            let checkpoint = draft.open().unwrap();
            let Matrix::Affine(head) = &checkpoint.weights.lm_head else { panic!("quantised") };
            assert_eq!((head.quantization.bits.get(), head.quantization.group_size.get()), (bits, group));
            assert_eq!(head.codes.shape, [24, 128 * bits / 32]);
            assert_eq!(head.scales.dtype, Dtype::Bf16);
        }
    }
}

#[test]
fn exceptions_by_path() {
    let scheme = |module: &str| match module {
        "embed_tokens" | "lm_head" => Some((6, 32)),
        "layers.0.mlp.switch_mlp.down_proj" => Some((3, 64)),
        "layers.1.mlp.gate" => None,
        "layers.3.self_attn.o_proj" => Some((4, 128)),
        _ => Some((4, 64)),
    };
    let mut draft = Tiny::new().quantised(scheme);
    draft.edit(&json!({ "quantization": {
        "bits": 4, "group_size": 64,
        // Each under another prefix than the tensors have.
        "model.embed_tokens": { "bits": 6, "group_size": 32 },
        "lm_head": { "bits": 6, "group_size": 32 },
        "model.language_model.layers.0.mlp.switch_mlp.down_proj": { "bits": 3 },
        "language_model.model.layers.1.mlp.gate": false,
        "language_model.model.layers.2.mlp.gate": true,
        "language_model.model.layers.3.self_attn.o_proj": { "group_size": 128, "mode": "affine" },
        "vision_tower.blocks.0.attn.qkv": { "bits": 8, "mode": "mxfp8" },
        "language_model.model.layers.77.mlp.gate": { "bits": 8 },
        "elsewhere": false, "note": "text", "number": 3,
    }}));
    let checkpoint = draft.open().unwrap();
    assert_eq!(
        checkpoint.warnings,
        [
            "config.json: `quantization.language_model.model.layers.77.mlp.gate`: the model has no such module; ignored",
            "config.json: `quantization.elsewhere`: the model has no such module; ignored",
        ]
    );
    // Without an exception no module is an error, as long as the tensors are plain.
    draft.config["quantization"]["language_model.model.layers.1.mlp.gate"] = json!(null);
    draft.open().unwrap();
}

#[test]
fn tensors_and_config_must_agree() {
    let draft = Tiny::new().converted();
    let gate = "language_model.model.layers.0.mlp.gate";

    let mut wrong = draft.clone();
    wrong.config["quantization"].as_object_mut().unwrap().remove(gate);
    assert_says(
        &wrong.refusal(),
        &["layers.0.mlp.gate.weight", "[3, 32]", "[3, 16]", "hint: its packed columns fit 8 bits", "says 4"],
    );

    let mut wrong = draft.clone();
    wrong.config["quantization"]["group_size"] = json!(32);
    assert_says(
        &wrong.refusal(),
        &["embed_tokens.scales", "[24, 2]", "[24, 4]", "hint: its columns fit groups of 64", "says 32"],
    );

    let mut wrong = draft.clone();
    wrong.config["quantization"][gate] = json!(false);
    assert_says(
        &wrong.refusal(),
        &["`layers.0.mlp.gate`", "is false", "not quantised, but", &format!("`{gate}.scales`")],
    );

    let mut wrong = draft.clone();
    wrong.config.as_object_mut().unwrap().retain(|field, _| !field.starts_with("quantization"));
    assert_says(&wrong.refusal(), &["`embed_tokens`", "has no `quantization`, but", "embed_tokens.scales"]);

    let mut wrong = Tiny::new().quantised(|module| (module != "layers.0.mlp.gate").then_some((4, 64)));
    wrong.edit(&json!({ "quantization": { "bits": 4, "group_size": 64, gate: { "bits": 8 } } }));
    assert_says(
        &wrong.refusal(),
        &["`layers.0.mlp.gate`", "says 8 bits", "has no `layers.0.mlp.gate.scales`"],
    );

    let mut wrong = Tiny { inner: 96, ..Tiny::new() }.quantised(|_| Some((4, 32)));
    wrong.edit(&json!({ "quantization": { "bits": 4, "group_size": 64 } }));
    wrong.config["quantization"]["model.embed_tokens"] = json!({ "group_size": 32 });
    assert!(wrong.refusal().contains("columns fit groups of 32"), "{}", wrong.refusal());
    let mut wrong = Tiny { inner: 96, hidden: 96, ..Tiny::new() }.quantised(|_| Some((4, 32)));
    wrong.edit(&json!({ "quantization": { "bits": 4, "group_size": 64 } }));
    assert_says(
        &wrong.refusal(),
        &["groups of 64, which do not divide the 96 inputs", "embed_tokens.weight"],
    );

    let mut wrong = draft;
    wrong.edit(&json!({ "quantization": { "bits": 4, "group_size": 64, gate: { "bits": 8 },
                                          "model.layers.0.mlp.gate": { "bits": 4 } } }));
    assert_says(&wrong.refusal(), &["contradicts", "another name of the same module"]);
}

#[test]
fn other_schemes_are_refused_by_name_before_weights_are_read() {
    for (edit, says) in [
        (json!({ "quantization": { "bits": 4, "group_size": 32, "mode": "mxfp4" } }), "`mxfp4`"),
        (json!({ "quantization": { "bits": 4, "group_size": 16, "mode": "nvfp4" } }), "`nvfp4`"),
        (json!({ "quantization": { "bits": 8, "group_size": 32, "mode": "mxfp8" } }), "`mxfp8`"),
        (
            json!({ "quantization": { "bits": 4, "group_size": 64, "language_model.lm_head": { "mode": "mxfp8" } } }),
            "`quantization.language_model.lm_head.mode`: quantisation `mxfp8`",
        ),
        (
            json!({ "quantization_config": { "quant_method": "fp8", "weight_block_size": [128, 128] } }),
            "`fp8`",
        ),
        (json!({ "quantization_config": { "quant_method": "gptq", "bits": 4 } }), "`gptq`"),
        (json!({ "quantization_config": { "quant_method": "awq" } }), "`awq`"),
        (
            json!({ "quantization_config": { "quant_method": "bitsandbytes", "load_in_4bit": true } }),
            "`bitsandbytes`",
        ),
        (
            json!({ "quantization": { "bits": 4, "group_size": 64 }, "quantization_config": { "quant_method": "awq" } }),
            "`quantization_config.quant_method`: quantisation `awq`",
        ),
    ] {
        let mut draft = Tiny::new().plain();
        draft.edit(&edit);
        // No weight file at all: were it looked for first, that would be the error.
        draft.tensors.clear();
        assert_says(
            &draft.refusal(),
            &["config.json", says, "is not supported", "hint: Lily reads MLX affine"],
        );
        let mut inner = Tiny::new().plain();
        for (field, value) in edit.as_object().unwrap() {
            inner.config["text_config"][field] = value.clone();
        }
        assert_says(&inner.refusal(), &["text_config.quantization", "is not supported"]);
    }
    for (fields, says) in [
        (
            json!({ "bits": 7, "group_size": 64 }),
            "`quantization.bits` must be one of 2, 3, 4, 5, 6, 8, found 7",
        ),
        (
            json!({ "bits": 4, "group_size": 16 }),
            "`quantization.group_size` must be one of 32, 64, 128, found 16",
        ),
        (json!({ "bits": -4, "group_size": 64 }), "found -4"),
        (json!({ "bits": 4 }), "`quantization.group_size` is missing"),
        (json!({ "group_size": 64 }), "`quantization.bits` is missing"),
    ] {
        let mut draft = Tiny::new().converted();
        draft.edit(&json!({ "quantization": fields }));
        assert_says(&draft.refusal(), &["config.json", says]);
    }
}

#[test]
fn a_config_of_quantised_weights_beside_plain_ones() {
    let mut draft = Tiny::new().plain();
    draft.edit(&json!({ "quantization": { "bits": 4, "group_size": 64 } }));
    assert_eq!(
        draft.open().unwrap().warnings,
        ["config.json has `quantization`, but no tensor is quantised"]
    );
}

#[test]
fn two_fields_that_differ() {
    let mut draft = Tiny::new().converted();
    draft.config["quantization_config"]["bits"] = json!(8);
    let warnings = draft.open().unwrap().warnings;
    assert_eq!(
        warnings,
        ["config.json: `quantization` and `quantization_config` differ; the former is used"]
    );
    // One alone is enough, by either name.
    let quantization = draft.config["quantization"].clone();
    draft.config.as_object_mut().unwrap().remove("quantization");
    draft.edit(&json!({ "quantization_config": quantization }));
    assert_eq!(draft.open().unwrap().warnings, Vec::<String>::new());
}

proptest! {
    #[test]
    fn unpacking_undoes_packing(bits in prop::sample::select(Bits::ALL.to_vec()), codes in prop::collection::vec(any::<u8>(), 0..99)) {
        let width = bits.get();
        let codes: Vec<u8> = codes.iter().map(|code| code & (u8::MAX >> (8 - width))).collect();
        let mut packed = vec![0_u8; (codes.len() * width).div_ceil(8)];
        for (index, code) in codes.iter().enumerate() {
            for bit in 0..width {
                packed[(index * width + bit) / 8] |= (code >> bit & 1) << ((index * width + bit) % 8);
            }
        }
        let mut unpacked = vec![0; codes.len()];
        unpack_codes(bits, &packed, &mut unpacked);
        prop_assert_eq!(unpacked, codes);
    }
}

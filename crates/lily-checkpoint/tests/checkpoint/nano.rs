//! The embedded nano checkpoint opens from its folder and from memory, with the same weights.

use lily_checkpoint::{Checkpoint, LayerKind, Layout, Matrix, MixerWeights};
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");

static FILES: [(&str, &[u8]); 4] = [
    ("config.json", include_bytes!("../../../../models/nano/config.json")),
    ("generation_config.json", include_bytes!("../../../../models/nano/generation_config.json")),
    ("model.safetensors", include_bytes!("../../../../models/nano/model.safetensors")),
    ("model.safetensors.index.json", include_bytes!("../../../../models/nano/model.safetensors.index.json")),
];

#[test]
fn opens_from_folder_and_memory() {
    let disk = Checkpoint::open(Path::new(FOLDER)).unwrap();
    let memory = Checkpoint::from_files(&FILES).unwrap();
    for checkpoint in [&disk, &memory] {
        assert_eq!(checkpoint.warnings, Vec::<String>::new());
        assert_eq!(checkpoint.layout, Layout::Mlx);
        assert_eq!(checkpoint.config.layers.len(), 8);
        assert_eq!(checkpoint.config.layers[3], LayerKind::Attention);
        assert_eq!(checkpoint.config.attention.rotary_dim, 64);
        assert_eq!(checkpoint.config.eos_token_ids, [5058, 5056]);
        assert_eq!(checkpoint.generation.eos_token_ids, [5058, 5056]);
        assert_eq!(checkpoint.generation.top_k, Some(20));
        assert_eq!(checkpoint.weights.layers.len(), 8);
    }
    assert_eq!(disk.config, memory.config);
    let rows = |checkpoint: &Checkpoint| {
        let weights = &checkpoint.weights;
        let mut out = vec![vec![0.0; 320]; 3];
        weights.embed_tokens.dequantize_row(5119, &mut out[0]);
        weights.layers[7].moe.up_proj.experts[31].dequantize_row(63, &mut out[1]);
        let MixerWeights::GatedDeltaNet(mixer) = &weights.layers[0].mixer else { panic!("layer 0") };
        mixer.in_proj_qkv.dequantize_row(0, &mut out[2]);
        (out, mixer.a_log.clone(), weights.norm.clone())
    };
    assert_eq!(rows(&disk), rows(&memory));
    assert!(rows(&disk).0.iter().flatten().all(|w| w.is_finite() && w.abs() < 10.0));
    let Matrix::Affine(router) = &disk.weights.layers[0].moe.gate else { panic!("quantised router") };
    assert_eq!(router.quantization.bits.get(), 8);
}

#[test]
fn other_files() {
    let disk = Checkpoint::open(Path::new(FOLDER)).unwrap();
    assert!(disk.file("tokenizer.json").unwrap().unwrap().starts_with(b"{"));
    assert!(disk.file("absent.json").unwrap().is_none());
    assert!(disk.file("../Cargo.toml").is_err());
    let memory = Checkpoint::from_files(&FILES).unwrap();
    assert_eq!(&*memory.file("config.json").unwrap().unwrap(), FILES[0].1);
    assert!(memory.file("tokenizer.json").unwrap().is_none());
}

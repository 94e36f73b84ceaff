//! The full model's shapes open, and fast: opening reads headers only.

use crate::support::write_sparse;
use lily_checkpoint::{Checkpoint, Matrix};
use std::time::Instant;

#[test]
fn opens_without_reading_weights() {
    let folder = tempfile::tempdir().unwrap();
    write_sparse(folder.path(), 40);
    let start = Instant::now();
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let elapsed = start.elapsed();
    eprintln!("opened in {elapsed:?}");
    // Reading 19.5 GB, even of holes, takes several seconds; the bound leaves room for a loaded machine.
    assert!(elapsed.as_secs_f64() < 2.0, "{elapsed:?}");
    let moe = &checkpoint.weights.layers[39].moe;
    assert_eq!(moe.down_proj.experts.len(), 256);
    let Matrix::Affine(last) = &moe.down_proj.experts[255] else { panic!("quantised") };
    assert_eq!((last.rows, last.cols, last.codes.bytes.len()), (2048, 512, 2048 * 256));
    let total = checkpoint.summary().total();
    // docs/model.md's floor: 1668 MB of weights per token (GDN 569, attention 153, MoE 660, head 286).
    assert!((1.66e9..1.68e9).contains(&(total.active_bytes as f64)), "{total:?}");
    assert!((34.5e9..34.9e9).contains(&(total.parameters as f64)), "{total:?}");
    assert_eq!(checkpoint.config.kv_elements_per_token(), 10_240);
}

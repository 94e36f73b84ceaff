//! Arbitrary bytes as a safetensors file: the header alone, then as the weights of two small models.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lily_checkpoint::{Bytes, Checkpoint, HeaderError, Matrix, SafetensorsHeader};

const PLAIN: &[u8] = include_bytes!("../seeds/config/plain.json");
const QUANTISED: &[u8] = include_bytes!("../seeds/config/quantised.json");

fuzz_target!(|file: &[u8]| {
    check(file);
    check(&mended(file));
});

/// The same file with a length field that fits: mutations that insert or delete would otherwise all end at the first
/// check. The header ends at the first zero byte, and short data is filled up.
fn mended(file: &[u8]) -> Vec<u8> {
    let body = file.get(8..).unwrap_or_default();
    let header = body.iter().position(|&byte| byte == 0).unwrap_or(body.len());
    let mut mended = [&(header as u64).to_le_bytes(), body].concat();
    if let Err(HeaderError::Truncated { expected, .. }) = SafetensorsHeader::parse(&mended)
        && expected < 1 << 20
    {
        mended.resize(expected as usize, 1);
    }
    mended
}

fn check(file: &[u8]) {
    let Ok(header) = SafetensorsHeader::parse(file) else { return };
    let mut end = header.tensors.first().map_or(file.len(), |first| first.range.start);
    for tensor in &header.tensors {
        assert_eq!(tensor.range.start, end, "tensors lie one after another");
        end = tensor.range.end;
        let bits = tensor.shape.iter().product::<usize>() as u64 * tensor.dtype.bits();
        assert_eq!(bits, 8 * tensor.range.len() as u64);
    }
    assert_eq!(end, file.len(), "to the end of the file");

    let file = Bytes::new(file.to_vec());
    for config in [PLAIN, QUANTISED] {
        let files = vec![
            ("config.json".to_owned(), Bytes::new(config)),
            ("model.safetensors".to_owned(), file.clone()),
        ];
        match Checkpoint::from_contents(files) {
            Ok(checkpoint) => read(&checkpoint),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// What opened can be read: every row of the embedding, the head and the experts.
fn read(checkpoint: &Checkpoint) {
    let rows = |matrix: &Matrix| {
        let mut out = vec![0.0; matrix.cols()];
        (0..matrix.rows()).for_each(|row| matrix.dequantize_row(row, &mut out));
    };
    let weights = &checkpoint.weights;
    rows(&weights.embed_tokens);
    rows(&weights.lm_head);
    for layer in &weights.layers {
        let moe = &layer.moe;
        [&moe.gate_proj, &moe.up_proj, &moe.down_proj].iter().flat_map(|bank| &bank.experts).for_each(rows);
    }
    assert!(checkpoint.summary().total().parameters > 0);
}

//! Tensors and safetensors files, right or wrong.

use serde_json::{Map, Value, json};

/// A tensor with its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Tensor {
    /// Values rounded to a float type.
    pub(crate) fn floats(
        name: impl Into<String>,
        dtype: &'static str,
        shape: &[usize],
        values: &[f32],
    ) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>());
        let bytes = match dtype {
            "F32" => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            "F16" => values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect(),
            "BF16" => values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect(),
            other => panic!("{other}"),
        };
        Self { name: name.into(), dtype, shape: shape.to_vec(), bytes }
    }

    /// Codes of `bits` bits, low bits first, in words.
    pub(crate) fn codes(name: impl Into<String>, bits: usize, shape: &[usize], codes: &[u8]) -> Self {
        let mut bytes = vec![0_u8; (codes.len() * bits).div_ceil(8)];
        for (index, code) in codes.iter().enumerate() {
            for bit in 0..bits {
                let place = index * bits + bit;
                bytes[place / 8] |= (code >> bit & 1) << (place % 8);
            }
        }
        let (last, lead) = shape.split_last().unwrap();
        let shape: Vec<usize> = lead.iter().copied().chain([last * bits / 32]).collect();
        Self { name: name.into(), dtype: "U32", shape, bytes }
    }

    /// Zeros of any type, for tensors that nothing reads.
    pub(crate) fn zeros(
        name: impl Into<String>,
        dtype: &'static str,
        shape: &[usize],
        element: usize,
    ) -> Self {
        let bytes = vec![0; shape.iter().product::<usize>() * element];
        Self { name: name.into(), dtype, shape: shape.to_vec(), bytes }
    }
}

/// A safetensors file: the header padded to eight bytes, or left at an odd length.
pub(crate) fn safetensors(tensors: &[Tensor], unpadded: bool) -> Vec<u8> {
    let (mut header, mut offset) = (Map::new(), 0);
    header.insert("__metadata__".to_owned(), json!({ "format": "mlx" }));
    for tensor in tensors {
        let end = offset + tensor.bytes.len();
        let entry = json!({ "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [offset, end] });
        header.insert(tensor.name.clone(), entry);
        offset = end;
    }
    let mut text = Value::Object(header).to_string();
    while (unpadded && text.len().is_multiple_of(2)) || (!unpadded && !text.len().is_multiple_of(8)) {
        text.push(' ');
    }
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend(text.bytes());
    file.extend(tensors.iter().flat_map(|t| &t.bytes));
    file
}

//! Safetensors headers: sound ones as another writer makes them, damaged ones, arbitrary bytes.

use crate::support::{Tensor, Tiny, assert_says, safetensors};
use lily_checkpoint::{Bytes, Checkpoint, SafetensorsHeader};
use proptest::prelude::*;

fn file(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn as_the_safetensors_crate_writes() {
    use safetensors::{Dtype, tensor::TensorView};
    let bytes: Vec<u8> = (0..240).collect();
    let views = [
        ("scalar", Dtype::F32, vec![], 0..4),
        ("empty", Dtype::F32, vec![0, 7], 0..0),
        ("half", Dtype::BF16, vec![3, 5], 4..34),
        ("flags", Dtype::BOOL, vec![9], 34..43),
        ("long", Dtype::I64, vec![2, 1, 1, 2], 43..75),
        ("nibbles", Dtype::F4, vec![4, 2], 75..79),
        ("eighth", Dtype::F8_E4M3, vec![3], 79..82),
    ];
    let views: Vec<_> = views
        .into_iter()
        .map(|(name, dtype, shape, range)| (name, TensorView::new(dtype, shape, &bytes[range]).unwrap()))
        .collect();
    let written = safetensors::serialize(views.clone(), None).unwrap();
    let header = SafetensorsHeader::parse(&written).unwrap();
    assert_eq!(header.tensors.len(), views.len());
    for (name, view) in views {
        let tensor = header.tensors.iter().find(|t| t.name == name).unwrap();
        assert_eq!(tensor.shape, view.shape());
        assert_eq!(&written[tensor.range.clone()], view.data(), "{name}");
        assert_eq!(tensor.dtype.name(), format!("{:?}", view.dtype()));
    }
}

#[test]
fn ours_are_read_by_the_safetensors_crate() {
    let tensors = [Tensor::floats("a", "F16", &[2, 2], &[1.0; 4]), Tensor::zeros("b", "U32", &[1, 3], 4)];
    let bytes = safetensors(&tensors, false);
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.tensor("b").unwrap().shape(), [1, 3]);
    assert_eq!(SafetensorsHeader::parse(&bytes).unwrap().tensors.len(), 2);
}

#[test]
fn damages_are_described() {
    let one = |entry: &str| format!(r#"{{"a":{entry}}}"#);
    let two = |a: &str, b: &str| {
        let entry = |offsets: &str| format!(r#"{{"dtype":"F32","shape":[2],"data_offsets":{offsets}}}"#);
        format!(r#"{{"a":{},"b":{}}}"#, entry(a), entry(b))
    };
    let shape = |shape: &str, end: u64| {
        one(&format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":[0,{end}]}}"#))
    };
    for (header, data, says) in [
        ("{}".to_owned(), 1, "1 bytes after the last tensor"),
        (" {}".to_owned(), 0, "does not begin with `{`"),
        ("[]".to_owned(), 0, "does not begin with `{`"),
        ("{\"a\":1}".to_owned(), 0, "invalid type"),
        ("{} x".to_owned(), 0, "trailing characters"),
        ("{\"\u{0}\":{}}".to_owned(), 0, "control character"),
        (one("{}"), 0, "missing field"),
        (one(r#"{"dtype":"F32","dtype":"F32"}"#), 0, "duplicate field"),
        (two("[0,8]", "[4,12]"), 12, "`b` overlap"),
        (two("[0,8]", "[0,8]"), 8, "overlap"),
        (two("[0,8]", "[9,17]"), 17, "1 bytes before `b` belong to no tensor"),
        (two("[4,12]", "[12,20]"), 20, "4 bytes before `a`"),
        (two("[0,8]", "[8,16]"), 17, "1 bytes after the last tensor"),
        (two("[0,8]", "[8,16]"), 15, "has"),
        (two("[0,8]", "[8,0]"), 16, "before they begin"),
        (two("[0,8]", "[8,-1]"), 16, "invalid value"),
        (two("[0,8]", "[8,12]"), 12, "span 4 bytes"),
        (two("[0,8]", "[8]"), 8, "invalid length"),
        (two("[0,8]", "[8,16,24]"), 8, "trailing characters"),
        (two("[0,8]", "[18446744073709551607,18446744073709551615]"), 8, "out of range"),
        (two("[0,8]", "[8.0,16.0]"), 16, "floating point"),
        (two("[0,8]", "[8,16]").replace("\"b\"", "\"a\""), 16, "`a` is there twice"),
        (two("[0,8]", "[8,16]").replace("\"b\"", "\"\\u0061\""), 16, "`a` is there twice"),
        (shape("[4294967296,4294967296]", 8), 8, "overflows"),
        (shape("[18446744073709551615]", 8), 8, "overflows"),
        (shape("[4611686018427387904]", 0), 0, "overflows"),
        (shape("[-1]", 8), 8, "invalid value"),
        (shape("[1,1,1,1,1,1,1,1,2]", 8), 8, "more than 8 dimensions"),
        (shape("2", 8), 8, "expected a list of dimensions"),
        (
            one(r#"{"dtype":"F7","shape":[8],"data_offsets":[0,8]}"#),
            8,
            "tensor `a`: unknown element type `F7`",
        ),
        (one(r#"{"dtype":"F4","shape":[3],"data_offsets":[0,2]}"#), 2, "takes 2"),
        (one(r#"{"dtype":"F4","shape":[3],"data_offsets":[0,1]}"#), 1, "takes 2"),
        (one(&"[".repeat(100_000)), 0, "invalid type"),
        (format!(r#"{{"__metadata__":{}"#, "[".repeat(100_000)), 0, "EOF while parsing"),
        (r#"{"__metadata__":{},"__metadata__":{}}"#.to_owned(), 0, "`__metadata__` is there twice"),
    ] {
        match SafetensorsHeader::parse(&file(&header, data)) {
            Ok(_) => panic!("accepted: {header:.100}"),
            Err(error) => assert_says(&error.to_string(), &[says]),
        }
    }
    for bytes in [&[][..], &[1, 0, 0], &[0; 8], &[2, 0, 0, 0, 0, 0, 0, 0, b'{'], &[255; 8]] {
        assert!(SafetensorsHeader::parse(bytes).is_err());
    }
    let utf8 = [&9_u64.to_le_bytes()[..], b"{\"\xff\xff\":{}"].concat();
    assert!(SafetensorsHeader::parse(&utf8).is_err());
}

#[test]
fn harmless_oddities() {
    // Padding, other fields, metadata that is not text, escaped names, no tensors at all.
    for header in [
        "{}   ",
        r#"{"__metadata__":{"a":[1]}}"#,
        r#"{"a\n\u00e9":{"dtype":"F32","shape":[],"data_offsets":[0,4],"note":1}}"#,
    ] {
        let data = if header.contains("F32") { 4 } else { 0 };
        let parsed = SafetensorsHeader::parse(&file(header, data)).unwrap();
        assert_eq!(parsed.tensors.len(), data / 4);
    }
}

#[test]
fn every_cut_of_a_file_is_an_error() {
    let draft = Tiny::new().converted();
    let whole = safetensors(&draft.tensors, true);
    let config = draft.config.to_string();
    let open = |bytes: &[u8]| {
        let files = [("config.json", config.as_bytes()), ("model.safetensors", bytes)];
        Checkpoint::from_contents(files.map(|(n, b)| (n.to_owned(), Bytes::new(b.to_vec()))).to_vec())
    };
    assert!(open(&whole).is_ok());
    for length in (0..whole.len()).step_by(997).chain([8, 9, whole.len() - 1]) {
        let text = open(&whole[..length]).err().map(|error| error.to_string());
        assert_says(&text.unwrap_or_default(), &["model.safetensors", "incomplete download"]);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = SafetensorsHeader::parse(&bytes);
        let length = (bytes.len() as u64).to_le_bytes();
        let _ = SafetensorsHeader::parse(&[&length[..], &bytes].concat());
    }

    #[test]
    fn changed_headers_never_panic(at in 0_usize..4000, with in any::<u8>(), offsets in any::<(u64, u64)>()) {
        let draft = Tiny::narrow().plain();
        let mut bytes = safetensors(&draft.tensors, true);
        bytes[at] = with;
        let config = draft.config.to_string().into_bytes();
        let files = vec![("config.json".to_owned(), Bytes::new(config)), ("model.safetensors".to_owned(), Bytes::new(bytes))];
        let _ = Checkpoint::from_contents(files);
        let (begin, end) = offsets;
        let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{begin},{end}]}}}}"#, end.wrapping_sub(begin));
        prop_assert!(SafetensorsHeader::parse(&file(&header, 16)).is_err() || (begin, end) == (0, 16));
    }
}

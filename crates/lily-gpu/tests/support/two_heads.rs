//! Nano's first attention layer and the layer before it, with a second key and value head: the full-size model has two, nano has one, and what
//! is wrong with the way from one head to the next does not show in one.

use lily_checkpoint::Checkpoint;
use serde_json::{Map, Value, json};
use std::{fs, path::Path};

/// What is kept of nano, and what it is called here.
const LAYERS: [(&str, &str); 2] = [(".layers.2.", ".layers.0."), (".layers.3.", ".layers.1.")];

/// Writes it into a folder. The second key head is the first value head, and the other way round.
pub(crate) fn nano_with_two_heads(folder: &Path) -> Checkpoint {
    let nano = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano"));
    let config = fs::read_to_string(nano.join("config.json")).expect("nano's configuration");
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    let text = &mut config["text_config"];
    text["num_key_value_heads"] = json!(2);
    text["num_hidden_layers"] = json!(2);
    text["layer_types"] = json!(["linear_attention", "full_attention"]);
    for quantization in ["quantization", "quantization_config"] {
        let settings = config[quantization].as_object_mut().expect("settings");
        *settings = std::mem::take(settings)
            .into_iter()
            .filter_map(|(name, value)| Some((kept(&name)?, value)))
            .collect();
    }
    fs::write(folder.join("config.json"), config.to_string()).expect("written");

    let file = fs::read(nano.join("model.safetensors")).expect("nano's weights");
    let length = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
    let (header, data) = file[8..].split_at(length);
    let tensors: Map<String, Value> = serde_json::from_slice(header).expect("a header");
    let bytes = |name: &str| {
        let offset = |at: usize| tensors[name]["data_offsets"][at].as_u64().expect("an offset") as usize;
        &data[offset(0)..offset(1)]
    };
    let (mut header, mut out) = (Map::new(), Vec::new());
    for (name, tensor) in &tensors {
        let Some(own) = kept(name) else { continue };
        let (start, mut shape) = (out.len(), tensor["shape"].clone());
        out.extend_from_slice(bytes(name));
        let other = if name.contains(".k_proj.") {
            name.replace(".k_proj.", ".v_proj.")
        } else {
            name.replace(".v_proj.", ".k_proj.")
        };
        if other != *name {
            out.extend_from_slice(bytes(&other));
            shape[0] = json!(2 * shape[0].as_u64().expect("rows"));
        }
        let entry = json!({ "dtype": tensor["dtype"], "shape": shape, "data_offsets": [start, out.len()] });
        header.insert(own, entry);
    }
    let header = Value::Object(header).to_string();
    let parts = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &out];
    fs::write(folder.join("model.safetensors"), parts.concat()).expect("written");
    Checkpoint::open(folder).expect("it opens")
}

/// What a tensor is called here, if it is kept.
fn kept(name: &str) -> Option<String> {
    match LAYERS.iter().find(|(from, _)| name.contains(from)) {
        Some((from, to)) => Some(name.replace(from, to)),
        None => (name != "__metadata__" && !name.contains(".layers.")).then(|| name.to_owned()),
    }
}

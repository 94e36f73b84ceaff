//! Whose weights and states a launch is bound to: each argument to one that it is for, all of one layer, the layers in order;
//! and over a plan every weight read, every state read and written.

use super::{
    Fault, FaultKind,
    hazards::Access,
    parts::{Kind, Part, Parts},
    ranges::Ranges,
};
use crate::{Bound, Dispatch, View};
use std::collections::HashMap;

/// True for arguments that are brought near for launches to come, and not read.
pub(super) fn is_ahead(entry: &str, name: &str) -> bool {
    name == "next" || entry == "expert_gate_up" && matches!(name, "down" | "down_scales" | "down_biases")
}

/// What an argument is for: roles, and what of them; nothing for arguments that are bound to no weight and no state.
fn wanted(entry: &str, name: &str, label: &str) -> Option<(&'static [&'static str], Kind)> {
    use Kind::{Biases, Codes, Plain, Scales, State};
    let kind = match name {
        "w" | "rw" | "gw" | "uw" | "shared_w" | "wg" | "wu" => Codes,
        "scales" | "rs" | "gs" | "us" | "shared_scales" | "gate_scales" | "up_scales" => Scales,
        "biases" | "rb" | "gb" | "ub" | "shared_biases" | "gate_biases" | "up_biases" => Biases,
        "keys" | "values" | "ring" | "window" | "state" => State,
        _ => Plain,
    };
    let vector: &[&str] = match (entry, name) {
        (_, "q_gain") | ("q_norm_rotary", "gain") => &["q_norm"],
        (_, "k_gain") | ("k_norm_rotary", "gain") => &["k_norm"],
        ("gemv_gated" | "gdn_gated_norm" | "gated_norm_rows", "gain") => &["gated norm"],
        ("gemv_norm", "gain") if label == "head" => &["norm"],
        (_, "gain") if label.starts_with("moe.") => &["post_norm"],
        (_, "gain") => &["input_norm"],
        (_, "rotary" | "turns") => &["rotary"],
        ("gdn_step" | "gdn_conv_step", "conv") | (_, "taps") => &["conv"],
        (_, "a_log") => &["a_log"],
        (_, "dt_bias") => &["dt_bias"],
        (_, "keys") => &["keys"],
        (_, "values") => &["values"],
        ("gdn_step" | "gdn_conv_step", "ring") | ("conv_rows" | "conv_window", "window") => &["window"],
        ("gdn_step" | "gdn_state_step" | "gdn_scan" | "gdn_chunk_scan", "state") => &["memory"],
        _ => &[],
    };
    if !vector.is_empty() {
        return Some((vector, kind));
    }
    if !matches!(kind, Codes | Scales | Biases) {
        return None;
    }
    let matrix: &[&str] = match label {
        "embedding" => &["embed_tokens"],
        "head" => &["lm_head"],
        "attention.in_proj" => &["q", "k", "v"],
        "gdn.in_proj" => &["qkv", "z", "b", "a"],
        "gdn.gates" => &["b", "a"],
        "attention.out_proj" | "gdn.out_proj" => &["out_proj"],
        "moe.router" => &["router", "shared gate's row"],
        "moe.router_shared" => match name {
            "rw" | "rs" | "rb" => &["router", "shared gate's row"],
            "gw" | "gs" | "gb" => &["shared gate"],
            _ => &["shared up"],
        },
        "moe.shared_gate_up" => match name {
            "wg" | "gate_scales" | "gate_biases" => &["shared gate"],
            _ => &["shared up"],
        },
        "moe.expert_gate_up" | "moe.gate_up" => match name {
            "gw" | "gs" | "gb" | "wg" | "gate_scales" | "gate_biases" => &["gate"],
            _ => &["up"],
        },
        "moe.gate" => &["gate"],
        "moe.up" => &["up"],
        "moe.expert_down" if name.starts_with("shared") => &["shared down"],
        "moe.expert_down" | "moe.down" => &["down"],
        "moe.shared_down" => &["shared down"],
        // Any: what it leaves is taken for the matrix itself.
        "dequantise" => &[],
        _ => &["nothing that is known"],
    };
    Some((matrix, kind))
}

/// Where the rows of a product's result come from: a matrix by row, into f32.
struct Product {
    y: Access,
    codes: View,
    row_bytes: usize,
}

/// Arguments that take part of an input projection's result: which part.
fn projected(entry: &str, name: &str) -> Option<&'static [&'static str]> {
    match (entry, name) {
        ("attention_step", "k") | ("k_norm_rotary", "k") => Some(&["k"]),
        ("attention_step", "v") | ("v_write", "v") => Some(&["v"]),
        ("attention_step" | "attention_combine" | "q_norm_rotary", "q") => Some(&["q"]),
        ("gdn_step" | "gdn_conv_step", "qkv") => Some(&["qkv"]),
        ("gdn_step" | "gdn_gates", "a") => Some(&["a"]),
        ("gdn_step" | "gdn_gates", "b") => Some(&["b"]),
        ("gemv_gated" | "gdn_gated_norm", "z") => Some(&["z"]),
        _ => None,
    }
}

/// What was found while going through a plan.
struct Walk<'a> {
    parts: &'a Parts,
    /// By part: bytes read, bytes written.
    used: Vec<[Ranges; 2]>,
    layer: usize,
    /// The last product into each place.
    products: HashMap<u64, Vec<Product>>,
    faults: Vec<Fault>,
}

pub(super) fn check(dispatches: &[&Dispatch], parts: &Parts, faults: &mut Vec<Fault>) {
    let used = parts.all.iter().map(|_| Default::default()).collect();
    let mut walk = Walk { parts, used, layer: 0, products: HashMap::new(), faults: Vec::new() };
    for dispatch in dispatches {
        walk.launch(dispatch);
    }
    walk.coverage();
    faults.append(&mut walk.faults);
}

impl Walk<'_> {
    fn fault(&mut self, kind: FaultKind, what: String) {
        self.faults.push(Fault { kind, what });
    }

    fn launch(&mut self, dispatch: &Dispatch) {
        let signature = dispatch.kernel.signature();
        let mut layers: Vec<(usize, String)> = Vec::new();
        for (at, (bound, binding)) in dispatch.bindings.iter().zip(&signature.bindings).enumerate() {
            let Some(touched) = super::hazards::access(dispatch, at) else { continue };
            if is_ahead(&signature.entry, &binding.name) {
                continue;
            }
            let view = bound.view.buffer().view(touched.range.start, touched.range.len());
            let name = format!("{} ({}): `{}`", dispatch.name(), signature.entry, binding.name);
            let found: Vec<usize> = self.parts.of(&view).collect();
            self.role(&name, (&signature.entry, &binding.name, &dispatch.label), bound, &found);
            self.origin(&name, (&signature.entry, &binding.name), &touched);
            for &part in &found {
                if bound.access != lily_kernels::Access::Write {
                    self.used[part][0].insert(&touched.range);
                }
                if bound.writes() {
                    self.used[part][1].insert(&touched.range);
                }
                if let Some(layer) = self.parts.all[part].layer {
                    layers.push((layer, format!("{name} is {}", self.parts.all[part])));
                }
            }
        }
        if let (Some(least), Some(most)) = (layers.iter().min(), layers.iter().max()) {
            if least.0 != most.0 {
                let what = format!("{}, {}", least.1, most.1);
                self.fault(FaultKind::Layer, what);
            } else if least.0 < self.layer {
                let what = format!("{}, after layer {}'s launches", least.1, self.layer);
                self.fault(FaultKind::Layer, what);
            }
            self.layer = self.layer.max(most.0);
        }
        self.remember(dispatch);
    }

    /// An argument is bound to what it is for.
    fn role(&mut self, what: &str, (entry, name, label): (&str, &str, &str), bound: &Bound, found: &[usize]) {
        let Some((roles, kind)) = wanted(entry, name, label) else {
            if let Some(&part) = found.first() {
                let what = format!("{what} is {}, for which it is not", self.parts.all[part]);
                self.fault(FaultKind::Role, what);
            }
            return;
        };
        // Of tied matrices one range is two parts: it is enough that one fits.
        let fits = |part: &Part| part.kind == kind && (roles.is_empty() || roles.contains(&part.role));
        let covered: Vec<_> = found
            .iter()
            .map(|&at| &self.parts.all[at])
            .filter(|part| fits(part))
            .map(|part| part.view.range())
            .collect();
        let misfit = found
            .iter()
            .map(|&at| &self.parts.all[at])
            .find(|part| !fits(part) && !covered.iter().any(|range| *range == part.view.range()));
        if let Some(part) = misfit {
            let wanted = if roles.is_empty() { format!("{kind:?}") } else { roles.join(", ") };
            let what = format!("{what} is {part}, and is for {wanted} ({kind:?})");
            self.fault(FaultKind::Role, what);
        } else if found.is_empty() && !matches!(kind, Kind::Codes | Kind::Scales | Kind::Biases) {
            // A matrix may be dequantised elsewhere; nothing else may be.
            let what = format!("{what} is {:?}, and is for {}", bound.view, roles.join(", "));
            self.fault(FaultKind::Role, what);
        }
    }

    /// An argument that takes part of a projection takes the part that it is for.
    fn origin(&mut self, what: &str, (entry, name): (&str, &str), touched: &Access) {
        let Some(roles) = projected(entry, name) else { return };
        let Some(products) = self.products.get(&touched.buffer) else { return };
        let mut wrong = None;
        for product in products {
            let (from, to) =
                (touched.range.start.max(product.y.range.start), touched.range.end.min(product.y.range.end));
            if from >= to {
                continue;
            }
            let rows = (from - product.y.range.start) / 4..(to - product.y.range.start).div_ceil(4);
            let codes = product.codes.slice(rows.start * product.row_bytes, rows.len() * product.row_bytes);
            let part = self.parts.of(&codes).map(|at| &self.parts.all[at]);
            let misfit =
                part.filter(|part| part.kind == Kind::Codes).find(|part| !roles.contains(&part.role));
            wrong = wrong.or_else(|| misfit.map(|part| format!("{what} is the product with {part}")));
        }
        if let Some(what) = wrong {
            self.fault(FaultKind::Role, what);
        }
    }

    /// What of earlier products' results is left, and where this launch's come from.
    fn remember(&mut self, dispatch: &Dispatch) {
        let signature = dispatch.kernel.signature();
        for at in 0..dispatch.bindings.len() {
            let Some(touched) = super::hazards::access(dispatch, at).filter(|access| access.writes) else {
                continue;
            };
            let products = self.products.entry(touched.buffer).or_default();
            products.retain(|product| !product.y.meets(&touched));
            let row = signature.bindings[at].name == "y" && signature.entry == "gemv_norm";
            let Some(codes) = signature.bindings.iter().position(|binding| binding.name == "w") else {
                continue;
            };
            let rows = touched.range.len() / 4;
            if let (true, Some(codes)) = (row && rows > 0, super::hazards::access(dispatch, codes)) {
                let view = dispatch.bindings[0].view.buffer().view(codes.range.start, codes.range.len());
                products.push(Product { y: touched, row_bytes: codes.range.len() / rows, codes: view });
            }
        }
    }

    /// Everything is read, and a state is written too.
    fn coverage(&mut self) {
        let mut found = Vec::new();
        for (part, [read, written]) in self.parts.all.iter().zip(&self.used) {
            let range = part.view.range();
            let what = match part.kind {
                Kind::State if read.is_empty() => Some("is never read"),
                Kind::State if written.is_empty() => Some("is never written"),
                Kind::State => None,
                _ if read.covers(&range) => None,
                _ => Some("is not wholly read"),
            };
            found.extend(what.map(|what| Fault { kind: FaultKind::Unused, what: format!("{part} {what}") }));
        }
        self.faults.append(&mut found);
    }
}

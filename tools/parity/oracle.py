#!/usr/bin/env python3
"""The whole model in numpy and float32, written from its description alone: a small independent oracle.

  oracle.py CHECKPOINT IDS.json OUT.npy [--act bf16|int8] [--residual bf16]
  oracle.py CHECKPOINT --reference FILE.safetensors [--sequences N] [--act ..] [--residual ..]

CHECKPOINT: an MLX affine folder with one model.safetensors (nano). IDS.json: a list of token ids. OUT.npy: logits
[tokens, vocab], float32. With --reference, the first N sequences of a reference file (docs/evaluation.md) are compared.
--act rounds every matrix product's input, --residual the residual stream, so that a bound can be told from a bug.
No state, no cache: a prompt at a time, short ones. Needs numpy only.
"""
import argparse
import json
import struct
from pathlib import Path

import numpy as np

PREFIX = "language_model."
NUMPY_TYPES = {"U32": np.uint32, "F32": np.float32, "U16": np.uint16}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def rms_norm(x, gain=None, eps=1e-6):
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return y if gain is None else y * gain


def l2_norm(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def softmax(x):
    y = np.exp(x - x.max(-1, keepdims=True))
    return y / y.sum(-1, keepdims=True)


def to_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint32) << 16).view(np.float32)


def to_int8(x, group=64):
    y = x.reshape(*x.shape[:-1], -1, group)
    scale = np.abs(y).max(-1, keepdims=True) / 127 + 1e-30
    return (np.round(y / scale) * scale).reshape(x.shape).astype(np.float32)


ROUNDING = {None: lambda x: x, "bf16": to_bf16, "int8": to_int8}


class Safetensors:
    def __init__(self, path):
        raw = Path(path).read_bytes()
        (length,) = struct.unpack("<Q", raw[:8])
        self.header = json.loads(raw[8 : 8 + length])
        self.header.pop("__metadata__", None)
        self.data = raw[8 + length :]

    def __contains__(self, name):
        return name in self.header

    def __getitem__(self, name):
        entry = self.header[name]
        data = self.data[slice(*entry["data_offsets"])]
        if entry["dtype"] == "BF16":
            return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])
        return np.frombuffer(data, NUMPY_TYPES[entry["dtype"]]).reshape(entry["shape"])


class Oracle:
    def __init__(self, folder, activations=None, residual=None):
        self.config = json.loads((Path(folder) / "config.json").read_text())
        self.text = self.config["text_config"]
        self.tensors = Safetensors(Path(folder) / "model.safetensors")
        self.act, self.res = ROUNDING[activations], ROUNDING[residual]
        self.dequantised = {}

    def tensor(self, name):
        return self.tensors[PREFIX + name]

    def weight(self, module):
        if module not in self.dequantised:
            self.dequantised[module] = self.dequantise(PREFIX + module)
        return self.dequantised[module]

    def dequantise(self, module):
        words = self.tensors[module + ".weight"]
        if module + ".scales" not in self.tensors:
            return words
        quantisation = self.config["quantization"].get(module, self.config["quantization"])
        bits, group = quantisation["bits"], quantisation["group_size"]
        shifts = np.arange(32 // bits, dtype=np.uint32) * bits
        codes = ((words[..., None] >> shifts) & ((1 << bits) - 1)).reshape(*words.shape[:-1], -1).astype(np.float32)
        scales, biases = (np.repeat(self.tensors[f"{module}.{kind}"], group, -1) for kind in ("scales", "biases"))
        return codes * scales + biases

    def linear(self, x, module):
        return self.act(x) @ self.weight(module).T

    def logits(self, ids):
        x = self.res(self.weight("model.embed_tokens")[ids])
        for i in range(self.text["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            mixer = self.attention if (i + 1) % 4 == 0 else self.gated_delta_net
            x = self.res(x + mixer(rms_norm(x, self.tensor(layer + "input_layernorm.weight")), layer))
            x = self.res(x + self.moe(rms_norm(x, self.tensor(layer + "post_attention_layernorm.weight")), layer + "mlp."))
        return self.linear(rms_norm(x, self.tensor("model.norm.weight")), "lm_head").astype(np.float32)

    def attention(self, h, layer):
        m, n, dim = layer + "self_attn.", len(h), self.text["head_dim"]
        heads, kv_heads = self.text["num_attention_heads"], self.text["num_key_value_heads"]
        q, gate = np.split(self.linear(h, m + "q_proj").reshape(n, heads, 2 * dim), 2, -1)
        k = self.linear(h, m + "k_proj").reshape(n, kv_heads, dim)
        v = self.linear(h, m + "v_proj").reshape(n, kv_heads, dim)
        q = rms_norm(q, self.tensor(m + "q_norm.weight"))
        k = rms_norm(k, self.tensor(m + "k_norm.weight"))

        rope = self.text["rope_parameters"]
        rotary = int(dim * rope["partial_rotary_factor"])
        half = rotary // 2
        angle = np.arange(n)[:, None] * rope["rope_theta"] ** (-np.arange(0, rotary, 2) / rotary)[None]
        cos, sin = (f(angle)[:, None].astype(np.float32) for f in (np.cos, np.sin))

        def rotate(t):
            a, b = t[..., :half], t[..., half:rotary]
            return np.concatenate([a * cos - b * sin, b * cos + a * sin, t[..., rotary:]], -1)

        q, k, v = rotate(q), self.res(rotate(k)), self.res(v)
        k, v = (np.repeat(t, heads // kv_heads, 1) for t in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) * dim**-0.5
        scores = softmax(np.where(np.tril(np.ones((n, n), bool)), scores, -1e30))
        out = np.einsum("hqk,khd->qhd", scores, v) * sigmoid(gate)
        return self.linear(out.reshape(n, -1), m + "o_proj")

    def gated_delta_net(self, h, layer):
        m, n = layer + "linear_attn.", len(h)
        key_heads, value_heads = self.text["linear_num_key_heads"], self.text["linear_num_value_heads"]
        dk, dv = self.text["linear_key_head_dim"], self.text["linear_value_head_dim"]
        u = self.linear(h, m + "in_proj_qkv")
        z = self.linear(h, m + "in_proj_z").reshape(n, value_heads, dv)
        a, b = self.linear(h, m + "in_proj_a"), self.linear(h, m + "in_proj_b")

        taps = self.tensor(m + "conv1d.weight")[:, :, 0]
        width = taps.shape[1]
        padded = np.concatenate([np.zeros((width - 1, u.shape[1]), np.float32), u])
        u = silu(sum(padded[j : j + n] * taps[:, j] for j in range(width)))
        q, k, v = np.split(u, [key_heads * dk, 2 * key_heads * dk], -1)
        q = l2_norm(q.reshape(n, key_heads, dk)) * dk**-0.5
        k = l2_norm(k.reshape(n, key_heads, dk))
        q, k = (np.repeat(t, value_heads // key_heads, 1) for t in (q, k))
        v = v.reshape(n, value_heads, dv)

        g = -np.exp(self.tensor(m + "A_log")) * np.logaddexp(0, a + self.tensor(m + "dt_bias"))
        beta = sigmoid(b)
        state = np.zeros((value_heads, dv, dk), np.float32)
        out = np.empty_like(v)
        for t in range(n):
            state *= np.exp(g[t])[:, None, None]
            delta = beta[t][:, None] * (v[t] - np.einsum("hvk,hk->hv", state, k[t]))
            state += delta[:, :, None] * k[t][:, None, :]
            out[t] = np.einsum("hvk,hk->hv", state, q[t])
        out = rms_norm(out) * self.tensor(m + "norm.weight") * silu(z)
        return self.linear(out.reshape(n, -1), m + "out_proj")

    def moe(self, h, m):
        # The router reads unrounded input on every path.
        scores = softmax(h @ self.weight(m + "gate").T)
        top = np.argsort(-scores, -1, kind="stable")[:, : self.text["num_experts_per_tok"]]
        weights = np.take_along_axis(scores, top, -1)
        weights /= weights.sum(-1, keepdims=True)
        gate, up, down = (self.weight(m + f"switch_mlp.{name}_proj") for name in ("gate", "up", "down"))
        rounded, out = self.act(h), np.zeros_like(h)
        for expert in range(self.text["num_experts"]):
            rows, places = np.where(top == expert)
            if len(rows):
                inner = silu(rounded[rows] @ gate[expert].T) * (rounded[rows] @ up[expert].T)
                out[rows] += weights[rows, places][:, None] * (self.act(inner) @ down[expert].T)
        inner = silu(self.linear(h, m + "shared_expert.gate_proj")) * self.linear(h, m + "shared_expert.up_proj")
        shared = self.linear(inner, m + "shared_expert.down_proj")
        return out + shared * sigmoid(h @ self.weight(m + "shared_expert_gate").T)


def compare(oracle, path, limit):
    """Prints how far the oracle is from a reference file."""
    file = Safetensors(path)
    start, positions, worst, divergence = 0, 0, 0.0, 0.0
    for length in file["sequence_lengths"][:limit]:
        rows = slice(start, start + int(length))
        start += int(length)
        logits = oracle.logits(file["tokens"][rows].astype(np.int64)).astype(np.float64)
        peak = logits.max(-1, keepdims=True)
        logprobs = logits - peak - np.log(np.exp(logits - peak).sum(-1, keepdims=True))
        wanted = file["top_logprobs"][rows].astype(np.float64)
        found = np.take_along_axis(logprobs, file["top_ids"][rows].astype(np.int64), -1)
        rest, found_rest = 1 - np.exp(wanted).sum(-1), 1 - np.exp(found).sum(-1)
        kl = (np.exp(wanted) * (wanted - found)).sum(-1)
        kl += np.where(rest > 1e-6, rest * np.log(np.maximum(rest, 1e-30) / np.maximum(found_rest, 1e-30)), 0)
        worst, divergence = max(worst, np.abs(found - wanted).max()), divergence + kl.sum()
        positions += int(length)
        print(f"{positions:6} positions: log-probabilities differ by at most {worst:.2e}, mean KL {divergence / positions:.2e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("ids", nargs="?", type=Path)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--sequences", type=int)
    parser.add_argument("--act", choices=["bf16", "int8"])
    parser.add_argument("--residual", choices=["bf16"])
    arguments = parser.parse_args()
    oracle = Oracle(arguments.checkpoint, arguments.act, arguments.residual)
    if arguments.reference:
        compare(oracle, arguments.reference, arguments.sequences)
    elif arguments.ids and arguments.out:
        np.save(arguments.out, oracle.logits(np.array(json.loads(arguments.ids.read_text()))))
    else:
        parser.error("IDS.json and OUT.npy, or --reference")


if __name__ == "__main__":
    main()

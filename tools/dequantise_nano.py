#!/usr/bin/env python3
"""Makes a raw Hugging Face folder out of an MLX-converted one: the way back of `mlx_lm.convert`, for tests.

  dequantise_nano.py --out DIR [--source models/nano] [--dtype bf16|f32]

Every matrix is dequantised (scale * code + bias in f32, then rounded to --dtype) and named as the published checkpoints
name it: `model.language_model.*` and `lm_head.weight`, routed experts fused into `experts.gate_up_proj` [experts,
2 * inner, hidden] (gate first) and `experts.down_proj`, conv1d [channels, 1, width], the gains of norms minus one (but
linear_attn.norm). The config loses its quantization; all other files are copied. In bf16 a gain below 0.5 may lose its
last bits; in f32 every value is exact. Needs numpy.
"""
import argparse
import json
import os
import shutil
import struct

import numpy as np

SHIFTED = ("input_layernorm.weight", "post_attention_layernorm.weight", "q_norm.weight", "k_norm.weight")


def read_safetensors(path):
    """Tensors by name: codes as uint32, all else as f32."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        entries = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[begin:end]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, {"U32": "<u4", "F32": "<f4", "F16": "<f2"}[entry["dtype"]])
            values = values if entry["dtype"] == "U32" else values.astype(np.float32)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def to_bytes(values, dtype):
    values = np.ascontiguousarray(values, np.float32)
    if dtype == "F32":
        return values.tobytes()
    u = values.view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype("<u2").tobytes()


def write_safetensors(path, tensors, dtype):
    entries, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, values in tensors.items():
        # As published: the decay stays in f32.
        stored = "F32" if name.endswith("A_log") else dtype
        blob = to_bytes(values, stored)
        entries[name] = {"dtype": stored, "shape": list(values.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.writelines(blobs)


def unpack(words, bits, cols):
    """uint32 [..., cols * bits / 32] to codes [..., cols], low bits first."""
    stream = np.ascontiguousarray(words).view(np.uint8)
    bitstream = np.unpackbits(stream, axis=-1, bitorder="little").reshape(*words.shape[:-1], cols, bits)
    return bitstream @ (1 << np.arange(bits, dtype=np.uint32))


def dequantise(tensors, quantization):
    plain = {}
    for name, values in tensors.items():
        module, _, part = name.rpartition(".")
        if part in ("scales", "biases"):
            continue
        if f"{module}.scales" in tensors:
            own = quantization.get(module, {})
            bits = own.get("bits", quantization["bits"])
            group = own.get("group_size", quantization["group_size"])
            scales, biases = tensors[f"{module}.scales"], tensors[f"{module}.biases"]
            codes = unpack(values, bits, scales.shape[-1] * group).astype(np.float32)
            codes = codes.reshape(*scales.shape, group)
            values = (scales[..., None] * codes + biases[..., None]).reshape(*scales.shape[:-1], -1)
        plain[name] = values
    return plain


def to_hugging_face(plain):
    raw = {}
    for name, values in plain.items():
        name = name.replace("language_model.model.", "model.language_model.").replace("language_model.lm_head", "lm_head")
        if name.endswith(SHIFTED) or name == "model.language_model.norm.weight":
            values = values - np.float32(1)
        if name.endswith("conv1d.weight"):
            values = np.swapaxes(values, 1, 2)
        raw[name] = values
    for name in [name for name in raw if name.endswith("switch_mlp.gate_proj.weight")]:
        mlp = name.removesuffix("switch_mlp.gate_proj.weight")
        gate, up = raw.pop(name), raw.pop(f"{mlp}switch_mlp.up_proj.weight")
        raw[f"{mlp}experts.gate_up_proj"] = np.concatenate([gate, up], axis=1)
        raw[f"{mlp}experts.down_proj"] = raw.pop(f"{mlp}switch_mlp.down_proj.weight")
    return raw


def main():
    nano = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models", "nano")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="the folder to write")
    parser.add_argument("--source", default=nano, help="an MLX-converted folder with one model.safetensors")
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.source, "config.json")) as file:
        config = json.load(file)
    quantization = config.pop("quantization")
    config.pop("quantization_config", None)
    tensors = read_safetensors(os.path.join(args.source, "model.safetensors"))
    raw = to_hugging_face(dequantise(tensors, quantization))
    write_safetensors(os.path.join(args.out, "model.safetensors"), raw, args.dtype.upper())
    with open(os.path.join(args.out, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    for name in os.listdir(args.source):
        path = os.path.join(args.source, name)
        if os.path.isfile(path) and name not in ("config.json", "model.safetensors", "model.safetensors.index.json"):
            shutil.copy(path, args.out)
    print(f"{len(raw)} tensors, {sum(values.size for values in raw.values())} parameters in {args.out}")


if __name__ == "__main__":
    main()

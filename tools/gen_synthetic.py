#!/usr/bin/env python3
"""Writes a synthetic Qwen3.5/3.6-MoE (model_type qwen3_5_moe) checkpoint in the MLX layout.

Random, non-zero, full-shape weights: affine 4-bit (group 64) everywhere a Linear or an Embedding is quantised, 8-bit for
the router and the shared expert's gate, bf16 for the rest, f32 for A_log. Meant for measurements of speed and for tests:
shapes, dtypes, tensor names and byte counts are those of a real MLX checkpoint; values are scaled so that activations
stay finite and the router's top-k is close to uniform over the experts. It has no tokenizer.

  gen_synthetic.py --out DIR [--config config.json] [--layers N] [--seed S] [--shard-gib 4]
                   [--backend numpy|torch] [--unpadded] [--sparse]
  gen_synthetic.py --count-only

Without --config the dimensions are those of Qwen3.6-35B-A3B (19.5 GB); --layers 4 makes 2.5 GB. Writes DIR/config.json,
DIR/model-0000k-of-0000n.safetensors and DIR/model.safetensors.index.json. Needs numpy; torch only for --backend torch,
which generates on the GPU when there is one. One seed gives the same bytes with one backend on one kind of device only.
"""
import argparse
import json
import os
import struct
import time

import numpy as np

DEFAULT_TEXT = dict(
    model_type="qwen3_5_moe_text", hidden_size=2048, num_hidden_layers=40,
    num_attention_heads=16, num_key_value_heads=2, head_dim=256, attention_bias=False,
    attn_output_gate=True, full_attention_interval=4, hidden_act="silu",
    linear_conv_kernel_dim=4, linear_key_head_dim=128, linear_value_head_dim=128,
    linear_num_key_heads=16, linear_num_value_heads=32,
    num_experts=256, num_experts_per_tok=8, moe_intermediate_size=512,
    shared_expert_intermediate_size=512, norm_topk_prob=True, rms_norm_eps=1e-6,
    tie_word_embeddings=False, vocab_size=248320, max_position_embeddings=262144,
    rope_parameters=dict(rope_type="default", rope_theta=10000000, partial_rotary_factor=0.25,
                         mrope_section=[11, 11, 10], mrope_interleaved=True),
    dtype="bfloat16",
)
GROUP = 64
STORED = {"u32": ("U32", 4), "bf16": ("BF16", 2), "f32": ("F32", 4)}


def tensor_plan(text):
    """Yields (name, dtype, shape, kind, param) for every tensor, in file order.
    kind: words | scales | biases | normal | ones | a_log; what param is depends on it."""
    hidden, vocab = text["hidden_size"], text["vocab_size"]
    head_dim, heads, kv_heads = text["head_dim"], text["num_attention_heads"], text["num_key_value_heads"]
    value_heads = text["linear_num_value_heads"]
    key_width = text["linear_key_head_dim"] * text["linear_num_key_heads"]
    value_width = text["linear_value_head_dim"] * value_heads
    channels = 2 * key_width + value_width
    experts, inner = text["num_experts"], text["moe_intermediate_size"]
    shared = text["shared_expert_intermediate_size"]

    def matrix(name, rows, cols, bits=4, stack=()):
        assert cols % GROUP == 0, (name, cols)
        yield f"{name}.weight", "u32", (*stack, rows, cols * bits // 32), "words", None
        yield f"{name}.scales", "bf16", (*stack, rows, cols // GROUP), "scales", (bits, cols)
        yield f"{name}.biases", "bf16", (*stack, rows, cols // GROUP), "biases", (bits, cols)

    model = "language_model.model"
    yield from matrix(f"{model}.embed_tokens", vocab, hidden)
    for i in range(text["num_hidden_layers"]):
        layer = f"{model}.layers.{i}"
        yield f"{layer}.input_layernorm.weight", "bf16", (hidden,), "ones", 0.05
        yield f"{layer}.post_attention_layernorm.weight", "bf16", (hidden,), "ones", 0.05
        if (i + 1) % text["full_attention_interval"]:
            mixer = f"{layer}.linear_attn"
            yield f"{mixer}.A_log", "f32", (value_heads,), "a_log", None
            yield f"{mixer}.dt_bias", "bf16", (value_heads,), "ones", 0.2
            yield f"{mixer}.conv1d.weight", "bf16", (channels, text["linear_conv_kernel_dim"], 1), "normal", 0.5
            yield f"{mixer}.norm.weight", "bf16", (text["linear_value_head_dim"],), "ones", 0.05
            yield from matrix(f"{mixer}.in_proj_qkv", channels, hidden)
            yield from matrix(f"{mixer}.in_proj_z", value_width, hidden)
            yield from matrix(f"{mixer}.in_proj_b", value_heads, hidden)
            yield from matrix(f"{mixer}.in_proj_a", value_heads, hidden)
            yield from matrix(f"{mixer}.out_proj", hidden, value_width)
        else:
            mixer = f"{layer}.self_attn"
            yield from matrix(f"{mixer}.q_proj", heads * head_dim * 2, hidden)
            yield from matrix(f"{mixer}.k_proj", kv_heads * head_dim, hidden)
            yield from matrix(f"{mixer}.v_proj", kv_heads * head_dim, hidden)
            yield from matrix(f"{mixer}.o_proj", hidden, heads * head_dim)
            yield f"{mixer}.q_norm.weight", "bf16", (head_dim,), "ones", 0.05
            yield f"{mixer}.k_norm.weight", "bf16", (head_dim,), "ones", 0.05
        moe = f"{layer}.mlp"
        yield from matrix(f"{moe}.gate", experts, hidden, bits=8)
        yield from matrix(f"{moe}.switch_mlp.gate_proj", inner, hidden, stack=(experts,))
        yield from matrix(f"{moe}.switch_mlp.up_proj", inner, hidden, stack=(experts,))
        yield from matrix(f"{moe}.switch_mlp.down_proj", hidden, inner, stack=(experts,))
        yield from matrix(f"{moe}.shared_expert.gate_proj", shared, hidden)
        yield from matrix(f"{moe}.shared_expert.up_proj", shared, hidden)
        yield from matrix(f"{moe}.shared_expert.down_proj", hidden, shared)
        yield from matrix(f"{moe}.shared_expert_gate", 1, hidden, bits=8)
    yield f"{model}.norm.weight", "bf16", (hidden,), "ones", 0.05
    if not text.get("tie_word_embeddings", False):
        yield from matrix("language_model.lm_head", vocab, hidden)


def tensor_bytes(dtype, shape):
    return int(np.prod(shape)) * STORED[dtype][1]


def active_bytes(text):
    """Weight bytes that one decoded token reads: every dense tensor, top-k of the experts, the head, one embedding row."""
    total = 0
    for name, dtype, shape, _, _ in tensor_plan(text):
        size = tensor_bytes(dtype, shape)
        if ".switch_mlp." in name:
            size = size * text["num_experts_per_tok"] // text["num_experts"]
        elif ".embed_tokens." in name and not text.get("tie_word_embeddings", False):
            size //= shape[0]
        total += size
    return total


def bf16(x):
    """f32 array to bf16 bits (uint16), rounded to nearest even."""
    u = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


class NumpyRandom:
    def __init__(self, seed):
        self.random = np.random.Generator(np.random.SFC64(seed))

    def words(self, n):
        return self.random.integers(0, 1 << 64, size=(n + 1) // 2, dtype=np.uint64).view(np.uint32)[:n]

    def scales(self, n, unit):
        u = self.random.integers(0, 1 << 16, size=n, dtype=np.uint16)
        magnitude = (0.5 + (u & 0x7FFF).astype(np.float32) / 32768.0) * unit
        return np.where(u & 0x8000, -magnitude, magnitude).astype(np.float32)

    def normal(self, n):
        return self.random.standard_normal(n, dtype=np.float32)


class TorchRandom:
    def __init__(self, seed):
        import torch

        self.torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.generator = torch.Generator(self.device)
        self.generator.manual_seed(seed)

    def words(self, n):
        x = self.torch.empty((n + 1) // 2, dtype=self.torch.int64, device=self.device)
        x.random_(-(1 << 63), None, generator=self.generator)
        return x.cpu().numpy().view(np.uint32)[:n]

    def scales(self, n, unit):
        torch = self.torch
        magnitude = (torch.rand(n, generator=self.generator, device=self.device) + 0.5) * unit
        sign = torch.randint(0, 2, (n,), generator=self.generator, device=self.device) * 2 - 1
        return (magnitude * sign).cpu().numpy()

    def normal(self, n):
        return self.torch.randn(n, generator=self.generator, device=self.device).cpu().numpy()


def fill(random, kind, shape, param, state):
    """The values of one tensor. `state` carries a matrix's scales over to its biases."""
    n = int(np.prod(shape))
    if kind == "words":
        return random.words(n)
    if kind == "scales":
        # Codes uniform on 0..2^bits-1 have this standard deviation; scale so that W is about N(0, 1/cols).
        bits, cols = param
        deviation = ((4.0 ** bits - 1) / 12.0) ** 0.5
        scales = bf16(random.scales(n, 1.0 / (deviation * cols ** 0.5)))
        state["scales"] = (scales.astype(np.uint32) << 16).view(np.float32)
        return scales
    if kind == "biases":  # zero-mean weights
        return bf16(-((1 << param[0]) - 1) / 2.0 * state.pop("scales"))
    if kind == "normal":
        return bf16(random.normal(n) * param)
    if kind == "ones":
        return bf16(1.0 + random.normal(n) * param)
    if kind == "a_log":
        return np.log(np.abs(random.normal(n)) * 4 + 0.05).astype(np.float32)
    raise ValueError(kind)


def cut_into_shards(plan, limit):
    """Lists of indices into the plan; a quantised matrix's three tensors never straddle two files."""
    shards, current, size = [], [], 0
    for i, (_, dtype, shape, kind, _) in enumerate(plan):
        tensor = tensor_bytes(dtype, shape)
        if current and size + tensor > limit and kind not in ("scales", "biases"):
            shards.append(current)
            current, size = [], 0
        current.append(i)
        size += tensor
    return shards + [current]


def header(plan, shard, unpadded):
    entries, offset = {"__metadata__": {"format": "mlx", "note": "synthetic random weights"}}, 0
    for i in shard:
        name, dtype, shape, _, _ = plan[i]
        end = offset + tensor_bytes(dtype, shape)
        entries[name] = {"dtype": STORED[dtype][0], "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries).encode()
    text += b" " * ((1 - len(text) % 2) if unpadded else -len(text) % 8)
    return struct.pack("<Q", len(text)) + text, offset


def write_config(folder, text):
    quantization = {"group_size": GROUP, "bits": 4, "mode": "affine"}
    for i in range(text["num_hidden_layers"]):
        for module in ("gate", "shared_expert_gate"):
            quantization[f"language_model.model.layers.{i}.mlp.{module}"] = {"group_size": GROUP, "bits": 8}
    config = {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
        "tie_word_embeddings": text.get("tie_word_embeddings", False),
        "text_config": text, "quantization": quantization, "quantization_config": quantization,
    }
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="the folder to write")
    parser.add_argument("--config", help="a config.json (with text_config, or flat) to take dimensions from")
    parser.add_argument("--layers", type=int, help="another number of layers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard-gib", type=float, default=4.0)
    parser.add_argument("--backend", choices=["numpy", "torch"], default="numpy")
    parser.add_argument("--unpadded", action="store_true",
                        help="leave the header at an odd length, as real converters do: every tensor is unaligned")
    parser.add_argument("--sparse", action="store_true",
                        help="write headers and leave all weights zero, as holes that take no disk: to test opening")
    parser.add_argument("--count-only", action="store_true", help="print byte counts, write nothing")
    args = parser.parse_args()
    text = dict(DEFAULT_TEXT)
    if args.config:
        with open(args.config) as file:
            config = json.load(file)
        text.update(config.get("text_config", config))
    if args.layers:
        text["num_hidden_layers"] = args.layers
    text.pop("layer_types", None)
    plan = list(tensor_plan(text))
    total = sum(tensor_bytes(dtype, shape) for _, dtype, shape, _, _ in plan)
    print(f"{len(plan)} tensors, {total / 1e9:.3f} GB; active per decoded token {active_bytes(text) / 1e9:.4f} GB", flush=True)
    if args.count_only:
        return
    if not args.out:
        parser.error("--out is needed")

    random = TorchRandom(args.seed) if args.backend == "torch" else NumpyRandom(args.seed)
    os.makedirs(args.out, exist_ok=True)
    shards = cut_into_shards(plan, args.shard_gib * 2**30)
    start, weight_map, state = time.time(), {}, {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        weight_map.update((plan[i][0], name) for i in shard)
        head, size = header(plan, shard, args.unpadded)
        with open(os.path.join(args.out, name), "wb", buffering=0) as file:
            file.write(head)
            if args.sparse:
                file.truncate(len(head) + size)
                continue
            for i in shard:
                _, dtype, shape, kind, param = plan[i]
                view = memoryview(np.ascontiguousarray(fill(random, kind, shape, param, state))).cast("B")
                assert len(view) == tensor_bytes(dtype, shape), plan[i]
                while view:
                    view = view[file.write(view):]
    with open(os.path.join(args.out, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, file)
    write_config(args.out, text)
    print(f"wrote {args.out} in {time.time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()

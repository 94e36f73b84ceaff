#!/usr/bin/env python3
"""Writes the seeds of the targets `safetensors_header` and `config` (two models of one layer, as small as they can be)
and `parser` (the texts of the test cases).

  python3 fuzz/make_seeds.py

`plain` is a raw Hugging Face layout in f32, `quantised` an MLX one in 4 bits with an 8-bit router; further seeds are
variants of their configs and damaged headers. Needs nothing but Python.
"""
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "U8": 1, "I64": 8}


def text_config(hidden):
    return {
        "hidden_size": hidden, "vocab_size": 3, "num_hidden_layers": 1, "layer_types": ["linear_attention"],
        "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8, "linear_num_key_heads": 1,
        "linear_num_value_heads": 1, "linear_key_head_dim": 1, "linear_value_head_dim": hidden,
        "linear_conv_kernel_dim": 2, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": hidden,
        "shared_expert_intermediate_size": hidden, "rms_norm_eps": 1e-6, "max_position_embeddings": 9,
        "rope_theta": 100,
    }


def tensors(hidden, quantised):
    """(name, dtype, shape) of every tensor."""
    model = "language_model.model." if quantised else "model.language_model."
    layer = f"{model}layers.0."

    def matrix(name, rows, cols, stack=(), bits=4):
        if quantised:
            yield f"{name}.weight", "U32", [*stack, rows, cols * bits // 32]
            yield f"{name}.scales", "BF16", [*stack, rows, cols // 32]
            yield f"{name}.biases", "F16", [*stack, rows, cols // 32]
        else:
            yield f"{name}.weight", "F32", [*stack, rows, cols]

    yield from matrix(f"{model}embed_tokens", 3, hidden)
    yield from matrix("language_model.lm_head" if quantised else "lm_head", 3, hidden)
    for name in (f"{model}norm", f"{layer}input_layernorm", f"{layer}post_attention_layernorm"):
        yield f"{name}.weight", "BF16", [hidden]
    net = f"{layer}linear_attn."
    for name, rows in (("in_proj_qkv", 2 + hidden), ("in_proj_z", hidden), ("in_proj_b", 1), ("in_proj_a", 1)):
        yield from matrix(net + name, rows, hidden)
    yield from matrix(f"{net}out_proj", hidden, hidden)
    yield f"{net}conv1d.weight", "BF16", [2 + hidden, 2, 1] if quantised else [2 + hidden, 1, 2]
    yield f"{net}A_log", "F32", [1]
    yield f"{net}dt_bias", "F32", [1]
    yield f"{net}norm.weight", "F32", [hidden]
    mlp = f"{layer}mlp."
    yield from matrix(f"{mlp}gate", 2, hidden, bits=8)
    if quantised:
        for name in ("gate_proj", "up_proj", "down_proj"):
            yield from matrix(f"{mlp}switch_mlp.{name}", hidden, hidden, stack=(2,))
    else:
        yield f"{mlp}experts.gate_up_proj", "BF16", [2, 2 * hidden, hidden]
        yield f"{mlp}experts.down_proj", "BF16", [2, hidden, hidden]
    for name in ("gate_proj", "up_proj", "down_proj"):
        yield from matrix(f"{mlp}shared_expert.{name}", hidden, hidden)
    yield from matrix(f"{mlp}shared_expert_gate", 1, hidden)
    yield "mtp.x", "I64", [1, 0, 2]


def safetensors(entries):
    header, offset = {"__metadata__": {"format": "mlx"}}, 0
    for name, dtype, shape in entries:
        size = SIZES[dtype]
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + bytes(i % 251 for i in range(offset))


def raw_header(text, data=b""):
    return struct.pack("<Q", len(text)) + text + data


def write(target, name, contents):
    folder = os.path.join(HERE, "seeds", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(contents if isinstance(contents, bytes) else json.dumps(contents).encode())


def main():
    for name, hidden in (("plain", 2), ("quantised", 32)):
        write("safetensors_header", f"{name}.safetensors", safetensors(tensors(hidden, name == "quantised")))
    one = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    write("safetensors_header", "one", raw_header(one, bytes(8)))
    write("safetensors_header", "none", raw_header(b"{}"))
    write("safetensors_header", "huge_length", struct.pack("<Q", 2**63 - 1) + one)
    write("safetensors_header", "overflow", raw_header(one.replace(b"[2]", b"[4294967296,4294967296]"), bytes(8)))
    write("safetensors_header", "twice", raw_header(one[:-1] + b"," + one[1:], bytes(8)))

    plain = {"model_type": "qwen3_5_moe", "text_config": text_config(2)}
    write("config", "plain.json", plain)
    write("config", "quantised.json", {
        "model_type": "qwen3_5_moe", "tie_word_embeddings": False, "eos_token_id": [1, 2], "text_config": text_config(32),
        "quantization": {
            "group_size": 32, "bits": 4, "mode": "affine", "language_model.model.layers.0.mlp.gate": {"bits": 8},
            "lm_head": True,
        },
    })
    write("config", "flat.json", {**text_config(2), "model_type": "qwen3_5_moe_text", "tie_word_embeddings": True})
    write("config", "rope.json", {
        "model_type": "qwen3_5_moe",
        "text_config": {
            **text_config(2), "full_attention_interval": 4, "layer_types": None, "norm_topk_prob": True,
            "rope_parameters": {"rope_type": "default", "type": "mrope", "rope_theta": 100, "partial_rotary_factor": 0.5},
            "rope_scaling": None, "attention_bias": False, "attn_output_gate": True, "hidden_act": "silu",
        },
    })
    write("config", "gptq.json", {**plain, "quantization_config": {"quant_method": "gptq", "bits": 4}})
    write("config", "generation.json", {
        "do_sample": True, "temperature": 1.0, "top_k": 20, "top_p": 0.95, "min_p": 0, "repetition_penalty": 1.1,
        "eos_token_id": [248046, 248044],
    })
    write("config", "python_numbers.json", b'{"temperature": NaN, "top_p": -Infinity, "x": Infinity}')
    names = [name for name, _, _ in tensors(2, False)]
    write("config", "index.json", {"metadata": {}, "weight_map": {name: "model.safetensors" for name in names}})
    write("config", "index_traversal.json", {"weight_map": {"a": "../model.safetensors"}})
    parser_seeds()
    constraint_seeds()


def parser_seeds():
    """The model texts of the cases, each with its tools; start, end and chunking vary from one to the next."""
    with open(os.path.join(HERE, "..", "tests", "data", "cases", "cases.jsonl"), encoding="utf-8") as file:
        cases = [json.loads(line) for line in file if line.strip()]
    for index, case in enumerate(cases):
        given = case["input"]
        if not isinstance(given, dict) or "model_text" not in given:
            continue
        tools = given.get("tools") or (given.get("request") or {}).get("tools") or []
        answer = (given.get("prompt_ends_with") or "").rstrip().endswith("</think>")
        settings = bytes([answer + 4 * (given.get("end") == "length"), *([index % 251] * 8)])
        text = json.dumps(tools, ensure_ascii=False) + "\0" + given["model_text"]
        write("parser", case["id"].lower(), settings + text.encode())
        if case["id"].startswith("TOOL"):
            write("parser", case["id"].lower() + "-exact", bytes([settings[0] | 24]) + settings[1:] + text.encode())


# Schemas that use every keyword, each under some of the rules.
SCHEMAS = {
    "object": {"type": "object", "required": ["name", "age"], "additionalProperties": False, "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 9}, "age": {"type": "integer", "minimum": 0},
        "kind": {"enum": ["cat", 3, None]}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2}}},
    "list": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]},
    "definitions": {"$ref": "#/definitions/A", "definitions": {
        "A": {"type": "object", "properties": {"b": {"$ref": "#/definitions/B"}, "same": {"$ref": "#/definitions/A"}}},
        "B": {"oneOf": [{"type": "boolean"}, {"type": "array", "items": {"$ref": "#/definitions/B"}}]}}},
    "endless": {"type": "object", "required": ["a"], "allOf": [{"properties": {"a": {"$ref": "#"}}}]},
    "endless-branch": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/b"}},
                       "$defs": {"b": {"type": "array", "items": {"$ref": "#/$defs/b"}, "minItems": 1}}},
    "tuple": {"type": "array", "prefixItems": [{"type": "number"}, {"const": "x"}], "items": False, "minItems": 1},
    "older-tuple": {"$schema": "http://json-schema.org/draft-07/schema", "items": [{"type": "null"}], "additionalItems": True},
    "names": {"type": "object", "patternProperties": {"^a": {"type": "integer"}}, "minProperties": 1, "maxProperties": 3,
              "additionalProperties": {"type": "boolean"}},
    "both": {"allOf": [{"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, {"required": ["a"]}]},
    "text": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]{1,3}$"}, "d": {"type": "string", "format": "date"},
             "n": {"type": "number", "multipleOf": 0.5, "maximum": 9}, "o": {"type": "object", "nullable": True}}},
}


def constraint_seeds():
    for index, (name, schema) in enumerate(SCHEMAS.items()):
        # A strict function, an answer, a required call, and an answer or calls behind thinking.
        for rules in (1, 16, 1 + 32 + 64, 1 + 4 + 8):
            settings = bytes([rules, *([index * 17 % 251] * 8)])
            write("constraint", f"{name}-{rules}", settings + json.dumps(schema).encode())


if __name__ == "__main__":
    main()

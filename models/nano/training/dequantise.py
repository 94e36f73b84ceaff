"""The exact weights of an MLX 4-bit checkpoint in float32, under Hugging Face names.

So a fast batched decoder (evaluate.py) can score precisely the weights that are shipped.
"""

import argparse
import json

import mlx.core as mx
import numpy as np
from safetensors.numpy import save_file


def main(checkpoint, out):
    mx.set_default_device(mx.cpu)
    weights = mx.load(f"{checkpoint}/model.safetensors")
    with open(f"{checkpoint}/config.json", encoding="utf8") as file:
        quantization = json.load(file)["quantization"]
    tensors = {}
    for name, value in weights.items():
        module, leaf = name.rsplit(".", 1)
        if leaf in ("scales", "biases"):
            continue
        if module + ".scales" in weights:
            override = quantization.get(module)
            bits = (override if isinstance(override, dict) else quantization).get("bits", quantization["bits"])
            scales, biases = weights[module + ".scales"], weights[module + ".biases"]
            value = mx.dequantize(value, scales, biases, group_size=64, bits=bits)
        value = np.array(value.astype(mx.float32))
        name = name.removeprefix("language_model.")
        if name.endswith("conv1d.weight"):
            value = np.moveaxis(value, 2, 1)
        if name.endswith(("layernorm.weight", "q_norm.weight", "k_norm.weight")) or name == "model.norm.weight":
            value = value - 1  # MLX stores the gain itself, Hugging Face the gain less one
        tensors[name] = np.ascontiguousarray(value)
    for name in [n for n in tensors if n.endswith("switch_mlp.gate_proj.weight")]:
        prefix = name.removesuffix("switch_mlp.gate_proj.weight")
        gate, up = tensors.pop(name), tensors.pop(prefix + "switch_mlp.up_proj.weight")
        tensors[prefix + "experts.gate_up_proj"] = np.concatenate([gate, up], 1)
        tensors[prefix + "experts.down_proj"] = tensors.pop(prefix + "switch_mlp.down_proj.weight")
    save_file(tensors, out)
    print(f"{len(tensors)} tensors, {sum(v.size for v in tensors.values())} parameters")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", help="folder of the MLX checkpoint")
    parser.add_argument("out", help="safetensors file to write")
    main(**vars(parser.parse_args()))

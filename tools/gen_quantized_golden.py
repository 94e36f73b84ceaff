#!/usr/bin/env python3
"""Writes what MLX makes of affine-quantised rows: golden vectors for lily-checkpoint's tests.

  gen_quantized_golden.py [OUT]      default: crates/lily-checkpoint/tests/data/mlx_quantized.safetensors

For bits 2, 3, 4, 5, 6, 8, groups 32, 64, 128 and scales in f32, f16, bf16: `{bits}.{group}.{dtype}.` and `codes` (u32
[2, 128 * bits / 32], by mx.quantize), `scales`, `biases` ([2, 128 / group]) and `weights` (f32 [2, 128], by
mx.dequantize with scales and biases widened to f32). Made with mlx 0.32.4 on the CPU (pip install "mlx[cpu]").

Given bf16 scales and biases, MLX itself rounds the product and then the sum to bf16; Lily keeps f32, which is closer to
the stored values. That difference is not in these vectors.
"""
import os
import sys

import mlx.core as mx
import numpy as np

ROWS, COLS = 2, 128
DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    default = os.path.join(here, "../crates/lily-checkpoint/tests/data/mlx_quantized.safetensors")
    out = sys.argv[1] if len(sys.argv) > 1 else default
    mx.set_default_device(mx.cpu)
    random = np.random.default_rng(20260101)
    tensors = {}
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            for name, dtype in DTYPES.items():
                weights = mx.array(random.standard_normal((ROWS, COLS), dtype=np.float32))
                codes, scales, biases = mx.quantize(weights, group_size=group, bits=bits)
                scales, biases = scales.astype(dtype), biases.astype(dtype)
                widened = mx.dequantize(
                    codes, scales.astype(mx.float32), biases.astype(mx.float32), group_size=group, bits=bits
                )
                for part, value in (("codes", codes), ("scales", scales), ("biases", biases), ("weights", widened)):
                    tensors[f"{bits}.{group}.{name}.{part}"] = value
    mx.save_safetensors(out, tensors)
    print(f"{len(tensors)} tensors, {os.path.getsize(out)} bytes in {out}")


if __name__ == "__main__":
    main()

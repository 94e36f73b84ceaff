#!/usr/bin/env python3
"""Compares transformers in float32 on the CPU with a reference file.

  compare_transformers.py FOLDER FILE.safetensors [--sequences N]

FOLDER: a raw Hugging Face checkpoint (tools/dequantise_nano.py makes nano's). FILE: see docs/evaluation.md.
Install requirements-transformers.txt first.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoConfig, AutoModelForCausalLM


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--sequences", type=int)
    arguments = parser.parse_args()
    config = AutoConfig.from_pretrained(arguments.folder)
    model = AutoModelForCausalLM.from_pretrained(
        arguments.folder, config=getattr(config, "text_config", config), dtype=torch.float32
    ).eval()
    file = load_file(arguments.reference)
    start, positions, worst, shift, divergence = 0, 0, 0.0, 0.0, 0.0
    for length in file["sequence_lengths"][: arguments.sequences]:
        rows = slice(start, start + int(length))
        start += int(length)
        ids = torch.from_numpy(file["tokens"][rows].astype(np.int64))[None]
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits[0].double()
        normaliser = torch.logsumexp(logits, -1)
        found = (logits - normaliser[:, None]).gather(-1, torch.from_numpy(file["top_ids"][rows].astype(np.int64))).numpy()
        wanted = file["top_logprobs"][rows].astype(np.float64)
        worst = max(worst, np.abs(found - wanted).max())
        shift = max(shift, np.abs(normaliser.numpy() - file["log_sum_exp"][rows]).max())
        positions += int(length)
        print(f"{positions:6} positions: log-probabilities differ by at most {worst:.2e}, log-sum-exp by {shift:.2e}", flush=True)


if __name__ == "__main__":
    main()

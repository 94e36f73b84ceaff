#!/usr/bin/env python3
"""Writes nano-long.safetensors: lily-nano's two best tokens after each of 20,000 tokens of one text.

  make_long_golden.py FOLDER MLX

FOLDER: nano as a raw Hugging Face checkpoint (tools/dequantise_nano.py --dtype f32). By transformers in float32 on the CPU,
which reads a prompt in blocks; mlx-lm goes through it token by token and takes over half an hour. What mlx-lm says about the
first 2,200 tokens is checked first (make_goldens.py nano-long FILE). Install requirements-transformers.txt.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
import transformers
from reference_file import ReferenceFile
from safetensors.numpy import load_file
from tokenizers import Tokenizer

GOLDENS = Path(__file__).resolve().parents[2] / "tests" / "data" / "goldens"
LENGTH = 20_000
# Of log-probabilities, in nats: what two float32 implementations may differ by.
AGREE = 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("mlx", type=Path, help="what `make_goldens.py nano-long` wrote")
    arguments = parser.parse_args()
    text = (GOLDENS / "text" / "moby-dick.txt").read_text()
    tokens = Tokenizer.from_file(str(arguments.folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids[:LENGTH]
    assert len(tokens) == LENGTH, f"the text has {len(tokens)} tokens"

    config = transformers.AutoConfig.from_pretrained(arguments.folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        arguments.folder, config=getattr(config, "text_config", config), dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].numpy()

    mlx = load_file(arguments.mlx)
    count = len(mlx["tokens"])
    assert mlx["tokens"].tolist() == tokens[:count], "another text"
    wide = logits[:count].astype(np.float64)
    log_sum_exp = np.log(np.exp(wide - wide.max(-1, keepdims=True)).sum(-1)) + wide.max(-1)
    found = np.take_along_axis(wide, mlx["top_ids"].astype(np.int64), -1) - log_sum_exp[:, None]
    worst = np.abs(found - mlx["top_logprobs"]).max()
    print(f"mlx-lm's log-probabilities at its {count} positions: off by at most {worst:.1e} nats")
    assert worst <= AGREE

    file = ReferenceFile(
        model.config.vocab_size,
        2,
        implementation=f"transformers {transformers.__version__}, torch {torch.__version__}, float32, CPU",
        model="lily-nano",
        text="goldens/text/moby-dick.txt",
    )
    file.add("text", tokens, logits)
    file.save(GOLDENS / "nano-long.safetensors")
    print(f"{file.count} positions")


if __name__ == "__main__":
    main()

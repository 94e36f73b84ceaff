"""Pass rates per task and held-out perplexity of a checkpoint, by a small batched decoder on the CPU.

WEIGHTS has Hugging Face names; dequantise.py writes them from the shipped 4-bit file.
"""

import argparse
import json
import math
import os
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

import model as M
from chats.checks import SUITE, passed
from chats.conversation import render
from chats.sampler import Sampler
from decoder import generate

CHUNK = 64  # model.py works on whole chunks of tokens
MOST = {"long_4k": 20, "long_1k": 40}  # the slow tasks get fewer chats


@torch.inference_mode()
def perplexity(weights, c, tokenizer, data, length=1024, documents=40):
    """Nats per token and perplexity by source, over the first tokens of each document."""
    with open(f"{data}/text_eval_by_source.json", encoding="utf8") as file:
        sources = json.load(file)
    sums = {}
    for name, docs in sources.items():
        nats, tokens = 0.0, 0
        for document in docs[:documents]:
            ids = tokenizer.encode(document).ids[:length]
            n, padded = len(ids), -(-len(ids) // CHUNK) * CHUNK
            x = torch.zeros(1, padded, dtype=torch.long)
            x[0, :n] = torch.tensor(ids)
            hidden = M.forward(weights, c, x, torch.arange(padded)[None])[0][:, : n - 1]
            logits = M.rms(hidden, weights["model.norm.weight"], c.eps)[0] @ weights["lm_head.weight"].T
            nats += F.cross_entropy(logits, x[0, 1:n], reduction="sum").item()
            tokens += n - 1
        sums[name] = (nats, tokens)
    sums["all"] = tuple(map(sum, zip(*sums.values(), strict=True)))
    return {
        name: {"nll": round(nats / tokens, 4), "ppl": round(math.exp(nats / tokens), 2), "tokens": tokens}
        for name, (nats, tokens) in sums.items()
    }


def pass_rate(weights, c, tokenizer, data, make, total):
    """How many of total chats, half of them with thinking, are answered as asked; and the first failures."""
    stop = {tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")}
    sampler, start = Sampler(data, 4242, evaluation=True), time.time()
    chats = [make(sampler, i % 2 == 0) for i in range(total)]
    texts = [render(*chat) for chat in chats]
    prompts = [tokenizer.encode(prompt).ids for prompt, _ in texts]
    limits = [len(tokenizer.encode(completion).ids) + 30 for _, completion in texts]
    answers = [tokenizer.decode(ids, skip_special_tokens=False) for ids in generate(weights, c, prompts, limits, stop)]
    good = [passed(chat, answer) for (chat, _), answer in zip(chats, answers, strict=True)]
    failures = [
        {"prompt": prompt[-300:], "want": completion, "got": answer}
        for (prompt, completion), answer, fine in zip(texts, answers, good, strict=True)
        if not fine
    ]
    return {
        "pass": sum(good),
        "of": total,
        "thinking": f"{sum(good[0::2])}/{len(good[0::2])}",
        "no_thinking": f"{sum(good[1::2])}/{len(good[1::2])}",
        "seconds": round(time.time() - start),
        "failures": failures[:6],
    }


def main(weights, data, out, chats, tasks, tokenizer, threads):
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    tensors = {n.replace("model.language_model.", "model."): t.float() for n, t in load_file(weights).items()}
    tokenizer = Tokenizer.from_file(tokenizer or f"{data}/tokenizer.json")
    c, results = M.Cfg(), {}
    if os.path.exists(out):
        with open(out, encoding="utf8") as file:
            results = json.load(file)
    for name in tasks or ["perplexity", *SUITE]:
        if name == "perplexity":
            results[name] = perplexity(tensors, c, tokenizer, data)
            print("perplexity:", {source: row["ppl"] for source, row in results[name].items()}, flush=True)
        else:
            total = min(chats, MOST.get(name, chats))
            row = results[name] = pass_rate(tensors, c, tokenizer, data, SUITE[name], total)
            rates = f"thinking {row['thinking']}, without {row['no_thinking']}"
            print(f"{name:14s} {row['pass']:3d} of {total}, {rates}, {row['seconds']} s", flush=True)
        with open(out, "w", encoding="utf8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", help="safetensors file")
    parser.add_argument("data", help="the DATA folder")
    parser.add_argument("out", help="JSON file of results; tasks already in it are kept")
    parser.add_argument("--chats", type=int, default=50, help="chats per task (50)")
    parser.add_argument("--tasks", nargs="*", choices=["perplexity", *SUITE], help="only these")
    parser.add_argument("--tokenizer", help="tokenizer.json (the one in DATA)")
    parser.add_argument("--threads", type=int, default=1)
    main(**vars(parser.parse_args()))

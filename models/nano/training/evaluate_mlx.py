"""Pass rates per task of an MLX checkpoint through mlx-lm itself: the outside check of evaluate.py. Slow on x86-64."""

import argparse
import json
import time

import mlx.core as mx
from mlx_lm import load
from mlx_lm.models.cache import make_prompt_cache

from chats.checks import SUITE, passed
from chats.conversation import render
from chats.sampler import Sampler


def generate(model, prompt, limit, stop):
    """Greedy continuation of one prompt (a list of ids), the stop id included."""
    cache = make_prompt_cache(model)
    logits = model(mx.array([prompt]), cache=cache)[:, -1]
    out = []
    while len(out) < limit:
        out.append(int(mx.argmax(logits[0]).item()))
        if out[-1] in stop:
            break
        logits = model(mx.array([[out[-1]]]), cache=cache)[:, -1]
    return out


def main(checkpoint, data, out, chats, tasks):
    mx.set_default_device(mx.cpu)
    model, tokenizer = load(checkpoint)
    stop = {tokenizer.convert_tokens_to_ids(name) for name in ("<|im_end|>", "<|endoftext|>")}
    results = {}
    for name in tasks or SUITE:
        sampler, start, good, failures = Sampler(data, 4242, evaluation=True), time.time(), 0, []
        for i in range(chats):
            chat, thinking = SUITE[name](sampler, i % 2 == 0)
            prompt, completion = render(chat, thinking)
            ids = generate(model, tokenizer.encode(prompt, add_special_tokens=False), 260, stop)
            answer = tokenizer.decode(ids, skip_special_tokens=False)
            if passed(chat, answer):
                good += 1
            else:
                failures.append({"prompt": prompt[-400:], "want": completion, "got": answer})
        seconds = round(time.time() - start)
        results[name] = {"pass": good, "of": chats, "seconds": seconds, "failures": failures[:6]}
        print(f"{name:14s} {good:3d} of {chats}, {seconds} s", flush=True)
        with open(out, "w", encoding="utf8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", help="folder of the MLX checkpoint")
    parser.add_argument("data", help="the DATA folder")
    parser.add_argument("out", help="JSON file of results")
    parser.add_argument("--chats", type=int, default=50, help="chats per task (50)")
    parser.add_argument("--tasks", nargs="*", choices=list(SUITE), help="only these")
    main(**vars(parser.parse_args()))

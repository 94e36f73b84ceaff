#!/usr/bin/env python3
"""Makes the goldens that the parity tests read, with mlx-lm on the CPU in float32.

  make_goldens.py nano CHECKPOINT         tests/data/goldens/nano.safetensors and nano-greedy.json
  make_goldens.py nano-long CHECKPOINT    nano-long-mlx.safetensors, what make_long_golden.py is held to
  make_goldens.py activations CHECKPOINT  CHECKPOINT/lily-activations.safetensors, for a model of few layers

Install requirements.txt first. README.md in this folder says what is stored and how long it takes.
"""
import argparse
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from mlx_model import PRECISION, PRODUCER, MlxModel
from reference_file import ReferenceFile

HERE = Path(__file__).parent
GOLDENS = HERE.parents[1] / "tests" / "data" / "goldens"
TOP = 64  # tokens stored per position
FULL_ROWS = 16  # positions of which all logits are stored
ANSWER_LIMIT = 160  # tokens
LONG = 2_200  # tokens of the long text
ACTIVATION_TOKENS = 32


def metadata(**more):
    return {"producer": PRODUCER, "precision": PRECISION, "script": "tools/parity/make_goldens.py", **more}


def stop_ids(folder):
    ids = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    return {ids} if isinstance(ids, int) else set(ids)


def texts(model):
    """The text sequences: the passages, then the beginning of Moby Dick."""
    passages = (GOLDENS / "text" / "passages.txt").read_text().split("\n%%\n")
    yield from (model.tokenizer.encode(p.strip(), add_special_tokens=False) for p in passages)
    yield moby_dick(model)[:512]


def moby_dick(model):
    return model.tokenizer.encode((GOLDENS / "text" / "moby-dick.txt").read_text(), add_special_tokens=False)


def nano(folder):
    model = MlxModel(folder)
    vocab = model.vocab_size
    tools, stop = json.loads((HERE / "tools.json").read_text()), stop_ids(folder)
    sequences, greedy = [("text", tokens) for tokens in texts(model)], []
    for chat in json.loads((HERE / "chats.json").read_text()):
        prompt = model.tokenizer.apply_chat_template(
            chat["messages"],
            tools=tools[chat["tools"]] if "tools" in chat else None,
            enable_thinking=chat.get("thinking", False),
            add_generation_prompt=True,
            return_dict=False,
        )
        answer, margins = model.greedy(prompt, ANSWER_LIMIT, stop)
        text = model.tokenizer.decode(answer)
        print(f"{chat['name']:24} {len(prompt):4} + {len(answer):3} tokens, margin {min(margins):.3f}: {text!r}", flush=True)
        greedy.append({"name": chat["name"], "prompt": prompt, "answer": answer, "min_margin": round(min(margins), 4), "text": text})
        sequences.append(("chat", prompt + answer))
    total = sum(len(tokens) for _, tokens in sequences)
    full = {round((i + 0.5) * total / FULL_ROWS) for i in range(FULL_ROWS)}
    file = ReferenceFile(vocab, TOP, **metadata(model="lily-nano", text="goldens/text, tools/parity/chats.json"))
    for kind, tokens in sequences:
        rows = [row - file.count for row in sorted(full) if 0 <= row - file.count < len(tokens)]
        file.add(kind, tokens, model.logits(tokens), rows)
    file.save(GOLDENS / "nano.safetensors")
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in greedy)
    (GOLDENS / "nano-greedy.json").write_text(f"[\n{lines}\n]\n")
    chats = sum(n for n, kind in zip(file.lengths, file.kinds) if kind == 1)
    print(f"{file.count} positions, {chats} of them chats")


def nano_long(folder, length):
    model = MlxModel(folder)
    tokens = moby_dick(model)[:length]
    file = ReferenceFile(model.vocab_size, 2, **metadata(model="lily-nano", text="goldens/text/moby-dick.txt"))
    file.add("text", tokens, model.logits(tokens))
    file.save(Path("nano-long-mlx.safetensors"))


def activations(folder):
    """Logits, router logits and layer outputs after each token of a prompt of spread-out ids; README.md, "Activations"."""
    model = MlxModel(folder)
    tokens = [i * 2654435761 % 2**32 % model.vocab_size for i in range(ACTIVATION_TOKENS)]
    routers, outputs = model.record()
    logits = model.logits(tokens)
    tensors = {
        "tokens": np.array(tokens, np.uint32),
        "router_logits": np.stack([np.array(r[0]) for r in routers]),
        "layer_outputs": np.stack([np.array(o[0]) for o in outputs]),
        "logits": logits,
    }
    for name, tensor in tensors.items():
        assert name == "tokens" or tensor.dtype == np.float32
        print(f"{name:14} {tensor.shape}, standard deviation {tensor.std():.3f}")
    save_file(tensors, folder / "lily-activations.safetensors", {"format": "lily-activations", **metadata()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["nano", "nano-long", "activations"])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--tokens", type=int, default=LONG, help="of the long text (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.what == "nano-long":
        nano_long(arguments.checkpoint, arguments.tokens)
    else:
        {"nano": nano, "activations": activations}[arguments.what](arguments.checkpoint)


if __name__ == "__main__":
    main()

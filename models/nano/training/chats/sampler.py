"""The stream of all tasks from one seed."""

import gzip
import json
import os
import random

from .conversation import Bank
from .facts import facts
from .numbers import arithmetic, compare, count
from .passages import long_passage, passage
from .records import as_json
from .small_talk import greet, identity
from .stories import story
from .tools import tools
from .turns import memory, multi
from .words import case, copy, sort, spell

# Each task and its weight in the mixture.
TASKS = [
    (greet, 5),
    (identity, 4),
    (copy, 8),
    (count, 5),
    (arithmetic, 9),
    (compare, 3),
    (sort, 8),
    (spell, 6),
    (case, 4),
    (passage, 10),
    (long_passage, 1),
    (as_json, 8),
    (tools, 14),
    (memory, 6),
    (multi, 4),
    (facts, 6),
    (story, 4),
]


def load_json(path):
    """The contents of a JSON file, or of the same with .gz behind its name."""
    if os.path.exists(path + ".gz"):
        with gzip.open(path + ".gz") as file:
            return json.load(file)
    with open(path, encoding="utf8") as file:
        return json.load(file)


class Sampler:
    """Stream of (prompt, completion) chats and plain text documents from one seed."""

    def __init__(self, folder, seed, evaluation=False):
        self.bank, self.rng = Bank(folder, evaluation), random.Random(seed)
        self.text = load_json(os.path.join(folder, "text_eval.json" if evaluation else "text_train.json"))
        self.fns, self.w = zip(*TASKS, strict=True)

    def chat(self, fn=None, thinking=None, target=None):
        """(conversation, thinking): of task fn, or of a random one; target is a long passage's size."""
        fn = fn or self.rng.choices(self.fns, self.w)[0]
        if target is None:
            target = int(1500 * 2 ** self.rng.uniform(0, 1.8))
        if thinking is None:
            thinking = self.rng.random() < 0.55
        if fn is long_passage:
            c = long_passage(self.rng, self.bank, self.text, target)
        elif fn is arithmetic:
            c = arithmetic(self.rng, self.bank, thinking)
        else:
            c = fn(self.rng, self.bank)
        return c, thinking

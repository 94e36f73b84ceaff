"""Packed training rows: documents side by side, with a weight on every token."""

import os
import random
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from chats.conversation import render
from chats.passages import long_passage
from chats.sampler import Sampler
from chats.stories import story_text

TEXT_WEIGHT, PROMPT_WEIGHT = 50, 4  # in percent; a completion's tokens have 100


@dataclass
class Mixture:
    """How often each kind of document is drawn."""

    text: float = 0.07  # share of plain text
    story: float = 0.02  # share of stories without a chat around them
    long_rows: float = 0.12  # share of rows of 4096 tokens, which mostly open with a long passage


class Packer:
    """Draws documents from one seed and packs them."""

    def __init__(self, data, texts, seed, mixture, text_seed=None, evaluation=False):
        self.tokenizer = Tokenizer.from_file(f"{data}/tokenizer.json")
        self.end = self.tokenizer.token_to_id("<|endoftext|>")
        self.sampler = Sampler(data, seed, evaluation)
        self.rng = random.Random(seed + 1 if text_seed is None else text_seed)
        self.texts, self.mixture = texts, mixture

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def draw(self, left, long):
        """A text, as an array of ids, or a chat, as (prompt ids, completion ids)."""
        x = self.rng.random()
        if long:
            prompt, completion = render(*self.sampler.chat(long_passage, target=int(self.rng.uniform(2500, 12300))))
        elif x < self.mixture.text or left < 90:
            text = self.rng.choice(self.texts)
            if len(text) > 700:
                start = self.rng.randrange(len(text) - 500)
                text = text[start:] if self.rng.random() < 0.5 else text
            return text[:1000]
        elif x < self.mixture.text + self.mixture.story:
            story = story_text(self.sampler.rng, self.sampler.bank)
            return np.array(self.ids(story) + [self.end], np.uint16)
        else:
            prompt, completion = render(*self.sampler.chat())
        chat = self.ids(prompt), self.ids(completion)
        if sum(map(len, chat)) > left:
            if left > 400 and len(chat[0]) > 2000:
                return self.draw(left, long)
            if len(chat[0]) + 8 > left:
                return self.rng.choice(self.texts)[:left]
        return chat

    def rows(self, count, length):
        """One batch: ids and weights [count, length + 1], positions [count, length], document starts, longest document.

        A weight counts for predicting that token. Positions start anew in every document.
        """
        ids = np.full((count, length + 1), self.end, np.uint16)
        weights = np.zeros((count, length + 1), np.uint8)
        positions = np.zeros((count, length), np.int32)
        for row in range(count):
            i = 0
            long = length > 2048 and self.rng.random() < 0.75
            while i < length:
                left = length + 1 - i
                document = self.draw(left, long and i < length // 8)
                if isinstance(document, tuple):
                    prompt, completion = document
                    document = np.array(prompt + completion + [self.end], np.uint16)
                    n = min(len(document), left)
                    weights[row, i + 1 : i + min(len(prompt), n)] = PROMPT_WEIGHT
                    end = min(i + len(prompt) + len(completion) - 1, i + n)
                    weights[row, min(i + len(prompt), length + 1) : end] = 100
                else:
                    n = min(len(document), left)
                    weights[row, i + 1 : i + n] = TEXT_WEIGHT
                ids[row, i : i + n] = document[:n]
                inside = min(n, length - i)
                positions[row, i : i + inside] = np.arange(inside)
                i += n
        return (ids, weights, positions, *starts(positions))


def starts(positions):
    """Where each document of a flattened batch starts, with the end behind them, and the longest document's length."""
    bounds = np.append(np.flatnonzero(positions.reshape(-1) == 0), positions.size).astype(np.int32)
    return bounds, int(np.diff(bounds).max())


def text_rows(texts, end, count=8, length=2048):
    """A batch of plain texts, every token with full weight."""
    ids = np.full((count, length + 1), end, np.uint16)
    weights = np.zeros((count, length + 1), np.uint8)
    positions = np.zeros((count, length), np.int32)
    following = iter(texts * 50)
    for row in range(count):
        i = 0
        while i < length:
            text = next(following)[:1500]
            n, inside = min(len(text), length + 1 - i), min(len(text), length - i)
            ids[row, i : i + n] = text[:n]
            weights[row, i + 1 : i + n] = 100
            positions[row, i : i + inside] = np.arange(inside)
            i += n
    return (ids, weights, positions, *starts(positions))


def work(queue, data, texts, seed, mixture, tokens):
    """A worker process: batches of about `tokens` tokens, for ever."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    packer = Packer(data, texts, seed, mixture)
    while True:
        length = 4096 if packer.rng.random() < mixture.long_rows else 2048
        queue.put(packer.rows(max(1, tokens // length), length))

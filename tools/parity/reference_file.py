"""Writes the reference file that docs/evaluation.md describes."""
import numpy as np
from safetensors.numpy import save_file

KINDS = {"text": 0, "chat": 1}


class ReferenceFile:
    """Collects sequences with the logits after each of their tokens."""

    def __init__(self, vocab_size, top, **metadata):
        self.vocab_size, self.top = vocab_size, top
        self.metadata = {"format": "lily-reference", "format_version": "1", "vocab_size": str(vocab_size), **metadata}
        self.parts = {name: [] for name in ("tokens", "log_sum_exp", "top_ids", "top_logprobs", "target_logprobs")}
        self.lengths, self.kinds = [], []
        self.full_rows, self.full_logits = [], []
        self.count = 0

    def add(self, kind, tokens, logits, full=()):
        """`tokens` [n], `logits` [n, vocab] float32 after each; `full`: indices whose logits are stored whole."""
        n = len(tokens)
        assert logits.shape == (n, self.vocab_size) and logits.dtype == np.float32
        wide = logits.astype(np.float64)
        peak = wide.max(-1, keepdims=True)
        log_sum_exp = np.log(np.exp(wide - peak).sum(-1)) + peak[:, 0]
        order = np.argsort(-logits, axis=-1, kind="stable")[:, : self.top]
        logprobs = np.take_along_axis(wide, order, -1) - log_sum_exp[:, None]
        target = np.full(n, np.nan)
        target[:-1] = wide[np.arange(n - 1), tokens[1:]] - log_sum_exp[:-1]
        for name, value in (
            ("tokens", np.asarray(tokens)),
            ("log_sum_exp", log_sum_exp),
            ("top_ids", order),
            ("top_logprobs", logprobs),
            ("target_logprobs", target),
        ):
            self.parts[name].append(value)
        self.lengths.append(n)
        self.kinds.append(KINDS[kind])
        for index in full:
            self.full_rows.append(self.count + index)
            self.full_logits.append(logits[index])
        self.count += n

    def save(self, path):
        ids = np.uint16 if self.vocab_size <= 65536 else np.uint32
        types = {"tokens": ids, "top_ids": ids}
        tensors = {
            name: np.ascontiguousarray(np.concatenate(parts).astype(types.get(name, np.float32)))
            for name, parts in self.parts.items()
        }
        tensors["sequence_lengths"] = np.array(self.lengths, np.uint32)
        tensors["sequence_kinds"] = np.array(self.kinds, np.uint32)
        if self.full_rows:
            tensors["full_rows"] = np.array(self.full_rows, np.uint32)
            tensors["full_logits"] = np.stack(self.full_logits)
        save_file(tensors, path, self.metadata)

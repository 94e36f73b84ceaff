"""mlx-lm as an oracle: on the CPU, activations in float32."""
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model, load_tokenizer

PRODUCER = f"mlx-lm {version('mlx-lm')}, mlx {version('mlx')}"
PRECISION = "CPU, float32 activations"


class MlxModel:
    """A checkpoint folder, opened by mlx-lm. Scales, biases and gains are widened to float32, which makes every
    activation float32; codes stay packed."""

    def __init__(self, folder):
        mx.set_default_device(mx.cpu)
        self.folder = Path(folder)
        self.model, self.config = load_model(self.folder)
        self.model.set_dtype(mx.float32)
        self.vocab_size = self.config["text_config"]["vocab_size"]

    @cached_property
    def tokenizer(self):
        return load_tokenizer(self.folder)

    def logits(self, tokens, chunk=512):
        """Logits [n, vocab] after each token of one sequence."""
        cache, out = make_prompt_cache(self.model), []
        for start in range(0, len(tokens), chunk):
            logits = self.model(mx.array([tokens[start : start + chunk]]), cache=cache)[0]
            assert logits.dtype == mx.float32
            out.append(np.array(logits))
        return np.concatenate(out)

    def greedy(self, prompt, limit, stop):
        """Greedy answer: tokens (a final stop id included) and each token's margin to the second best, in nats."""
        cache = make_prompt_cache(self.model)
        logits = self.model(mx.array([prompt]), cache=cache)[0, -1]
        answer, margins = [], []
        while len(answer) < limit:
            row = np.array(logits)
            best = int(row.argmax())
            answer.append(best)
            margins.append(float(row[best] - np.partition(row, -2)[-2]))
            if best in stop:
                break
            logits = self.model(mx.array([[best]]), cache=cache)[0, -1]
        return answer, margins

    def record(self):
        """From now on keeps what each router and each layer answers: two lists, layer by layer as they run."""
        routers, outputs = [], []
        layers = self.model.language_model.model.layers
        for i, layer in enumerate(layers):
            layer.mlp.gate = Recorder(layer.mlp.gate, routers)
            layers[i] = Recorder(layer, outputs)
        return routers, outputs


class Recorder(nn.Module):
    """A module that keeps what it answers."""

    def __init__(self, inner, kept):
        super().__init__()
        self.inner, self._kept = inner, kept

    def __call__(self, *args, **kwargs):
        out = self.inner(*args, **kwargs)
        self._kept.append(out)
        return out

    def __getattr__(self, name):
        return super().__getattr__(name) if name in ("inner", "_kept") else getattr(self.inner, name)

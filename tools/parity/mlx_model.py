"""mlx-lm as an oracle: on the CPU, activations in float32."""
from importlib.metadata import version

import mlx.core as mx
import numpy as np
from mlx_lm import load
from mlx_lm.models.cache import make_prompt_cache

PRODUCER = f"mlx-lm {version('mlx-lm')}, mlx {version('mlx')}"
PRECISION = "CPU, float32 activations"


class MlxModel:
    """A checkpoint folder, opened by mlx-lm. Scales, biases and gains are widened to float32, which makes every
    activation float32; codes stay packed."""

    def __init__(self, folder, tokenizer_config=None):
        mx.set_default_device(mx.cpu)
        self.model, self.tokenizer = load(str(folder), tokenizer_config=tokenizer_config or {})
        self.model.set_dtype(mx.float32)

    def logits(self, tokens, chunk=512, rows=None):
        """Logits [n, vocab] after each token of one sequence; `rows`: only those after these indices."""
        cache, out = make_prompt_cache(self.model), []
        for start in range(0, len(tokens), chunk):
            logits = self.model(mx.array([tokens[start : start + chunk]]), cache=cache)[0]
            assert logits.dtype == mx.float32
            if rows is not None:
                logits = logits[mx.array([r - start for r in rows if start <= r < start + chunk], dtype=mx.int32)]
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

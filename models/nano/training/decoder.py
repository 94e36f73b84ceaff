"""A small batched decoder over model.py's functions: one token a step, greedy."""

import torch
import torch.nn.functional as F

import model as M


class Decoder:
    """The state of a batch of sequences. Each row is fed its own prompt first, so no padding is involved."""

    def __init__(self, weights, c, rows, length):
        self.P, self.c, self.position = weights, c, 0
        linear = [i for i in range(c.layers) if not c.full(i)]
        full = [i for i in range(c.layers) if c.full(i)]
        channels = (2 * c.k_heads + c.v_heads) * c.lin_dim
        self.S = {i: torch.zeros(rows, c.v_heads, c.lin_dim, c.lin_dim) for i in linear}
        self.window = {i: torch.zeros(rows, c.conv - 1, channels) for i in linear}
        self.kv = {i: tuple(torch.zeros(rows, length, c.head_dim) for _ in range(2)) for i in full}

    def step(self, ids):
        """The last hidden state of every row, after its token."""
        x = F.embedding(ids, self.P["model.embed_tokens.weight"])
        for i in range(self.c.layers):
            layer = M.under(self.P, f"model.layers.{i}.")
            x = self.attention(i, x) if self.c.full(i) else self.gated_delta_net(i, x)
            experts = [layer(f"mlp.{name}") for name in M.MOE_WEIGHTS]
            x = M.moe(x[:, None], layer("post_attention_layernorm.weight"), *experts, self.c)[0][:, 0]
        self.position += 1
        return x

    def attention(self, i, x):
        c, at = self.c, self.position
        norm, w = self.P[f"model.layers.{i}.input_layernorm.weight"], M.under(self.P, f"model.layers.{i}.self_attn.")
        projections = [w(f"{n}.weight") for n in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm")]
        positions = torch.full((len(x), 1), at)
        q, k, v, gate = M.attn_pre(x[:, None], positions, norm, *projections, c)
        K, V = self.kv[i]
        K[:, at], V[:, at] = k[:, 0, 0], v[:, 0, 0]
        scores = (q[:, 0] @ K[:, : at + 1].transpose(1, 2)) * c.head_dim**-0.5
        o = scores.softmax(-1) @ V[:, : at + 1]
        return M.attn_post(x[:, None], o[:, None], gate, w("o_proj.weight"))[:, 0]

    def gated_delta_net(self, i, x):
        c, rows = self.c, len(x)
        w = M.under(self.P, f"model.layers.{i}.linear_attn.")
        h = M.rms(x, self.P[f"model.layers.{i}.input_layernorm.weight"], c.eps)
        window = torch.cat([self.window[i], (h @ w("in_proj_qkv.weight").T)[:, None]], 1)
        self.window[i] = window[:, 1:]
        mixed = F.silu((window * w("conv1d.weight")[:, 0].T).sum(1))
        keys = c.k_heads * c.lin_dim
        q, k, v = mixed.split([keys, keys, c.v_heads * c.lin_dim], -1)

        def heads(t):
            t = t.view(rows, c.k_heads, -1)
            return t * torch.rsqrt(t.pow(2).sum(-1, keepdim=True) + 1e-6)

        repeat = c.v_heads // c.k_heads
        q = (heads(q) * c.lin_dim**-0.5).repeat_interleave(repeat, 1)
        k = heads(k).repeat_interleave(repeat, 1)
        v = v.view(rows, c.v_heads, -1)
        beta = (h @ w("in_proj_b.weight").T).sigmoid()[..., None]
        decay = -w("A_log").exp() * F.softplus(h @ w("in_proj_a.weight").T + w("dt_bias"))
        S = self.S[i].mul_(decay.exp()[..., None, None])
        delta = (v - (k[:, :, None] @ S)[:, :, 0]) * beta
        S += k[..., None] * delta[:, :, None]
        o = (q[:, :, None] @ S)[:, :, 0]
        o = o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + c.eps) * w("norm.weight")
        o = o * F.silu((h @ w("in_proj_z.weight").T).view(rows, c.v_heads, -1))
        return x + o.reshape(rows, -1) @ w("out_proj.weight").T

    def keep(self, rows):
        """Drops every other row."""
        for i in self.S:
            self.S[i], self.window[i] = self.S[i][rows], self.window[i][rows]
        for i in self.kv:
            self.kv[i] = tuple(t[rows] for t in self.kv[i])


@torch.inference_mode()
def generate(weights, c, prompts, limits, stop):
    """Greedy continuations of prompts (lists of ids), each up to an id in stop or to its limit."""
    length = max(len(p) + n for p, n in zip(prompts, limits, strict=True)) + 1
    decoder = Decoder(weights, c, len(prompts), length)
    out, rows = [[] for _ in prompts], list(range(len(prompts)))
    current = torch.tensor([prompt[0] for prompt in prompts])
    while rows:
        x = decoder.step(current)
        at = decoder.position
        following = [prompts[r][at] if at < len(prompts[r]) else -1 for r in rows]
        done = [j for j, r in enumerate(rows) if at >= len(prompts[r])]
        if done:
            logits = M.rms(x[done], weights["model.norm.weight"], c.eps) @ weights["lm_head.weight"].T
            for j, token in zip(done, logits.argmax(-1).tolist(), strict=True):
                following[j] = token
                out[rows[j]].append(token)
        ended = [bool(out[r]) and (out[r][-1] in stop or len(out[r]) >= limits[r]) for r in rows]
        kept = [j for j, end in enumerate(ended) if not end]
        if len(kept) < len(rows):
            decoder.keep(torch.tensor(kept, dtype=torch.long))
            rows = [rows[j] for j in kept]
        current = torch.tensor([following[j] for j in kept])
    return out

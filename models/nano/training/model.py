"""Compact training implementation of the Qwen3.5/3.6 MoE text model (Gated DeltaNet + gated attention + sparse MoE).

Functional: a dict of tensors with Hugging Face names, documents packed in rows. Each row of a batch holds several
documents; state, convolution and attention never cross a document's start, so a packed row computes exactly what
the documents alone would. The sparse MoE is computed densely with the unselected experts' weights at zero, which
is the same function and much faster at this size.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass
class Cfg:
    """Dimensions; the defaults are nano's."""

    vocab: int = 5120
    hidden: int = 320
    layers: int = 8
    heads: int = 8
    kv_heads: int = 1
    head_dim: int = 256
    rotary: int = 64
    theta: float = 1e7
    k_heads: int = 2
    v_heads: int = 4
    lin_dim: int = 128
    conv: int = 4
    experts: int = 32
    top_k: int = 8
    inter: int = 64
    shared: int = 64
    eps: float = 1e-6

    def full(self, i):
        """True if layer i is full attention."""
        return i % 4 == 3


def init_params(c, device, seed=0):
    """A fresh set of float32 parameters under Hugging Face names."""
    g = torch.Generator().manual_seed(seed)
    P = {}

    def n(name, *shape, std):
        return P.__setitem__(name, torch.randn(*shape, generator=g) * std)

    h, out_scale = c.hidden, 1 / math.sqrt(2 * c.layers)

    def lin(name, o, i, s=1.0):
        return n(name, o, i, std=s / math.sqrt(i))

    n("model.embed_tokens.weight", c.vocab, h, std=0.2)
    for i in range(c.layers):
        p = f"model.layers.{i}."
        P[p + "input_layernorm.weight"] = torch.zeros(h)
        P[p + "post_attention_layernorm.weight"] = torch.zeros(h)
        if c.full(i):
            lin(p + "self_attn.q_proj.weight", c.heads * c.head_dim * 2, h)
            lin(p + "self_attn.k_proj.weight", c.kv_heads * c.head_dim, h)
            lin(p + "self_attn.v_proj.weight", c.kv_heads * c.head_dim, h)
            lin(p + "self_attn.o_proj.weight", h, c.heads * c.head_dim, out_scale)
            P[p + "self_attn.q_norm.weight"] = torch.zeros(c.head_dim)
            P[p + "self_attn.k_norm.weight"] = torch.zeros(c.head_dim)
        else:
            kd, vd = c.k_heads * c.lin_dim, c.v_heads * c.lin_dim
            q = p + "linear_attn."
            lin(q + "in_proj_qkv.weight", 2 * kd + vd, h)
            lin(q + "in_proj_z.weight", vd, h)
            lin(q + "in_proj_b.weight", c.v_heads, h)
            lin(q + "in_proj_a.weight", c.v_heads, h, 0.3)
            lin(q + "out_proj.weight", h, vd, out_scale)
            n(q + "conv1d.weight", 2 * kd + vd, 1, c.conv, std=0.3)
            P[q + "conv1d.weight"][:, 0, -1] += 0.7
            P[q + "A_log"] = torch.log(torch.empty(c.v_heads).uniform_(0.5, 8, generator=g))
            dt = torch.exp(torch.empty(c.v_heads).uniform_(math.log(1e-3), math.log(0.1), generator=g))
            P[q + "dt_bias"] = dt + torch.log(-torch.expm1(-dt))
            P[q + "norm.weight"] = torch.ones(c.lin_dim)
        m = p + "mlp."
        n(m + "gate.weight", c.experts, h, std=0.02)
        n(m + "experts.gate_up_proj", c.experts, 2 * c.inter, h, std=1 / math.sqrt(h))
        n(m + "experts.down_proj", c.experts, h, c.inter, std=out_scale / math.sqrt(c.inter))
        lin(m + "shared_expert.gate_proj.weight", c.shared, h)
        lin(m + "shared_expert.up_proj.weight", c.shared, h)
        lin(m + "shared_expert.down_proj.weight", h, c.shared, out_scale)
        lin(m + "shared_expert_gate.weight", 1, h)
    P["model.norm.weight"] = torch.zeros(h)
    n("lm_head.weight", c.vocab, h, std=0.02)
    return {k: v.to(device).requires_grad_() for k, v in P.items()}


def rms(x, w, eps):
    """RMSNorm with gain 1 + w, in float32."""
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + eps) * (1 + w.float())).to(x.dtype)


# ------------------------------------------------------------------ Gated DeltaNet
class InvUnitLower(torch.autograd.Function):
    """(I + A)^-1 for strictly lower triangular A [..., 64, 64], by blocks: stable and only matrix products."""

    @staticmethod
    def forward(ctx, A):
        old = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        n, s = A.shape[-1], 8
        eye = torch.eye(s, device=A.device, dtype=A.dtype)
        D = torch.stack([A[..., i : i + s, i : i + s] for i in range(0, n, s)], -3)
        D2 = D @ D
        X = (eye - D) @ (eye + D2)
        X = X @ (eye + D2 @ D2)
        while s < n:  # merge pairs of diagonal blocks
            lo = torch.stack([A[..., i + s : i + 2 * s, i : i + s] for i in range(0, n, 2 * s)], -3)
            a, b = X[..., 0::2, :, :], X[..., 1::2, :, :]
            low = -(b @ lo @ a)
            top = torch.cat([a, torch.zeros_like(a)], -1)
            X = torch.cat([top, torch.cat([low, b], -1)], -2)
            s *= 2
        X = X.squeeze(-3)
        torch.backends.cuda.matmul.allow_tf32 = old
        ctx.save_for_backward(X)
        return X

    @staticmethod
    def backward(ctx, g):
        (X,) = ctx.saved_tensors
        t = X.transpose(-1, -2)
        return -(t @ g @ t)


class Scan(torch.autograd.Function):
    """v_i = u_i - w_i S_i;  S_{i+1} = d_i S_i + k_i^T v_i;  o_i = q_i S_i + a_i v_i  over chunks i (dim 0)."""

    @staticmethod
    def forward(ctx, q, k, u, w, a, d):
        N, M, C, D = q.shape
        S = torch.zeros(N + 1, M, D, u.shape[-1], device=q.device, dtype=q.dtype)
        V = torch.empty_like(u)
        for i in range(N):
            torch.baddbmm(u[i], w[i], S[i], alpha=-1, out=V[i])
            torch.baddbmm(S[i] * d[i], k[i].transpose(1, 2), V[i], out=S[i + 1])
        S = S[:N]
        o = q @ S
        o += a @ V
        ctx.save_for_backward(q, k, w, a, d, S, V)
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, w, a, d, S, V = ctx.saved_tensors
        do = do.contiguous()
        N = q.shape[0]
        dv = a.transpose(-1, -2) @ do
        t = q.transpose(-1, -2) @ do
        G = torch.zeros_like(S)  # gradient of S_{i+1}, for every i
        for i in range(N - 1, -1, -1):
            if i < N - 1:
                dv[i].baddbmm_(k[i], G[i])
            if i:
                x = torch.addcmul(t[i], G[i], d[i])
                torch.baddbmm(x, w[i].transpose(1, 2), dv[i], alpha=-1, out=G[i - 1])
        St, Vt = S.transpose(-1, -2), V.transpose(-1, -2)
        return do @ St, V @ G.transpose(-1, -2), dv, -(dv @ St), do @ Vt, (S * G).sum((-1, -2), keepdim=True)


def gdn_pre(x, pos, ln, wqkv, wz, wb, wa, conv, A_log, dt_bias, c):
    """Everything before the chunk recurrence. pos: position inside the document, [B, T]."""
    B, T, _ = x.shape
    h = rms(x, ln, c.eps)
    m = h @ wqkv.T
    z = h @ wz.T
    K = c.conv
    pad = F.pad(m, (0, 0, K - 1, 0))
    y = m * conv[:, 0, K - 1]
    for s in range(1, K):
        y = y + torch.where((pos >= s).unsqueeze(-1), pad[:, K - 1 - s : K - 1 - s + T] * conv[:, 0, K - 1 - s], 0)
    y = F.silu(y.float())
    kd = c.k_heads * c.lin_dim
    q, k, v = y.split([kd, kd, c.v_heads * c.lin_dim], -1)
    rep = c.v_heads // c.k_heads

    def l2(t):
        return t * torch.rsqrt(t.pow(2).sum(-1, keepdim=True) + 1e-6)

    q = l2(q.view(B, T, c.k_heads, -1)) * c.lin_dim**-0.5
    k = l2(k.view(B, T, c.k_heads, -1))
    q, k = q.repeat_interleave(rep, 2), k.repeat_interleave(rep, 2)
    v = v.view(B, T, c.v_heads, -1)
    beta = (h @ wb.T).float().sigmoid()
    g = -A_log.exp() * F.softplus((h @ wa.T).float() + dt_bias)
    g = torch.where((pos == 0).unsqueeze(-1), g - 60.0, g)  # forget the previous document
    C = 64

    def ch(t):
        return t.view(B, T // C, C, c.v_heads, -1).permute(1, 0, 3, 2, 4).reshape(T // C, B * c.v_heads, C, -1)

    q, k, v = ch(q), ch(k), ch(v)
    beta, cum = ch(beta), ch(g).squeeze(-1).cumsum(-1)
    low = torch.ones(C, C, device=x.device, dtype=torch.bool).tril()
    decay = (cum.unsqueeze(-1) - cum.unsqueeze(-2)).masked_fill(~low, float("-inf")).exp()
    kb = k * beta
    kt = k.transpose(-1, -2)
    A = ((kb @ kt) * decay).tril(-1)
    attn = (q @ kt) * decay
    e = cum.exp().unsqueeze(-1)
    last = cum[..., -1:]
    return A, attn, q * e, k * (last - cum).exp().unsqueeze(-1), v * beta, kb * e, last.exp().unsqueeze(-1), z


def gdn_post(x, o, z, nw, wo, c):
    """The gated head norm, the output projection and the residual."""
    B, T, _ = x.shape
    o = o.view(T // 64, B, c.v_heads, 64, -1).permute(1, 0, 3, 2, 4).reshape(B, T, c.v_heads, -1)
    o = (o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + c.eps)).to(x.dtype) * nw.to(x.dtype)
    o = o * F.silu(z.view(B, T, c.v_heads, -1).float())
    return x + o.to(x.dtype).reshape(B, T, -1) @ wo.T


# ------------------------------------------------------------------ gated attention
def attn_pre(x, pos, ln, wq, wk, wv, qn, kn, c):
    """Queries, keys (normed and rotated), values and output gates."""
    B, T, _ = x.shape
    h = rms(x, ln, c.eps)
    q, gate = (h @ wq.T).view(B, T, c.heads, 2 * c.head_dim).chunk(2, -1)
    q = rms(q, qn, c.eps)
    k = rms((h @ wk.T).view(B, T, c.kv_heads, -1), kn, c.eps)
    v = (h @ wv.T).view(B, T, c.kv_heads, -1)
    inv = c.theta ** (-torch.arange(0, c.rotary, 2, device=x.device, dtype=torch.float32) / c.rotary)
    f = pos.float().unsqueeze(-1) * inv
    cos, sin = f.cos()[:, :, None], f.sin()[:, :, None]
    half = c.rotary // 2

    def rope(t):
        a, b, rest = t[..., :half].float(), t[..., half : c.rotary].float(), t[..., c.rotary :]
        return torch.cat([(a * cos - b * sin).to(t.dtype), (b * cos + a * sin).to(t.dtype), rest], -1)

    return rope(q), rope(k), v, gate


def attn_post(x, o, gate, wo):
    """The output gate, the output projection and the residual."""
    B, T, _ = x.shape
    return x + (o.reshape(B, T, -1) * gate.reshape(B, T, -1).sigmoid()) @ wo.T


def attention(q, k, v, pos, cu, max_len):
    """Causal attention inside each document; cu and max_len are for the GPU's packed kernel."""
    B, T = pos.shape
    if q.is_cuda:
        from torch.nn.attention.varlen import varlen_attn

        def f(t):
            return t.reshape(B * T, t.shape[2], t.shape[3])

        return varlen_attn(f(q), f(k), f(v), cu, cu, max_len, max_len, window_size=(-1, 0)).view(B, T, q.shape[2], -1)
    doc = (pos == 0).cumsum(1)
    mask = (doc[:, :, None] == doc[:, None, :]) & torch.ones(T, T, dtype=torch.bool).tril()
    r = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(r, 2), v.repeat_interleave(r, 2)
    return F.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask[:, None]
    ).transpose(1, 2)


# ------------------------------------------------------------------ MoE
MOE_WEIGHTS = (
    "gate.weight",
    "experts.gate_up_proj",
    "experts.down_proj",
    "shared_expert.gate_proj.weight",
    "shared_expert.up_proj.weight",
    "shared_expert.down_proj.weight",
    "shared_expert_gate.weight",
)


def moe(x, ln, router, gate_up, down, sg, su, sd, sgate, c):
    """The mixture of experts and its residual, the balance loss and each expert's share of tokens."""
    B, T, H = x.shape
    h = rms(x, ln, c.eps).reshape(-1, H)
    p = (h @ router.T).float().softmax(-1)
    thr = p.detach().topk(c.top_k, -1).values[:, -1:]
    keep = p.detach() >= thr
    w = p * keep
    w = w / w.sum(-1, keepdim=True)
    aux = c.experts * (keep.float().mean(0) / c.top_k * p.mean(0)).sum()
    g = (h @ gate_up.view(-1, H).T).view(-1, c.experts, 2, c.inter)
    a = F.silu(g[:, :, 0].float()) * g[:, :, 1].float() * w.unsqueeze(-1)
    y = a.to(x.dtype).reshape(-1, c.experts * c.inter) @ down.permute(0, 2, 1).reshape(-1, H)
    s = (F.silu((h @ sg.T).float()) * (h @ su.T).float()).to(x.dtype) @ sd.T
    y = y + (h @ sgate.T).sigmoid() * s
    return x + y.view(B, T, H), aux, keep.float().mean(0)


def head_loss(x, ln, w, target, weight, c):
    """Weighted cross-entropy, weighted squared log-partition, and the loss of every token."""
    logits = (rms(x, ln, c.eps).reshape(-1, c.hidden) @ w.T).float()
    lse = logits.logsumexp(-1)
    nll = lse - logits.gather(-1, target.reshape(-1, 1)).squeeze(-1)
    wt = weight.reshape(-1)
    tot = wt.sum().clamp(min=1)
    return (wt * nll).sum() / tot, (wt * lse.pow(2)).sum() / tot, nll


fns = dict(gdn_pre=gdn_pre, gdn_post=gdn_post, attn_pre=attn_pre, attn_post=attn_post, moe=moe, head_loss=head_loss)


def compile_all():
    """Compiles every stage; shapes are fixed during a run."""
    torch._dynamo.config.cache_size_limit = 64
    for k in fns:
        fns[k] = torch.compile(fns[k], dynamic=False)


def under(P, prefix):
    """The parameters whose names start with prefix, by the rest of the name."""
    return lambda name: P[prefix + name]


def forward(P, c, ids, pos, cu=None, max_len=None):
    """Hidden states before the last norm, the mean auxiliary loss and the expert loads per layer."""
    x = F.embedding(ids, P["model.embed_tokens.weight"])
    aux, loads = 0.0, []
    for i in range(c.layers):
        layer = under(P, f"model.layers.{i}.")
        if c.full(i):
            w = under(P, f"model.layers.{i}.self_attn.")
            projections = [w(f"{n}.weight") for n in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm")]
            q, k, v, gate = fns["attn_pre"](x, pos, layer("input_layernorm.weight"), *projections, c)
            x = fns["attn_post"](x, attention(q, k, v, pos, cu, max_len), gate, w("o_proj.weight"))
        else:
            w = under(P, f"model.layers.{i}.linear_attn.")
            projections = [w(f"{n}.weight") for n in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "conv1d")]
            A, attn, q, k, vb, kb, d, z = fns["gdn_pre"](
                x, pos, layer("input_layernorm.weight"), *projections, w("A_log"), w("dt_bias"), c
            )
            X = InvUnitLower.apply(A)
            o = Scan.apply(q, k, X @ vb, X @ kb, attn, d)
            x = fns["gdn_post"](x, o, z, w("norm.weight"), w("out_proj.weight"), c)
        experts = [layer(f"mlp.{name}") for name in MOE_WEIGHTS]
        x, balance, load = fns["moe"](x, layer("post_attention_layernorm.weight"), *experts, c)
        aux = aux + balance
        loads.append(load)
    return x, aux / c.layers, loads


def fake_quant4(w, group=64):
    """MLX affine 4-bit quantisation and back (scale and bias rounded to bf16), for a tensor of any shape."""
    g = w.reshape(-1, group)
    hi, lo = g.amax(-1, keepdim=True).clamp(min=0), g.amin(-1, keepdim=True)
    scale = ((hi - lo) / 15).clamp(min=1e-7)
    side = lo.abs() > hi.abs()
    scale = torch.where(side, scale, -scale)
    edge = torch.where(side, lo, hi)
    q0 = (edge / scale).round()
    scale = torch.where(q0 == 0, scale, edge / torch.where(q0 == 0, 1, q0))
    bias = torch.where(q0 == 0, 0, edge)
    q = ((g - bias) / scale).round().clamp(0, 15)
    return (q * scale.bfloat16().float() + bias.bfloat16().float()).reshape(w.shape)


def is_linear(name):
    """Names that MLX quantises to 4 bits (the routers take 8 bits and are left alone here)."""
    return ("proj" in name or name in ("model.embed_tokens.weight", "lm_head.weight")) and "norm" not in name


class Prepare(torch.autograd.Function):
    """fp32 master -> bf16 working copy, through 4-bit fake quantisation when asked; straight-through gradient."""

    @staticmethod
    def forward(ctx, flat, quant):
        return (fake_quant4(flat) if quant else flat).bfloat16()

    @staticmethod
    def backward(ctx, g):
        return g.float(), None

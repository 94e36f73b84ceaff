"""The chunk recurrence of model.Scan as two Triton kernels (state kept in registers), same interface and results."""

import torch
import triton
import triton.language as tl


@triton.jit
def _fwd(k, u, w, d, S, V, N: tl.constexpr, M, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BV: tl.constexpr):
    m, j = tl.program_id(0), tl.program_id(1)
    rc, rd, rv = tl.arange(0, C), tl.arange(0, D), j * BV + tl.arange(0, BV)
    s = tl.zeros((D, BV), tl.float32)
    for i in range(N):
        b = (i * M + m).to(tl.int64)
        tl.store(S + b * D * E + rd[:, None] * E + rv[None, :], s)
        wt = tl.load(w + b * C * D + rc[:, None] * D + rd[None, :])
        v = tl.load(u + b * C * E + rc[:, None] * E + rv[None, :]) - tl.dot(wt, s, input_precision="tf32")
        tl.store(V + b * C * E + rc[:, None] * E + rv[None, :], v)
        kt = tl.load(k + b * C * D + rd[:, None] + rc[None, :] * D)
        s = s * tl.load(d + b) + tl.dot(kt, v, input_precision="tf32")


@triton.jit
def _bwd(k, w, d, t, dv, G, N: tl.constexpr, M, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BV: tl.constexpr):
    m, j = tl.program_id(0), tl.program_id(1)
    rc, rd, rv = tl.arange(0, C), tl.arange(0, D), j * BV + tl.arange(0, BV)
    g = tl.zeros((D, BV), tl.float32)
    for n in range(N):
        i = N - 1 - n
        b = (i * M + m).to(tl.int64)
        tl.store(G + b * D * E + rd[:, None] * E + rv[None, :], g)
        kc = tl.load(k + b * C * D + rc[:, None] * D + rd[None, :])
        p = dv + b * C * E + rc[:, None] * E + rv[None, :]
        x = tl.load(p) + tl.dot(kc, g, input_precision="tf32")
        tl.store(p, x)
        wt = tl.load(w + b * C * D + rd[:, None] + rc[None, :] * D)
        g = (
            tl.load(t + b * D * E + rd[:, None] * E + rv[None, :])
            + g * tl.load(d + b)
            - tl.dot(wt, x, input_precision="tf32")
        )


class ScanTriton(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, u, w, a, d):
        q, k, u, w, a, d = (t.contiguous() for t in (q, k, u, w, a, d))
        N, M, C, D = q.shape
        E = u.shape[-1]
        S = torch.empty(N, M, D, E, device=q.device, dtype=torch.float32)
        V = torch.empty_like(u)
        _fwd[(M, E // 32)](k, u, w, d, S, V, N, M, C, D, E, 32, num_warps=4, num_stages=2)
        ctx.save_for_backward(q, k, w, a, d, S, V)
        o = q @ S
        o += a @ V
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, w, a, d, S, V = ctx.saved_tensors
        do = do.contiguous()
        N, M, C, D = q.shape
        E = V.shape[-1]
        dv = (a.transpose(-1, -2) @ do).contiguous()
        t = (q.transpose(-1, -2) @ do).contiguous()
        G = torch.empty_like(S)
        _bwd[(M, E // 32)](k, w, d, t, dv, G, N, M, C, D, E, 32, num_warps=4, num_stages=2)
        St = S.transpose(-1, -2)
        return (
            do @ St,
            V @ G.transpose(-1, -2),
            dv,
            -(dv @ St),
            do @ V.transpose(-1, -2),
            (S * G).sum((-1, -2), keepdim=True),
        )


def check(reference, device, n=4, m=4):
    """Largest relative error of outputs and gradients against the reference Function on random data."""
    g = torch.Generator().manual_seed(3)

    def mk(*s):
        return (torch.randn(*s, generator=g) * 0.1).to(device)

    data = [
        mk(n, m, 64, 128),
        mk(n, m, 64, 128),
        mk(n, m, 64, 128),
        mk(n, m, 64, 128),
        mk(n, m, 64, 64),
        torch.rand(n, m, 1, 1, generator=g).to(device),
    ]
    do = mk(n, m, 64, 128)
    res = []
    for f in (reference, ScanTriton):
        xs = [t.clone().requires_grad_() for t in data]
        o = f.apply(*xs)
        o.backward(do)
        res.append([o.detach()] + [x.grad for x in xs])
    return max(((a - b).norm() / a.norm().clamp(min=1e-12)).item() for a, b in zip(*res, strict=False))

"""Check model.py against transformers in float32, document by document, and its hand-written gradients.

Needs transformers with Qwen3_5MoeForCausalLM. Exits with 1 when something is off.
"""

import sys

import torch
from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

from export import text_config
from model import Cfg, InvUnitLower, Scan, forward, init_params, rms


def logits_error(lengths=(100, 37, 119), vocab=512):
    """The worst relative error of a packed row's logits, over its documents."""
    torch.manual_seed(0)
    c = Cfg(vocab=vocab)
    P = init_params(c, "cpu", 1)
    with torch.no_grad():
        for name, value in P.items():
            if "norm.weight" in name:
                value.add_(torch.randn_like(value) * 0.1)
            if "shared_expert_gate" in name or "mlp.gate" in name:
                value.mul_(3)
    config = {k: v for k, v in text_config(c).items() if k != "model_type"}
    theirs = Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**config)).float().eval()
    difference = theirs.load_state_dict({k: v.detach() for k, v in P.items()}, strict=False)
    assert not difference.missing_keys and not difference.unexpected_keys, difference
    ids = torch.randint(0, vocab, (2, sum(lengths)))
    positions = torch.cat([torch.arange(n) for n in lengths]).expand(2, -1).contiguous()
    worst, start = 0.0, 0
    with torch.no_grad():
        hidden, _, _ = forward(P, c, ids, positions)
        ours = rms(hidden, P["model.norm.weight"], c.eps) @ P["lm_head.weight"].T
        for n in lengths:
            expected = theirs(input_ids=ids[:, start : start + n]).logits
            error = (ours[:, start : start + n] - expected).norm() / expected.norm()
            print(f"document of {n} tokens: relative error {error:.1e}")
            worst, start = max(worst, error.item()), start + n
    return worst


def scan_gradient_is_right():
    torch.manual_seed(1)

    def random(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    q, k, u, w = (random(3, 2, 4, 5) for _ in range(4))
    d = torch.rand(3, 2, 1, 1, dtype=torch.float64, requires_grad=True)
    return torch.autograd.gradcheck(Scan.apply, (q, k, u, w, random(3, 2, 4, 4), d))


def inverse_error():
    """Relative errors of the blockwise inverse and of its gradient."""
    torch.manual_seed(2)
    A = (torch.randn(2, 64, 64, dtype=torch.float64) * 0.2).tril(-1).requires_grad_()
    ours, exact = InvUnitLower.apply(A), torch.linalg.inv(torch.eye(64, dtype=torch.float64) + A)
    (our_gradient,) = torch.autograd.grad((ours * ours).sum(), A)
    (gradient,) = torch.autograd.grad((exact * exact).sum(), A)
    value = (ours - exact).abs().max() / exact.abs().max()
    slope = (our_gradient - gradient).tril(-1).abs().max() / gradient.abs().max()
    return max(value.item(), slope.item())


if __name__ == "__main__":
    checks = {
        "logits": logits_error() < 1e-4,
        "gradient of the scan": scan_gradient_is_right(),
        "blockwise inverse": inverse_error() < 1e-9,
    }
    for name, good in checks.items():
        print(f"{name}: {'ok' if good else 'WRONG'}")
    sys.exit(0 if all(checks.values()) else 1)

"""The float32 master weights and their optimiser: Muon for the matrices, AdamW's rule for the rest."""

import math

import torch

import model as M

ROUTERS = ("mlp.gate.weight", "shared_expert_gate.weight", "conv1d.weight")  # computed with in bf16, like the matrices
FLOAT32 = ("A_log", "linear_attn.norm.weight")  # kept in float32 in the checkpoint
# Coefficients of the quintic Newton-Schulz steps (Polar Express schedule).
POLAR = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)


class Weights:
    """Master weights: those that MLX quantises in one flat tensor, the small ones apart."""

    def __init__(self, initial, device):
        self.order = list(initial)
        self.linear = [name for name in initial if M.is_linear(name)]
        self.shapes = {name: initial[name].shape for name in initial}
        self.flat = torch.cat([initial[name].detach().reshape(-1) for name in self.linear]).to(device).requires_grad_()
        small = [name for name in initial if name not in self.linear]
        self.small = {name: initial[name].detach().to(device).requires_grad_() for name in small}

    def split(self, flat):
        """Views of a flat tensor by name."""
        parts = flat.split([self.shapes[name].numel() for name in self.linear])
        return {name: part.view(self.shapes[name]) for name, part in zip(self.linear, parts, strict=True)}

    def working(self, quantised):
        """The bf16 weights of a forward pass, through 4-bit fake quantisation if asked."""
        working = self.split(M.Prepare.apply(self.flat, quantised))
        for name, value in self.small.items():
            working[name] = value.bfloat16() if name.endswith(ROUTERS) else value
        return working

    def masters(self):
        """Detached views by name, in the model's order."""
        everything = self.split(self.flat.detach()) | {name: value.detach() for name, value in self.small.items()}
        return {name: everything[name] for name in self.order}

    def forget_gradients(self):
        self.flat.grad = None
        for value in self.small.values():
            value.grad = None


def orthogonalise(G):
    """The nearest matrix with orthonormal rows or columns, about, for a stack of matrices."""
    X = G.bfloat16()
    tall = X.shape[-2] > X.shape[-1]
    X = X.mT if tall else X
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for a, b, c in POLAR:
        A = X @ X.mT
        X = a * X + (b * A + c * (A @ A)) @ X
    return X.mT if tall else X


class Optimiser:
    """One step from the gradients that lie in the weights."""

    def __init__(self, weights, compiled):
        self.weights = weights
        self.orthogonalise = torch.compile(orthogonalise, dynamic=False) if compiled else orthogonalise
        masters = weights.masters()
        self.momentum = torch.zeros_like(weights.flat)
        adam = [n for n in weights.linear if n in ("model.embed_tokens.weight", "lm_head.weight")]
        adam += [n for n in weights.linear if "in_proj_a" in n or "in_proj_b" in n]
        self.groups = {}  # matrices of one shape are orthogonalised together
        for name in weights.linear:
            if name in adam:
                continue
            shape = masters[name].shape
            count = shape[0] if len(shape) == 3 else 1
            if "gate_up" in name:  # gate and up are two matrices
                stack = (2 * count, shape[1] // 2, shape[2])
            else:
                stack = (count, *shape[-2:])
            self.groups.setdefault(stack[1:], []).append((name, stack))
        self.adam = [(name, masters[name], self.rate(name)) for name in adam + list(weights.small)]
        self.first = [torch.zeros_like(value) for _, value, _ in self.adam]
        self.second = [torch.zeros_like(value) for _, value, _ in self.adam]

    def rate(self, name):
        if name in self.weights.small:
            return 0.002 if name.endswith(ROUTERS) else 0.004
        return 0.006 if "embed" in name else 0.003

    def step(self, number, rate, beta):
        """Step `number` (from 1) at a rate in [0, 1]; gives the norm of the small weights' gradient."""
        weights, gradient = self.weights, self.weights.flat.grad
        masters, gradients = weights.masters(), weights.split(gradient)
        self.momentum.lerp_(gradient, 1 - beta)
        updates = weights.split(gradient.lerp(self.momentum, beta))
        for (rows, columns), members in self.groups.items():
            stack = self.orthogonalise(torch.cat([updates[name].reshape(shape) for name, shape in members]))
            factor = 0.02 * rate * max(1.0, rows / columns) ** 0.5
            at = 0
            for name, shape in members:
                update = stack[at : at + shape[0]].reshape(masters[name].shape)
                masters[name].mul_(1 - 0.02 * rate * 0.05).add_(update, alpha=-factor)
                at += shape[0]
        small = [gradients[n] if n in gradients else weights.small[n].grad for n, _, _ in self.adam]
        norm = torch.stack(torch._foreach_norm(small)).norm()
        torch._foreach_mul_(small, 1.0 / norm.clamp(min=1.0))
        torch._foreach_lerp_(self.first, small, 0.1)
        torch._foreach_mul_(self.second, 0.95)
        torch._foreach_addcmul_(self.second, small, small, 0.05)
        scale = torch._foreach_sqrt(self.second)
        torch._foreach_div_(scale, math.sqrt(1 - 0.95**number))
        torch._foreach_add_(scale, 1e-8)
        for (_, value, own), mean, deviation in zip(self.adam, self.first, scale, strict=True):
            value.addcdiv_(mean, deviation, value=-rate * own / (1 - 0.9**number))
        weights.forget_gradients()
        return norm

    def forget(self):
        """Back to the state before the first step."""
        for tensor in (self.momentum, *self.first, *self.second):
            tensor.zero_()

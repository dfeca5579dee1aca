"""Muon for the matrices of the layers, AdamW for the embedding and the norms."""

# torch has no types as this project checks it.
# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False, warn-return-any=False

import math
from typing import Any

import torch
from torch import Tensor, nn


def orthogonalised(matrices: Tensor, precision: torch.dtype, steps: int = 5) -> Tensor:
    """Brings the singular values of a stack of matrices near one, by Newton-Schulz steps."""
    # The coefficients are those of kellerjordan.github.io/posts/muon.
    x = matrices.to(precision)  # (n, rows, columns), rows <= columns
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x.to(matrices.dtype)


class Optimiser:
    """Keeps the optimiser's state and takes its steps."""

    def __init__(
        self, model: nn.Module, *, rate: float, embedding_rate: float, decay: float, precision: torch.dtype
    ) -> None:
        """`precision` is that of Muon's matrix products; weights and states stay in float32."""
        self.rate, self.decay, self.precision = rate, decay, precision
        self.matrices: dict[tuple[int, int], list[Tensor]] = {}
        others = []
        for name, weight in model.named_parameters():
            if weight.dim() == 2 and not name.startswith("embed"):
                self.matrices.setdefault((min(weight.shape), max(weight.shape)), []).append(weight)
            else:
                others.append(weight)
        self.weights = [weight for group in self.matrices.values() for weight in group] + others
        # One stack per shape, lying matrices and standing ones together, so that the products are batched.
        self.momenta = {s: torch.zeros(len(g), *s, device=g[0].device) for s, g in self.matrices.items()}
        self.adam = torch.optim.AdamW(others, lr=embedding_rate, betas=(0.9, 0.95), weight_decay=0.0)
        self.embedding_rate = embedding_rate
        self.steps = 0

    @torch.no_grad()
    def step(self, scale: float) -> None:
        """Updates all weights at `scale` times the full rates."""
        self.steps += 1
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        inertia = 0.85 + 0.10 * min(1.0, self.steps / 300)
        for shape, group in self.matrices.items():
            gradients = torch.stack([lying(w.grad) for w in group if w.grad is not None])
            momentum = self.momenta[shape].lerp_(gradients, 1 - inertia)
            updates = orthogonalised(gradients.lerp(momentum, inertia), self.precision)
            step = self.rate * scale
            # Scaled to the size of AdamW's updates (arXiv 2502.16982).
            for weight, update in zip(group, updates, strict=True):
                weight.mul_(1 - step * self.decay)
                lying(weight).add_(update, alpha=-step * 0.2 * math.sqrt(shape[1]))
        for parameters in self.adam.param_groups:
            parameters["lr"] = self.embedding_rate * scale
        self.adam.step()
        for weight in self.weights:
            weight.grad = None

    def state(self) -> dict[str, Any]:
        """Returns what a later run needs to go on (Any: tensors and AdamW's own state)."""
        return {"steps": self.steps, "momenta": self.momenta, "adam": self.adam.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes up the state of an earlier run."""
        self.steps = state["steps"]
        for shape, momentum in state["momenta"].items():
            self.momenta[shape].copy_(momentum)
        self.adam.load_state_dict(state["adam"])


def lying(matrix: Tensor) -> Tensor:
    """Returns a view of a matrix with no more rows than columns."""
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T

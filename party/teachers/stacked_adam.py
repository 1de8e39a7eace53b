"""AdamW for a stack of networks that are trained in one go, each with a learning rate of its own."""

from __future__ import annotations

import torch

_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8


class StackedAdamW:
    """Loshchilov and Hutter 2019, with torch's own defaults; changes `weights` (networks, ...) in place.

    A network whose rate is 0 is left as it is.
    """

    def __init__(self, weights: dict[str, torch.Tensor], decay: float) -> None:
        self._weights, self._decay, self._steps = weights, decay, 0
        self._mean = {name: torch.zeros_like(value) for name, value in weights.items()}
        self._square = {name: torch.zeros_like(value) for name, value in weights.items()}

    @torch.no_grad()
    def step(self, gradients: dict[str, torch.Tensor], rates: torch.Tensor) -> None:
        """`gradients` as the weights; `rates` float (networks,)."""
        self._steps += 1
        correction, root = 1 - _FIRST**self._steps, (1 - _SECOND**self._steps) ** 0.5
        for name, value in self._weights.items():
            gradient, mean, square = gradients[name], self._mean[name], self._square[name]
            rate = rates.reshape(-1, *[1] * (value.ndim - 1))
            mean.lerp_(gradient, 1 - _FIRST)
            square.mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
            value.mul_(1 - rate * self._decay)
            value.sub_(mean / square.sqrt().div_(root).add_(_TINY) * (rate / correction))

"""Training of network teachers with torch, many at once: AdamW, cosine schedule, cross-entropy.

Teachers of one specification differ in weights and rows only, so they are stacked and every step is one batched
product for all of them (`torch.func.vmap`). On a CPU only small perceptrons gain from that: a convolution is fastest
alone with channels last (eight as groups of one convolution save a tenth of that), and
a stack of wide layers does not fit the cache. Both give the same weights up to rounding.

Only who trains or runs a network imports this module: torch takes two seconds. `torch.func.grad` and `torch.optim` take
another one at their first use, so stacks do without both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np
import torch
from torch.func import vmap
from torch.nn import functional

from consilium.models.devices import asked_device, resolve_device, torch_on_one_thread
from consilium.models.keys import DENSE, NetworkSpec
from consilium.protocol.images import ImageShape, image_shape

MOST_STACKED = 256
"""Teachers in one stack: their activations must fit the memory of a small GPU."""

SMALL = 16_384
"""Weights in the first layer up to which perceptrons are stacked on a CPU: benchmarks/torch_teachers.py."""

_BLOCK = 1000
_NEVER = -1e9

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class UntrainedNetwork:
    """One network before its training: its initial weights, and every batch that it will see.

    `classes` int64 (seen,). `batches` int64 (steps, batch), rows of the whole; `shares` float32 (steps, batch), what a
    row counts in the batch's loss, 0 where the batch is shorter.
    """

    classes: np.ndarray
    weights: dict[str, np.ndarray]
    batches: np.ndarray
    shares: np.ndarray


class TrainedNetwork(NamedTuple):
    """`classes` int64 (seen,), and `weights` as `NetworkTeacher` keeps them."""

    classes: np.ndarray
    weights: dict[str, np.ndarray]


def train_networks(
    spec: NetworkSpec,
    x: np.ndarray,
    y: np.ndarray,
    parts: Sequence[np.ndarray],
    seeds: Sequence[int],
    classes: int,
    stacked: bool | None = None,
) -> list[TrainedNetwork]:
    """One network for each part: `x` float (n, inputs), `y` int64 (n,), parts of row indices, one seed each.

    A network does not depend on the rows of other parts, not even in rounding: the shapes of a stack are set by `spec`,
    `classes` (labels are below it) and the number of parts alone. A part without rows gives a network that has seen
    class 0 and learnt nothing.

    stacked: all in one go, or one after the other; None for what is faster on the device, which this node's environment
    names (`protocol.devices`).

    Raises
    ------
    ConfigError : the environment asks for a GPU that is not there.
    """
    device = resolve_device(asked_device())
    image = image_shape(x.shape[1]) if spec.of_images else None
    rows = x.astype(np.float32)
    rows = torch.from_numpy(rows if image is None else image.planes(rows)).to(device)
    untrained = [_untrained(spec, image, x.shape[1], y, part, seed) for part, seed in zip(parts, seeds, strict=True)]
    if stacked is None:
        stacked = device == "cuda" or (not spec.of_images and spec.hidden * x.shape[1] <= SMALL)
    trained: list[dict[str, np.ndarray]] = []
    with torch_on_one_thread():
        if stacked:
            for start in range(0, len(untrained), MOST_STACKED):
                trained += _train_stacked(spec, rows, y, untrained[start : start + MOST_STACKED], classes)
        else:
            trained = [_train_alone(spec, rows, y, network) for network in untrained]
    return [TrainedNetwork(each.classes, weights) for each, weights in zip(untrained, trained, strict=True)]


def convolutional_logits(weights: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """Logits float32 (n, seen) of a "cnn" teacher for images `x` float (n, pixels)."""
    device, channels = resolve_device(asked_device()), weights["first.weight"].shape[1]
    image = ImageShape(channels, isqrt(x.shape[1] // channels))
    on_device = {name: _channels_last(torch.from_numpy(value).to(device)) for name, value in weights.items()}
    rows = torch.from_numpy(image.planes(x.astype(np.float32)))
    with torch_on_one_thread(), torch.no_grad():
        blocks = [_forward(on_device, _channels_last(block.to(device))).cpu() for block in rows.split(_BLOCK)]
    return torch.cat(blocks).numpy()


def _untrained(
    spec: NetworkSpec, image: ImageShape | None, inputs: int, y: np.ndarray, part: np.ndarray, seed: int
) -> UntrainedNetwork:
    generator = np.random.default_rng(seed)
    if not len(part):  # holds its place in a stack
        weights = _initial_weights(spec, image, inputs, 1, generator)
        nothing = np.zeros((0, spec.batch))
        return UntrainedNetwork(
            np.zeros(1, dtype=np.int64), weights, nothing.astype(np.int64), nothing.astype(np.float32)
        )
    classes, counts = np.unique(y[part], return_counts=True)
    weights = _initial_weights(spec, image, inputs, len(classes), generator)
    size = min(spec.batch, len(part))
    steps = -(-len(part) // size)
    batches = np.full((spec.epochs, steps * size), -1, dtype=np.int64)
    for epoch in range(spec.epochs):
        batches[epoch, : len(part)] = part[generator.permutation(len(part))]
    batches = batches.reshape(-1, size)
    there = batches >= 0
    batches = np.where(there, batches, part[0])  # any row will do: it counts 0
    shares = there / there.sum(axis=1, keepdims=True)
    if spec.class_weight == "balanced":
        shares *= (len(part) / (len(classes) * counts))[np.searchsorted(classes, y[batches])]
    return UntrainedNetwork(classes, weights, batches, shares.astype(np.float32))


def _initial_weights(
    spec: NetworkSpec, image: ImageShape | None, inputs: int, classes: int, seed: np.random.Generator
) -> dict[str, np.ndarray]:
    """Normal with variance 2 / fan-in (He et al. 2015), float32; biases are 0.

    From numpy and not from torch: the same on every device, and torch's own random state is left alone.
    image: what a row is, for "cnn", else None. classes: of the rows, the width of the last layer.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    if image is not None:
        first, second = spec.convolutions
        shapes["first"] = (first, image.channels, 5, 5)
        shapes["second"] = (second, first, 5, 5)
        inputs = second * (((image.side - 4) // 2 - 4) // 2) ** 2
    for name in spec.dense:
        shapes[name] = (spec.hidden, inputs)
        inputs = spec.hidden
    shapes["out"] = (classes, spec.hidden)
    weights = {}
    for name, shape in shapes.items():
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        weights[f"{name}.weight"] = (seed.standard_normal(shape) * deviation).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(shape[0], dtype=np.float32)
    return weights


def _forward(weights: Weights, x: torch.Tensor) -> torch.Tensor:
    """Rows (n, inputs), or images (n, channels, side, side), to logits (n, classes)."""
    if "first.weight" in weights:
        for layer in ("first", "second"):
            x = functional.conv2d(x, weights[f"{layer}.weight"], weights[f"{layer}.bias"])
            x = functional.relu(functional.max_pool2d(x, 2))  # in this order a quarter of the work, the same numbers
        x = x.flatten(1)
    for name in DENSE:
        if f"{name}.weight" in weights:
            x = functional.relu(functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"]))
    return functional.linear(x, weights["out.weight"], weights["out.bias"])


def _loss(
    weights: Weights, mask: torch.Tensor, x: torch.Tensor, labels: torch.Tensor, shares: torch.Tensor
) -> torch.Tensor:
    """`mask` (classes,) is far below 0 for classes that this teacher has not seen."""
    logits = _forward(weights, x).float() + mask
    return (functional.cross_entropy(logits, labels, reduction="none") * shares).sum()


def _rate(spec: NetworkSpec, step: np.ndarray | int, steps: np.ndarray | int) -> np.ndarray:
    """Half a cosine from the learning rate down to 0 at the last step."""
    return spec.learning_rate * (1 + np.cos(np.pi * np.minimum(step, steps) / np.maximum(steps, 1))) / 2


def _train_alone(
    spec: NetworkSpec, rows: torch.Tensor, y: np.ndarray, network: UntrainedNetwork
) -> dict[str, np.ndarray]:
    device = rows.device
    weights = {
        name: _channels_last(torch.from_numpy(value).to(device)).requires_grad_()
        for name, value in network.weights.items()
    }
    mask = torch.zeros(len(network.classes), device=device)
    labels = torch.from_numpy(np.searchsorted(network.classes, y[network.batches])).to(device)
    batches, shares = torch.from_numpy(network.batches).to(device), torch.from_numpy(network.shares).to(device)
    optimiser = torch.optim.AdamW(weights.values(), lr=1.0, weight_decay=spec.weight_decay, fused=True)
    for step in range(len(batches)):
        optimiser.param_groups[0]["lr"] = float(_rate(spec, step, len(batches)))
        optimiser.zero_grad()
        loss = _loss(weights, mask, _channels_last(rows[batches[step]]), labels[step], shares[step])
        loss.backward()
        optimiser.step()
    return {name: value.detach().cpu().contiguous().numpy() for name, value in weights.items()}


def _train_stacked(
    spec: NetworkSpec, rows: torch.Tensor, y: np.ndarray, networks: list[UntrainedNetwork], classes: int
) -> list[dict[str, np.ndarray]]:
    """All jobs in one go. Shorter batches are padded with rows of weight 0; a network that is done stays as it is.

    Batches and classes are as wide as any network could need: were they as wide as the widest one's, the order of sums
    in all others, and so their rounding, would tell about its rows. One network alone has its own shapes.
    """
    device, count = rows.device, len(networks)
    steps = np.array([len(network.batches) for network in networks])
    size = spec.batch
    if count == 1:
        classes, size = len(networks[0].classes), networks[0].batches.shape[1]
    batches = np.zeros((count, steps.max(), size), dtype=np.int64)
    labels, shares = np.zeros_like(batches), np.zeros(batches.shape, dtype=np.float32)
    mask = np.full((count, classes), _NEVER, dtype=np.float32)
    for index, network in enumerate(networks):
        length, width = network.batches.shape
        if length:
            batches[index] = network.batches[0, 0]  # weight 0, but a row of its own all the same
        batches[index, :length, :width], shares[index, :length, :width] = network.batches, network.shares
        labels[index, :length, :width] = np.searchsorted(network.classes, y[network.batches])
        mask[index, : len(network.classes)] = 0
    stacked = {
        name: np.stack([_wide(name, network.weights[name], classes) for network in networks])
        for name in networks[0].weights
    }
    weights = {name: torch.from_numpy(value).to(device).requires_grad_() for name, value in stacked.items()}
    masks, where = torch.from_numpy(mask).to(device), torch.from_numpy(batches).to(device)
    targets, portions = torch.from_numpy(labels).to(device), torch.from_numpy(shares).to(device)
    optimiser = StackedAdamW(weights, spec.weight_decay)
    losses = vmap(_loss)
    for step in range(int(steps.max())):
        loss = losses(weights, masks, rows[where[:, step]], targets[:, step], portions[:, step]).sum()
        gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
        rates = np.where(step < steps, _rate(spec, step, steps), 0.0)
        optimiser.step(gradients, torch.from_numpy(rates.astype(np.float32)).to(device))
    arrays = {name: value.detach().cpu().numpy() for name, value in weights.items()}
    return [
        {name: _narrow(name, array[index], len(network.classes)) for name, array in arrays.items()}
        for index, network in enumerate(networks)
    ]


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """By `to`: `contiguous` leaves a tensor with one channel as it is, and the convolution then takes twice as long."""
    return tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


def _wide(name: str, array: np.ndarray, classes: int) -> np.ndarray:
    """The last layer's array with a row of zeros for each class that this teacher has not seen."""
    if not name.startswith("out."):
        return array
    return np.concatenate([array, np.zeros((classes - len(array), *array.shape[1:]), dtype=array.dtype)])


def _narrow(name: str, array: np.ndarray, classes: int) -> np.ndarray:
    return array[:classes].copy() if name.startswith("out.") else array.copy()


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

"""Training of network teachers with torch: AdamW, cosine schedule, cross-entropy.

Only who trains or runs a network imports this module: torch takes two seconds.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
import torch
from torch.nn import functional

from consilium.models.devices import resolve_device, torch_on_one_thread
from consilium.models.keys import DENSE, NetworkSpec
from consilium.protocol.images import ImageShape, image_shape

_BLOCK = 1000


def train_network(
    spec: NetworkSpec, x: np.ndarray, y: np.ndarray, seed: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The classes int64 (seen,) of rows `x` float (n, inputs), n >= 1, with `y` int64 (n,), and the weights float32
    as `NetworkTeacher` keeps them.

    Raises
    ------
    ConfigError : this node's environment asks for a GPU that is not there.
    """
    device, generator = resolve_device(), np.random.default_rng(seed)
    image = image_shape(x.shape[1]) if spec.of_images else None
    rows = x.astype(np.float32)
    rows = torch.from_numpy(rows if image is None else image.planes(rows)).to(device)
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    labels = torch.from_numpy(codes.astype(np.int64)).to(device)
    each = len(y) / (len(classes) * counts[codes]) if spec.class_weight == "balanced" else np.ones(len(y))
    weights = {
        name: _channels_last(torch.from_numpy(value).to(device)).requires_grad_()
        for name, value in _initial_weights(spec, image, x.shape[1], len(classes), generator).items()
    }
    steps = [
        batch
        for _ in range(spec.epochs)
        for batch in np.split(generator.permutation(len(y)), range(spec.batch, len(y), spec.batch))
    ]
    optimiser = torch.optim.AdamW(weights.values(), lr=spec.learning_rate, weight_decay=spec.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, len(steps))
    with torch_on_one_thread():
        for batch in steps:
            optimiser.zero_grad()
            logits = _forward(weights, _channels_last(rows[batch])).float()
            counted = torch.from_numpy((each[batch] / len(batch)).astype(np.float32)).to(device)
            (functional.cross_entropy(logits, labels[batch], reduction="none") * counted).sum().backward()
            optimiser.step()
            schedule.step()
    return classes, {name: value.detach().cpu().contiguous().numpy() for name, value in weights.items()}


def convolutional_logits(weights: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """Logits float32 (n, seen) of a "cnn" teacher for images `x` float (n, pixels)."""
    device, channels = resolve_device(), weights["first.weight"].shape[1]
    image = ImageShape(channels, isqrt(x.shape[1] // channels))
    on_device = {name: _channels_last(torch.from_numpy(value).to(device)) for name, value in weights.items()}
    rows = torch.from_numpy(image.planes(x.astype(np.float32)))
    with torch_on_one_thread(), torch.no_grad():
        blocks = [_forward(on_device, _channels_last(block.to(device))).cpu() for block in rows.split(_BLOCK)]
    return torch.cat(blocks).numpy()


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


def _forward(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
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


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """By `to`: `contiguous` leaves a tensor with one channel as it is, and the convolution then takes twice as long."""
    return tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor

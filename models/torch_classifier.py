"""A torch module behind the methods of a classifier: seeded, on one thread, on the device that the node asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from consilium.models.devices import resolve_device, torch_on_one_thread
from consilium.models.naming import UnusableModel
from consilium.protocol.images import ImageShape, image_shape

_BLOCK = 1000


class TorchClassifier:
    """A module that a factory makes, trained on labels. On the CPU the same seed gives the same weights. keys: those of
    `keys.TorchKeys`, which say how. factory: called as factory(inputs=..., classes=..., **parameters), `inputs` the
    number of inputs, or (channels, side, side) for images, `classes` how many its rows have; gives a module from
    float32 (n, inputs) to logits (n, outputs), at least one a class. Only what requires a gradient is trained."""

    def __init__(self, keys: Any, factory: Callable[..., nn.Module], seed: int = 0) -> None:
        self.keys, self.factory, self.seed = keys, factory, seed

    def fit(self, x: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> TorchClassifier:
        """`x` float (n, inputs), `y` (n,) labels of any type, `sample_weight` float (n,)."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_features_in_ = x.shape[1]
        weights = np.ones(len(y)) if sample_weight is None else sample_weight / np.mean(sample_weight)
        device = resolve_device()
        gpus = range(torch.cuda.device_count()) if device == "cuda" else []
        with torch_on_one_thread(), torch.random.fork_rng(devices=gpus):
            torch.manual_seed(self.seed)
            self.module_ = self.untrained(x.shape[1], len(self.classes_))
            self.module_.to(device)
            labels = torch.from_numpy(codes.astype(np.int64)).to(device)
            counts = torch.from_numpy(weights.astype(np.float32)).to(device)
            self._train(self._rows(x).to(device), labels, counts)
            self.module_.cpu().eval()
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Probabilities float64 (n, classes), the softmax of the logits of the classes that were seen."""
        return np.exp(self.log_probabilities(x))

    def log_probabilities(self, x: np.ndarray) -> np.ndarray:
        """Their logarithms, float64 (n, classes): numbers however sure the module is."""
        device = resolve_device()
        with torch_on_one_thread(), torch.no_grad():
            self.module_.to(device).eval()
            logits = [self.module_(part.to(device)).cpu() for part in self._rows(x).split(_BLOCK)]
            self.module_.cpu()
        seen = torch.cat(logits)[:, : len(self.classes_)]
        return torch.log_softmax(seen.double(), dim=1).numpy()

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.classes_[self.predict_proba(x).argmax(axis=1)]

    def untrained(self, inputs: int, classes: int) -> nn.Module:
        """What the factory makes for rows of so many numbers. Raises UnusableModel if that is no module, or they are no
        square image, and whatever the factory raises."""
        image = self._image(inputs)
        shape = inputs if image is None else (image.channels, image.side, image.side)
        made = self.factory(inputs=shape, classes=classes, **self.keys.parameters)
        if not isinstance(made, nn.Module):
            raise UnusableModel(f"the factory gives {type(made).__name__}, no torch.nn.Module", "Return a module")
        return made

    def _rows(self, x: np.ndarray) -> torch.Tensor:
        rows, image = np.ascontiguousarray(x, dtype=np.float32), self._image(x.shape[1])
        if image is None:
            return torch.from_numpy(rows)
        # where there is one channel, `contiguous` does nothing, and a convolution takes twice as long
        return torch.from_numpy(image.planes(rows)).to(memory_format=torch.channels_last)

    def _image(self, inputs: int) -> ImageShape | None:
        if not self.keys.images:
            return None
        image = image_shape(inputs, least=2)  # of one pixel there is nothing to see, in colour neither
        if image is None:
            raise UnusableModel(f"{inputs} inputs are no square image", "Leave `images` out")
        return image

    def _train(self, rows: torch.Tensor, labels: torch.Tensor, counts: torch.Tensor) -> None:
        module, keys = self.module_, self.keys
        parameters = [each for each in module.parameters() if each.requires_grad]
        if not parameters:
            raise UnusableModel("the module has nothing that is trained", "Let some parameters require a gradient")
        optimiser = torch.optim.AdamW(parameters, lr=keys.learning_rate, weight_decay=keys.weight_decay, fused=True)
        each = math.ceil(len(rows) / keys.batch)
        total = keys.steps or keys.epochs * each
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, total)
        module.train()
        for step in range(total):
            if step % each == 0:
                order = torch.randperm(len(rows)).to(rows.device)
            part = order[step % each * keys.batch :][: keys.batch]  # pyright: ignore[reportPossiblyUnbound]
            if len(part) == 1 and len(rows) > 1:
                part = order[-2:]  # a batch norm cannot be computed of one row
            optimiser.zero_grad()
            self._loss(module(rows[part]), labels[part], counts[part]).backward()
            optimiser.step()
            schedule.step()

    def _loss(self, logits: torch.Tensor, labels: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        if logits.ndim != 2 or logits.shape[1] < len(self.classes_):
            what = f"the module gives {tuple(logits.shape)} for {len(labels)} rows and {len(self.classes_)} classes"
            raise UnusableModel(what, "It must give a logit for each class")
        return (functional.cross_entropy(logits, labels, reduction="none") * counts).mean()


class NetworkTeacher(TorchClassifier):
    """One of the networks that a coordinator may ask of a party: `spec` is its `keys.NetworkSpec`."""

    def __init__(self, spec: Any, seed: int) -> None:
        keys = SimpleNamespace(**spec.model_dump(), parameters={}, steps=0, images=spec.of_images)
        super().__init__(keys, partial(network_of, spec), seed=seed)
        self.balanced = spec.class_weight == "balanced"

    def fit(self, x: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> NetworkTeacher:
        if self.balanced:
            _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
            sample_weight = 1 / counts[codes]
        super().fit(x, y, sample_weight)
        return self


def network_of(spec: Any, inputs: Any, classes: int) -> nn.Module:
    """Dense layers, behind two convolutions with max-pool where the rows are images."""
    layers: list[nn.Module] = []
    if spec.of_images:
        channels, side, _ = inputs
        for more in (spec.channels, 2 * spec.channels):
            # in this order a quarter of the work, the same numbers
            layers += [nn.Conv2d(channels, more, 5), nn.MaxPool2d(2), nn.ReLU()]
            channels, side = more, (side - 4) // 2
        layers.append(nn.Flatten())
        inputs = channels * side**2
    for _ in range(spec.dense_layers if spec.of_images else 1):
        layers += [nn.Linear(inputs, spec.hidden), nn.ReLU()]
        inputs = spec.hidden
    net = nn.Sequential(*layers, nn.Linear(inputs, classes))
    return net.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]  # half the time on a CPU

"""A torch module behind the methods of a classifier: seeded, on one thread, on the device that the node asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import nn
from torch.nn import functional

from consilium.models.devices import one_thread, resolve_device
from consilium.models.naming import UnusableModel
from consilium.protocol.images import ImageShape, image_shape

_BLOCK = 1000
_OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class TorchClassifier(ClassifierMixin, BaseEstimator):
    """A module that `factory` makes, trained on labels.

    factory : called as factory(inputs=..., classes=..., **parameters), `inputs` the number of inputs, or (1, side,
        side) for images, `classes` how many its rows have; gives a module from float32 (n, inputs) to logits (n,
        outputs), at least one output for each class. Only what requires a gradient is trained.
    name : by which others find the factory; its module and name where None.
    loss : (logits, labels int64 (n,)) -> scalar; None for cross-entropy.
    optimiser : "adamw", "adam" or "sgd". Others : see `keys.TorchKeys`.
    random_state : on the CPU the same one gives the same weights.
    """

    def __init__(
        self,
        factory: Callable[..., nn.Module],
        *,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        loss: Loss | None = None,
        epochs: int = 20,
        steps: int = 0,
        batch: int = 32,
        learning_rate: float = 0.003,
        weight_decay: float = 0.01,
        optimiser: str = "adamw",
        images: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.factory = factory
        self.name = name
        self.parameters = parameters
        self.loss = loss
        self.epochs = epochs
        self.steps = steps
        self.batch = batch
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.optimiser = optimiser
        self.images = images
        self.random_state = random_state

    def fit(self, x: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> TorchClassifier:
        """`x` float (n, inputs), `y` (n,) labels of any type, `sample_weight` float (n,) for cross-entropy only."""
        if sample_weight is not None and self.loss is not None:
            raise UnusableModel("a loss of one's own takes no weights", "Leave the loss out, or the weights")
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_features_in_ = x.shape[1]
        weights = np.ones(len(y)) if sample_weight is None else sample_weight / np.mean(sample_weight)
        device = resolve_device()
        with one_thread(), torch.random.fork_rng(devices=range(torch.cuda.device_count()) if device == "cuda" else []):
            torch.manual_seed(self.random_state or 0)
            self.module_ = module_of(self.factory, self.shape(x.shape[1]), len(self.classes_), self.parameters or {})
            self.module_.to(device)
            labels = torch.from_numpy(codes.astype(np.int64)).to(device)
            counts = torch.from_numpy(weights.astype(np.float32)).to(device)
            self._train(self._rows(x).to(device), labels, counts)
            self.module_.cpu().eval()
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Probabilities float64 (n, classes), the softmax of the logits of the classes that were seen."""
        device = resolve_device()
        with one_thread(), torch.no_grad():
            self.module_.to(device).eval()
            logits = [self.module_(part.to(device)).cpu() for part in self._rows(x).split(_BLOCK)]
            self.module_.cpu()
        seen = torch.cat(logits)[:, : len(self.classes_)]
        return torch.softmax(seen.double(), dim=1).numpy()

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most probable class of each row."""
        return self.classes_[self.predict_proba(x).argmax(axis=1)]

    def shape(self, inputs: int) -> int | tuple[int, int, int]:
        """What the factory is told of a row of so many numbers. Raises UnusableModel if that is no square image."""
        image = self._image(inputs)
        return inputs if image is None else (image.channels, image.side, image.side)

    def public_name(self) -> str:
        """What a published student calls the factory."""
        path = getattr(self.factory, "__qualname__", type(self.factory).__name__).replace("<locals>.", "")
        return self.name or f"{getattr(self.factory, '__module__', '__main__')}:{path.replace('<lambda>', 'factory')}"

    def _rows(self, x: np.ndarray) -> torch.Tensor:
        rows, image = np.ascontiguousarray(x, dtype=np.float32), self._image(x.shape[1])
        return torch.from_numpy(rows if image is None else image.planes(rows))

    def _image(self, inputs: int) -> ImageShape | None:
        if not self.images:
            return None
        image = image_shape(inputs, least=2)  # of one pixel there is nothing to see, in colour neither
        if image is None:
            raise UnusableModel(f"{inputs} inputs are no square image", "Leave `images` out")
        return image

    def _train(self, rows: torch.Tensor, labels: torch.Tensor, counts: torch.Tensor) -> None:
        module = self.module_
        parameters = [each for each in module.parameters() if each.requires_grad]
        if not parameters:
            raise UnusableModel("the module has nothing that is trained", "Let some parameters require a gradient")
        optimiser = _OPTIMISERS[self.optimiser](parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
        each = math.ceil(len(rows) / self.batch)
        total = self.steps or self.epochs * each
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, total)
        module.train()
        for step in range(total):
            if step % each == 0:
                order = torch.randperm(len(rows)).to(rows.device)
            part = order[step % each * self.batch :][: self.batch]  # pyright: ignore[reportPossiblyUnbound]
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
        if self.loss is not None:
            return self.loss(logits, labels)
        return (functional.cross_entropy(logits, labels, reduction="none") * counts).mean()


def module_of(factory: Callable[..., Any], inputs: Any, classes: int, parameters: Mapping[str, Any]) -> nn.Module:
    """What the factory makes. Raises UnusableModel if that is no module, and whatever the factory raises."""
    made = factory(inputs=inputs, classes=classes, **parameters)
    if not isinstance(made, nn.Module):
        raise UnusableModel(f"the factory gives {type(made).__name__}, no torch.nn.Module", "Return a module")
    return made

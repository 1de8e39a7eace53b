"""The loop that all students of images share: moving average of the weights, stopping, checkpoints.

The moving average is that of Tarvainen and Valpola, Mean teachers are better role models, NIPS 2017, without its loss.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from consilium.protocol.devices import asked_device, resolve_device
from consilium.protocol.rows.images import ImageShape
from consilium.student.trainers.base import SILENT, Job
from consilium.student.trainers.images.checkpoint import checkpoint_path, read_checkpoint, write_checkpoint
from consilium.student.trainers.images.network import ImageModel, few_threads, network, plain
from consilium.student.trainers.images.rows import Pixels
from consilium.student.trainers.settings import ImageStudent

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

CHECK_EVERY = 50
"""Steps between two looks at the predictions, each with a checkpoint."""

_CALM_CHECKS = 4
AVERAGED = 0.998
"""The moving average of most methods is over about 500 steps."""

_RATE = 2e-3
_RISE = 0.15
_BLOCK = 500


@dataclass(frozen=True)
class Material:
    """Images on the device of training: `labelled` (n, channels, side, side) with `labels` int64 (n,), and `every`
    image of the pool, those with a label too (m, channels, side, side). `generator` is on the CPU; everything random
    comes from it."""

    labelled: Tensor
    labels: Tensor
    every: Tensor
    classes: int
    generator: Generator

    def labelled_batch(self, size: int) -> tuple[Tensor, Tensor]:
        """Drawn with replacement: `size` images and their labels."""
        rows = self._draw(len(self.labels), size)
        return self.labelled[rows], self.labels[rows]

    def batch(self, size: int) -> Tensor:
        """`size` images of the pool, drawn with replacement."""
        return self.every[self._draw(len(self.every), size)]

    def _draw(self, count: int, size: int) -> Tensor:
        import torch

        return torch.randint(count, (size,), generator=self.generator).to(self.labels.device)


class Method(Protocol):
    """One way to learn.

    parts: everything with a state that changes, by name: modules and optimisers. decay: of the moving average of the
        weights in each step; 0 for none.
    """

    parts: dict[str, Any]
    decay: float

    def update(self, done: float) -> None:
        """One step; `done` is the share of all steps that were made, from 0 to 1."""
        ...


MakeMethod = Callable[["nn.Sequential", Material], Method]


@dataclass(frozen=True)
class ImageTrainer:
    """Trains what `build` makes by `method` on labels and on `unlabelled` float (n, pixels); that costs no privacy.

    It stops after `spec.steps`, or earlier once at most a share `spec.settled` of the pool's predictions has changed
    in each of the last few checks: that needs no labels. With a folder it goes on where a killed run of the same
    labels, rows, specification and seed stopped, with the same result on a CPU.
    """

    method: MakeMethod
    spec: ImageStudent
    unlabelled: np.ndarray = field(repr=False)
    job: Job = SILENT
    build: Callable[[ImageShape, int, int], nn.Sequential] = network

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> ImageModel:
        """See `Trainer.fit`, but `x` float (n, pixels) are features as they travel. Gives the weights' moving average.

        Raises
        ------
        ConfigError : rows are no square images, or the device is absent. DataError : the checkpoint is damaged.
        """
        import torch

        spec = self.spec
        rows = np.concatenate([x, self.unlabelled])
        pixels, device = Pixels.of(rows), resolve_device(asked_device())
        generator = torch.Generator().manual_seed(seed)
        with few_threads(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = self.build(pixels.shape, classes, spec.channels).to(device)
            every = pixels.images(rows).to(device)
            labels = torch.from_numpy(y).to(device)
            method = self.method(net, Material(every[: len(y)], labels, every, classes, generator))
            path = checkpoint_path(self.job.folder, spec, x, y, self.unlabelled, seed)
            state = _State(net, method, generator, spec, path)
            state.load()
            name = f"train student, {spec.name}"
            self.job.progress(name, state.step, spec.steps)
            while state.step < spec.steps and not state.settled:
                method.update(state.step / spec.steps)
                state.after_update(every)
                if state.step % CHECK_EVERY == 0:
                    self.job.progress(name, state.step, spec.steps)
        found = plain(state.average).state_dict()
        weights = {name: value.detach().cpu().contiguous().numpy() for name, value in found.items()}
        return ImageModel(pixels, classes, spec.channels, weights)


@dataclass
class _State:
    """All that a step changes. `predicted` int64 (m,): the pool's classes at the last check; `calm`: checks in a row
    at which few had changed."""

    net: nn.Sequential
    method: Method
    generator: Generator
    spec: ImageStudent
    path: Path | None
    step: int = 0
    calm: int = 0
    predicted: Tensor | None = None
    average: nn.Sequential = field(init=False)

    def __post_init__(self) -> None:
        self.average = copy.deepcopy(self.net).eval()

    @property
    def settled(self) -> bool:
        """Whether it may stop before its last step."""
        return self.calm >= _CALM_CHECKS

    def after_update(self, every: Tensor) -> None:
        """Count the step; at times look at the predictions and write the checkpoint."""
        import torch

        self.step += 1
        decay = min(self.method.decay, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for mean, now in zip(self.average.parameters(), self.net.parameters(), strict=True):
                mean.lerp_(now, 1 - decay)
            for kept, now in zip(self.average.buffers(), self.net.buffers(), strict=True):
                kept.copy_(now)
        if self.step % CHECK_EVERY and self.step != self.spec.steps:
            return
        if self.spec.settled:
            with torch.no_grad():
                classes = torch.cat([self.average(part).argmax(dim=1) for part in every.split(_BLOCK)]).cpu()
            if self.predicted is not None:
                changed = float((classes != self.predicted).float().mean())
                self.calm = self.calm + 1 if changed <= self.spec.settled else 0
            self.predicted = classes
        self.save()

    def save(self) -> None:
        """Write the checkpoint."""
        if self.path is None:
            return
        content = {
            "step": self.step,
            "calm": self.calm,
            "predicted": self.predicted,
            "average": self.average.state_dict(),
            "generator": self.generator.get_state(),
            "parts": {name: part.state_dict() for name, part in self.method.parts.items()},
        }
        write_checkpoint(self.path, content)

    def load(self) -> None:
        """Go on from the checkpoint if there is one. Raises DataError if it cannot be read."""
        read_checkpoint(self.path, self._restore)

    def _restore(self, content: dict[str, Any]) -> None:
        self.step, self.calm, self.predicted = int(content["step"]), int(content["calm"]), content["predicted"]
        self.average.load_state_dict(content["average"])
        self.generator.set_state(content["generator"])
        for name, part in self.method.parts.items():
            part.load_state_dict(content["parts"][name])


def _falling(done: float) -> float:
    """The rate of FixMatch: cos(7 pi done / 16)."""
    return _RATE * math.cos(7 * math.pi * done / 16)


def _one_cycle(done: float) -> float:
    """Up to twice the rate, then down to nothing (Smith, Topin, Super-convergence, arXiv:1708.07120)."""
    rising = done / _RISE
    falling = (1 + math.cos(math.pi * (done - _RISE) / (1 - _RISE))) / 2
    return 2 * _RATE * (min(rising, falling) + 1e-3)


@dataclass(frozen=True)
class Descent:
    """Adam (Kingma, Ba 2015) with weight decay apart (Loshchilov, Hutter 2019); `rate` of the share of steps done."""

    optimiser: Any
    rate: Callable[[float], float]

    @classmethod
    def of(cls, *nets: nn.Module, cycle: bool = False) -> Descent:
        """For all parameters of `nets`; in one cycle for those with batch normalisation."""
        import torch

        parameters = [parameter for net in nets for parameter in net.parameters()]
        return cls(torch.optim.AdamW(parameters, lr=_RATE, weight_decay=5e-3), _one_cycle if cycle else _falling)

    def step(self, loss: Tensor, done: float) -> None:
        """One step down `loss`."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate(done)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()

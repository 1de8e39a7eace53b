"""Siamese networks to save queries, as the first version of Papernot et al. 2017 tried (appendix C.2), on MNIST.

    python -m benchmarks.siamese [--seeds 0 1 2] [--out FILE]

Two networks with the same weights (Bromley et al. 1993) see two images; how far apart their features are says whether
the images are alike, as in Koch's thesis (2015). "same image": they learn, without a label, that an image and a
slightly distorted copy are alike and two images are not. "same class": they learn, on the labelled images, which pairs
have one label. Then each image without a label takes that of the labelled image that is most like it, if the two are
surely alike (probability .9 or more), and a plain network learns from both kinds of labels; beside it one that learns
from the labelled images alone.

Labels are those of LNMax with the noise of 2017 (scale 20) on the votes published with Papernot et al. 2018, so a label
costs there what it costs everywhere, and what is inferred costs nothing. Of 9,000 images 5,000 by lot may be asked
or labelled so; the others and the held-out thousand judge. Needs the MNIST files and the published votes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.cells import command_of
from benchmarks.cnn_teachers import cnn_place
from benchmarks.exact import published_votes
from benchmarks.near_zero import labels_of
from benchmarks.papers import Kept, spread
from benchmarks.plain_network import accuracy, learn, one_hot
from consilium.models.images.loop import Descent, ImageTrainer, MakeMethod, Material
from consilium.models.images.network import ImageModel
from consilium.models.images.pixels import INVARIANCES, Distortion
from consilium.models.specs import CnnStudent
from docs.figures import figure

if TYPE_CHECKING:
    from torch import Tensor, nn

LABELS = (100,)
VARIANTS = ("same image", "same class")
SURE = 0.9
STEPS = 300
OPEN = 5000
"""Rows of the pool that may be asked."""

_SHARPNESS = 10.0
"""Of the logits: features of length 1 are at most 2 apart, and a pair must be able to be surely alike."""

_PAIRS = 64
_BLOCK = 500
_LOT = 0x7369616D
CLASSES = 10


class Alike:
    """See `loop.Method`. The last layer of `net` weighs |a - b| of the features, scaled to length 1, of two images."""

    def __init__(self, net: nn.Sequential, material: Material) -> None:
        self._net, self._material = net, material
        self._descent = Descent.of(net)
        self.decay = 0.0
        self.parts: dict[str, Any] = {"net": net, "optimiser": self._descent.optimiser}

    def update(self, drawn: tuple[Tensor, ...], done: float) -> None:
        """See `loop.Method.update`: half of the pairs are alike."""
        import torch
        from torch.nn import functional

        left, right, alike = drawn
        places = functional.normalize(self._net[0](torch.cat([left, right])), dim=1)
        one, other = places.split(len(left))
        logits = _SHARPNESS * self._net[1]((one - other).abs())[:, 0]
        self._descent.step(functional.binary_cross_entropy_with_logits(logits, alike), done)

    def draw(self) -> tuple[Tensor, Tensor, Tensor]:
        """Images, images, and 1 where the two are alike, float32 (pairs,)."""
        raise NotImplementedError


class SameImage(Alike):
    """Alike are an image of the pool and its copy by `change`."""

    def __init__(self, net: nn.Sequential, material: Material, change: Distortion) -> None:
        super().__init__(net, material)
        self._change = change

    def draw(self) -> tuple[Tensor, Tensor, Tensor]:
        """See `Alike.draw`. Two images of the pool are hardly ever the same one."""
        import torch

        images = self._material.batch(_PAIRS)
        other = torch.cat([images[: _PAIRS // 2], self._material.batch(_PAIRS // 2)])
        alike = (torch.arange(_PAIRS, device=images.device) < _PAIRS // 2).float()
        return images, self._change(other, self._material.generator), alike


class SameClass(Alike):
    """Alike are two labelled images of one class."""

    def draw(self) -> tuple[Tensor, Tensor, Tensor]:
        """See `Alike.draw`. Where a class has one image, its pair is the image itself."""
        import torch

        material, labels = self._material, self._material.labels
        device = labels.device
        one = torch.randint(len(labels), (_PAIRS,), generator=material.generator).to(device)
        alike = torch.arange(_PAIRS, device=device) < _PAIRS // 2
        fits = (labels[one][:, None] == labels[None, :]) == alike[:, None]
        drawn = torch.rand(_PAIRS, len(labels), generator=material.generator).to(device)
        other = torch.where(fits, drawn, -1.0).argmax(dim=1)
        return material.labelled[one], material.labelled[other], (labels[one] == labels[other]).float()


def siamese(variant: str, x: np.ndarray, labels: np.ndarray, unlabelled: np.ndarray, seed: int,
            steps: int = STEPS) -> ImageModel:  # fmt: skip
    """Train on pixels `x` float (n, pixels) with `labels` int64 (n,), and on `unlabelled` (m, pixels)."""
    change = INVARIANCES["digits"].weak
    methods: dict[str, MakeMethod] = {
        "same image": lambda net, material: SameImage(net, material, change),
        "same class": SameClass,
    }
    spec = CnnStudent(steps=steps, settled=0.0, augment="none")
    return ImageTrainer(methods[variant], spec, unlabelled).fit(x, labels, 1, seed)


def matches(model: ImageModel, rows: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each of `rows` (n, pixels) the most like of `known` (m, pixels): int64 (n,), and the probability that the two
    are alike, float64 (n,)."""
    weights, bias = model.weights["1.weight"][0], float(model.weights["1.bias"][0])
    among, place = model.features(known), model.features(rows)
    best, score = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    for start in range(0, len(rows), _BLOCK):
        part = place[start : start + _BLOCK]
        logits = _SHARPNESS * (np.abs(part[:, None, :] - among[None, :, :]) @ weights + bias)
        best[start : start + len(part)] = logits.argmax(axis=1)
        score[start : start + len(part)] = logits.max(axis=1)
    return best, 1 / (1 + np.exp(-score.astype(np.float64)))


def measure(kept: Kept, seed: int, votes: np.ndarray) -> None:
    """All rows of the table for one seed."""
    place = cnn_place(seed)
    labels = labels_of("LNMax 9,000", votes, place.pool_truth, seed)
    order = np.random.default_rng([seed, _LOT]).permutation(len(place.pool))
    judges = order[OPEN:]
    x, y = np.concatenate([place.pool[judges], place.test]), np.concatenate([place.pool_truth[judges], place.truth])
    for count in LABELS:
        asked, rest = order[:count], order[count:OPEN]
        own = place.pool[asked], labels[asked]
        if not kept.has(seed=seed, labels=count, variant="labels alone"):
            plain = learn(own[0], one_hot(own[1], CLASSES), seed)
            kept.add(seed=seed, labels=count, variant="labels alone", accuracy=accuracy(plain, x, y),
                     right=float((own[1] == place.pool_truth[asked]).mean()))  # fmt: skip
        for variant in VARIANTS:
            if kept.has(seed=seed, labels=count, variant=variant):
                continue
            model = siamese(variant, *own, place.pool[rest], seed)
            match, sure = matches(model, place.pool[rest], own[0])
            inferred, taken = own[1][match], sure >= SURE
            right = (inferred == place.pool_truth[rest])[taken]
            both = np.concatenate([own[0], place.pool[rest[taken]]]), np.concatenate([own[1], inferred[taken]])
            student = learn(both[0], one_hot(both[1], CLASSES), seed)
            kept.add(seed=seed, labels=count, variant=variant, matched=float(taken.mean()),
                     right=float(right.mean()) if len(right) else None,
                     best_match_right=float((inferred == place.pool_truth[rest]).mean()),
                     accuracy=accuracy(student, x, y))  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Siamese networks to save queries.")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("siamese.jsonl"))
    chosen = parser.parse_args(arguments or [])
    votes = published_votes("mnist")
    kept = Kept(chosen.out)
    for seed in chosen.seeds:
        measure(kept, seed, votes)
    columns = ("labels", "labels from", "surely matched, %", "of them right, %", "best match right, %", "student, %")
    command = command_of("benchmarks.siamese", arguments or ())
    split = "judged on test images that nobody asks about"
    with figure("papers/siamese", command, columns, split=split, seeds=chosen.seeds) as table:
        table.seconds = kept.seconds
        for count in LABELS:
            for variant in ("labels alone", *VARIANTS):
                mine = [item for item in kept.found if (item["labels"], item["variant"]) == (count, variant)]
                measures = ("matched", "right", "best_match_right", "accuracy")
                table.add(count, variant, *(spread(mine, name, 100) for name in measures))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Networks as teachers as in 2017, for other benchmarks: MNIST by lot at 250 parties, each with a CNN on pixels.

What they get right stands in the first row of `consilium run pate-2017`. 250 take two to three processor minutes a
seed. Needs the MNIST files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.special import softmax

from benchmarks.papers import Place
from consilium.data.private_rows import Rows
from consilium.models.teachers import Teacher
from consilium.party.teach import simulated_seeds, train_all

DELTA = 1e-5
TEMPERATURES = (1.0, 5.0)
"""Those of the first version's appendix C.1."""

CNN = ("federation.teacher.model=cnn", "data.representation=none", "data.standardise=false",
       "student.trainer={name='graph'}")  # fmt: skip
"""The network of 2017 on pixels. The student only has to fit the rows: nobody trains it."""


def cnn_place(seed: int) -> Place:
    """MNIST by lot at 250 parties whose teachers are networks on pixels."""
    return Place("mnist-250", seed, (*CNN, "federation.mechanism={name='gnmax', sigma=40}"))


_NAMES = ("votes", "averages", "right")


@dataclass(frozen=True)
class Spoken:
    """What all teachers said of some public rows. Secret.

    votes: int64 (rows, classes). averages: float64 (temperatures, rows, classes), means over the teachers of their
    softmax at each of `TEMPERATURES`. right: float64 (teachers,), share of the rows that each gets right.
    """

    votes: np.ndarray = field(repr=False)
    averages: np.ndarray = field(repr=False)
    right: np.ndarray = field(repr=False)


def spoken(teachers: Sequence[Teacher], x: np.ndarray, y: np.ndarray, classes: int) -> Spoken:
    """Ask `teachers` for `x` float (rows, inputs), whose labels are `y` int64 (rows,).

    A class that a teacher has not seen has probability 0 at every temperature.
    """
    votes, right = np.zeros((len(x), classes), dtype=np.int64), []
    sums = np.zeros((len(TEMPERATURES), len(x), classes))
    for teacher in teachers:
        logits = np.log(np.maximum(teacher.predict_proba(x), 1e-300))  # pyright: ignore[reportAttributeAccessIssue]
        seen = teacher.classes_  # pyright: ignore[reportAttributeAccessIssue]
        said = seen[logits.argmax(axis=1)]
        votes[np.arange(len(x)), said] += 1
        right.append(float((said == y).mean()))
        for at, temperature in enumerate(TEMPERATURES):
            sums[at][:, seen] += softmax(logits / temperature, axis=1)
    return Spoken(votes, sums / len(teachers), np.array(right))


def asked_rows(place: Place) -> np.ndarray:
    """Every third row of the pool, int64, from the harder first half of MNIST's order as from the second."""
    return np.arange(0, len(place.pool), 3)


def ensemble(place: Place, kept: Path, teachers: int) -> tuple[Spoken, Spoken]:
    """What the teachers of the first so many parties of a place said of `asked_rows` and of the test rows.

    They are trained as the parties do it, with seeds of their own.
    """
    path = kept / f"cnn-{teachers}-{place.seed}.npz"
    if path.exists():
        with np.load(path) as file:
            pool, test = (Spoken(*(file[f"{part}.{name}"] for name in _NAMES)) for part in ("pool", "test"))
        return pool, test
    classes, spec = len(place.schema.classes), place.scenario.federation.teacher
    trained: list[Teacher] = []
    for party, rows in list(place.partition.parties.items())[:teachers]:
        own = Rows(place.schema.inputs(place.dataset.x[rows]), place.dataset.y[rows])
        seed = int(simulated_seeds(place.seed, party).spawn(1)[0].generate_state(1)[0])
        trained += train_all(own, spec, [np.arange(len(rows))], [seed], classes)
    chosen = asked_rows(place)
    pool = spoken(trained, place.inputs(place.pool[chosen]), place.pool_truth[chosen], classes)
    test = spoken(trained, place.inputs(place.test), place.truth, classes)
    parts = {"pool": pool, "test": test}
    kept.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{f"{part}.{name}": getattr(told, name) for part, told in parts.items() for name in _NAMES})
    return pool, test

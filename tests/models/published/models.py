"""A student of each kind that can be published, small and quickly trained, for the tests of files and predictions."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from consilium.models.base import Model
from consilium.models.naming import write_estimator
from consilium.protocol.schema import Range, Schema
from consilium.student.config import StudentSpec
from consilium.student.learn import inputs, train
from tests.federation import make_rows
from tests.specs import student_of
from tests.strangers import Net

TABLE: dict[str, dict[str, Any]] = {
    "logistic_regression": {"C": 1.0},
    "forest": {
        "trainer": "estimator",
        "factory": "sklearn.ensemble.RandomForestClassifier",
        "parameters": {"n_estimators": 12, "max_depth": 6},
    },
    "graph": {"gamma": 0.2},
    "constant": {},
    "estimator": {"factory": "sklearn.naive_bayes.GaussianNB"},
    "torch": {"factory": "tests.strangers:Net", "epochs": 4},
    "pickled": {},
}
IMAGES: dict[str, dict[str, Any]] = {
    name: {"steps": 4, "channels": 4, "gamma": 0.5, "networks": 2, "looks": 4, "settled": 0.0}
    for name in ("graph_cnn", "graph")
}
SCATTERED = ("graph_cnn", "graph", "logistic_regression")
CASES = [
    *(f"table {name}" for name in TABLE),
    *(f"images {name}" for name in IMAGES),
    *(f"images scattering {name}" for name in SCATTERED),
    "colour graph_cnn",
]


@dataclass(frozen=True)
class Case:
    """A trained student, with the public rows `pool` float32 (n, features) as they travel, and rows to be judged."""

    schema: Schema
    spec: StudentSpec
    model: Model
    pool: np.ndarray
    rows: np.ndarray

    @property
    def factory(self) -> type[Net] | None:
        """What whoever loads it must pass."""
        return Net if self.spec.trainer.name == "torch" else None

    def in_memory(self) -> np.ndarray:
        """What the student that was trained says, without any file."""
        return self.model.predict_proba(inputs(self.spec, self.schema, self.rows))


@cache
def case(name: str) -> Case:
    """One of `CASES`; three classes, of which the last never occurs."""
    kind, *more = name.split()
    trainer = more[-1]
    settings = {"trainer": trainer, **(TABLE[" ".join(more)] if kind == "table" else IMAGES.get(trainer, {}))}
    if settings["trainer"] == "constant":
        del settings["trainer"]
    if kind == "table":
        x, y = make_rows(150, 3)
        features, ranges = ("age", "pressure", "drowsy"), (Range(feature="age", low=0, high=120, whole=True),)
    else:
        side = 28 if "scattering" in more else 8
        x, y = bars(120, side)
        if kind == "colour":
            x = (x[:, :, None] * np.array([1, 0.5, 0.2], dtype=np.float32)).reshape(len(x), -1)
        features, ranges = tuple(f"pixel-{index}" for index in range(x.shape[1])), ()
    if trainer == "constant":
        y = np.ones_like(y)
    classes = ("well", "ill", "never")
    schema = (
        Schema.of_images(features, classes, "scattering")
        if "scattering" in more
        else Schema.from_public_rows(features, classes, x).model_copy(update={"ranges": ranges})
    )
    if trainer == "pickled":
        path = Path(tempfile.mkdtemp()) / "student.pkl"
        write_estimator(path, RandomForestClassifier(5))
        settings["file"] = str(path)
    spec = student_of(**settings)
    seen = inputs(spec, schema, x)
    model = train(seen[:40], y[:40], seen[40:80], 3, spec, 0, schema=schema)
    return Case(schema, spec, model, x[:80], x[80:])


def bars(count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of an upright or a lying bar, grey values in 255ths; float32 (count, side * side) and classes."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 60, size=(count, side, side))
    y = generator.integers(2, size=count)
    for image, lying in zip(images, y, strict=True):
        at = generator.integers(1, side - 3)
        (image[at : at + 2] if lying else image[:, at : at + 2])[:] = 220
    return (images.reshape(count, -1) / 255).astype(np.float32), y.astype(np.int64)

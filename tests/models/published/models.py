"""A student of each kind that can be published, small and quickly trained; and files as whoever wants harm would write
them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from consilium.models.base import Model
from consilium.models.keys import TorchKeys
from consilium.models.naming import write_estimator
from consilium.models.own_model import OwnTrainer
from consilium.models.published.file import read, write
from consilium.models.published.model import Published, publish
from consilium.models.torch_classifier import TorchClassifier
from consilium.protocol.schema import Range, Schema
from consilium.student.config import StudentSpec
from consilium.student.learn import inputs, train
from tests.federation import make_rows
from tests.specs import student_of
from tests.strangers import Net

_IMAGES = {"steps": 4, "channels": 4, "gamma": 0.5, "networks": 2, "looks": 4, "settled": 0.0}
_FOREST = {"factory": "sklearn.ensemble.RandomForestClassifier", "parameters": {"n_estimators": 12, "max_depth": 6}}
SETTINGS: dict[str, dict[str, Any]] = {
    "table logistic_regression": {"C": 1.0},
    "table forest": {"trainer": "estimator", **_FOREST},
    "table graph": {"gamma": 0.2},
    "table constant": {"trainer": "logistic_regression"},
    "table estimator": {"factory": "sklearn.naive_bayes.GaussianNB"},
    "table torch": {"factory": "tests.strangers:Net", "epochs": 4},
    "table pickled": {},
    "images graph_cnn": _IMAGES,
    "images graph": _IMAGES,
    "images scattering graph_cnn": _IMAGES,
    "images scattering graph": _IMAGES,
    "images scattering logistic_regression": {},
    "colour graph_cnn": _IMAGES,
}
CASES = list(SETTINGS)


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

    def publish(self, path: Path, *more: Any) -> Published:
        """Its file, and what that says."""
        return publish(path, self.model, self.schema, self.pool, *more)


@cache
def case(name: str) -> Case:
    """One of `CASES`; three classes, of which the last never occurs."""
    kind, *more = name.split()
    settings = {"trainer": more[-1], **SETTINGS[name]}
    ranges: tuple[Range, ...] = ()
    if kind == "table":
        x, y = make_rows(150, 3)
        features, ranges = ("age", "pressure", "drowsy"), (Range(feature="age", low=0, high=120, whole=True),)
    else:
        x, y = bars(120, 28 if "scattering" in more else 8)
        if kind == "colour":
            x = (x[:, :, None] * np.array([1, 0.5, 0.2], dtype=np.float32)).reshape(len(x), -1)
        features = tuple(f"pixel-{index}" for index in range(x.shape[1]))
    if name == "table constant":
        y = np.ones_like(y)
    classes = ("well", "ill", "never")
    schema = (
        Schema.of_images(features, classes, "scattering")
        if "scattering" in more
        else Schema.from_public_rows(features, classes, x).model_copy(update={"ranges": ranges})
    )
    if name == "table pickled":
        settings["file"] = str(Path(tempfile.mkdtemp()) / "student.pkl")
        write_estimator(Path(settings["file"]), RandomForestClassifier(5))
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


X, Y = make_rows(200, 4)
SCHEMA = Schema.from_public_rows(("age", "pressure", "drowsy"), ("well", "ill", "never"), X)


def published(estimator: Any, path: Path) -> Published:
    """A student that others wrote."""
    return publish(path, OwnTrainer("theirs", lambda _: estimator).fit(SCHEMA.inputs(X), Y, 3, 0), SCHEMA, X)


def file_of(tmp_path: Path, content: bytes) -> Path:
    """A file with this archive of an estimator in it."""
    path = tmp_path / "model.safetensors"
    published(GaussianNB(), path)
    good = read(path)
    write(path, good.header, {**good.arrays, "skops": np.frombuffer(content, dtype=np.uint8)})
    return path


def torch_file(tmp_path: Path, factory: str = "", **parameters: Any) -> Path:
    """A trained module in a file, which says that `factory` makes it."""
    path = tmp_path / "torch.safetensors"
    keys = TorchKeys(factory=factory or "tests.strangers:Net", parameters=parameters, epochs=2)
    published(TorchClassifier(keys, Net), path)
    return path

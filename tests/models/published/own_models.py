"""Rows, and files of students that others wrote: as they are published, and as whoever wants harm would write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB

from consilium.models.keys import TorchKeys
from consilium.models.own_model import OwnTrainer
from consilium.models.published.file import read, write
from consilium.models.published.model import Published, publish
from consilium.models.torch_classifier import TorchClassifier
from consilium.protocol.schema import Schema
from tests import strangers
from tests.federation import make_rows

X, Y = make_rows(200, 4)
SCHEMA = Schema.from_public_rows(("age", "pressure", "drowsy"), ("well", "ill", "never"), X)


def published(estimator: Any, path: Path) -> Published:
    model = OwnTrainer("theirs", lambda _: estimator).fit(SCHEMA.inputs(X), Y, 3, 0)
    return publish(path, model, SCHEMA, X)


def file_of(tmp_path: Path, content: bytes, kind: str = "estimator", **settings: Any) -> Path:
    """A file with this archive in it, as whoever wants harm would write it."""
    path = tmp_path / "model.safetensors"
    published(GaussianNB(), path)
    good = read(path)
    header = {**good.header, "kind": kind, "settings": settings or good.header["settings"]}
    write(path, header, {**good.arrays, "skops": np.frombuffer(content, dtype=np.uint8)})
    return path


def torch_file(tmp_path: Path, factory: str = "", **parameters: Any) -> Path:
    """A trained module in a file, which says that `factory` makes it."""
    path = tmp_path / "torch.safetensors"
    keys = TorchKeys(factory=factory or "tests.strangers:Net", parameters=parameters, epochs=2)
    published(TorchClassifier(keys, strangers.Net), path)
    return path

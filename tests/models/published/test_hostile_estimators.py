"""Files of students that others wrote, made to run code or to lead a library astray: nothing of them is run."""

from __future__ import annotations

import functools
import io
import operator
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from consilium.models.published.file import BadModel
from consilium.models.published.model import load_model
from tests.marks import some
from tests.models.published.own_models import SCHEMA, X, Y, file_of, torch_file


class Planted(ClassifierMixin, BaseEstimator):
    """A class whose state, when it is set, makes a folder."""

    def __setstate__(self, state: dict) -> None:
        os.mkdir(state["mark"])


def payloads(mark: str) -> dict[str, Any]:
    planted = Planted()
    planted.mark = mark  # pyright: ignore[reportAttributeAccessIssue]
    return {
        "a function of the system": FunctionTransformer(os.mkdir, kw_args={"mode": 0o700}),
        "a call with its argument": FunctionTransformer(functools.partial(os.mkdir, mark)),
        "a method to be called": operator.methodcaller("mkdir", mark),
        "a state that runs": planted,
        "within a pipeline": make_pipeline(FunctionTransformer(functools.partial(os.system, f"mkdir {mark}")), SVC()),
        "instead of an attribute": setattr(svc := SVC(), "C", functools.partial(os.system, f"mkdir {mark}")) or svc,
    }


@pytest.mark.parametrize("name", payloads(""))
def test_what_a_file_would_call_is_not_called(name: str, tmp_path: Path) -> None:
    """Control: trusted, the state that runs does run."""
    mark = tmp_path / "executed"
    content = skops.io.dumps(payloads(str(mark))[name])
    path = file_of(tmp_path, content)
    with pytest.raises(BadModel, match=r"names what is not trusted: .*; nothing was imported"):
        load_model(path)
    assert not mark.exists()
    if name == "a state that runs":
        with pytest.raises(BadModel):
            load_model(path, trust=[f"{__name__}.Planted"]).predict_proba(X)
        assert mark.exists()


def edited(change: Callable[[str], str]) -> bytes:
    """The archive of a good estimator whose description was rewritten."""
    content = skops.io.dumps(GaussianNB().fit(SCHEMA.inputs(X), Y))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, change(data.decode()) if name == "schema.json" else data)
    return out.getvalue()


def test_a_module_that_a_file_names_is_not_imported(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "planted_by_file.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for old in ('"sklearn.naive_bayes"', '"numpy"'):
        path = file_of(tmp_path, edited(lambda text, old=old: text.replace(old, '"planted_by_file"')))
        with pytest.raises(BadModel, match=r"not trusted: planted_by_file|cannot be read"):
            load_model(path)
    for factory in ("planted_by_file:Net", "planted_by_file.Net"):
        path = torch_file(tmp_path, factory)
        with pytest.raises(BadModel, match="nothing was imported"):
            load_model(path)
    assert "planted_by_file" not in sys.modules


def another_class(text: str) -> str:
    """A class that skops trusts, with the attributes of another."""
    return text.replace('"GaussianNB"', '"StandardScaler"').replace("naive_bayes", "preprocessing._data")


def compressed() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "{}" + " " * 10_000_000)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"PK", "cannot be read"),
        (b"\x00" * 100, "cannot be read"),
        (compressed(), "is compressed"),
        (edited(lambda _: "{"), "cannot be read"),
        (edited(lambda _: "[]"), "cannot be read"),
        (edited(lambda _: "[" * 100_000), "cannot be read"),
        (edited(lambda text: text.replace("ObjectNode", "AbsentNode")), "cannot be read"),
        (edited(lambda text: text.replace(".npy", ".absent")), "cannot be read"),
        (edited(another_class), "fails"),
    ],
    ids=range(9),
)  # fmt: skip
def test_archives_that_are_none(content: bytes, told: str, tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=told):
        load_model(file_of(tmp_path, content)).predict_proba(X)


def hostile_tree(change: Callable[[dict], None]) -> bytes:
    """The archive of a tree whose nodes were changed; scikit-learn itself takes it."""
    fitted = DecisionTreeClassifier(max_depth=3, random_state=0).fit(SCHEMA.inputs(X), Y)
    state = fitted.tree_.__getstate__()
    state["nodes"] = state["nodes"].copy()
    change(state)
    fitted.tree_.__setstate__(state)
    return skops.io.dumps(fitted)


def hostile_histogram(change: Callable[[np.ndarray], None]) -> bytes:
    fitted = HistGradientBoostingClassifier(max_iter=2, max_depth=3).fit(SCHEMA.inputs(X), Y)
    change(fitted._predictors[0][0].nodes)  # pyright: ignore[reportAttributeAccessIssue]
    return skops.io.dumps(fitted)


def setting(field: str, value: float) -> Callable[[Any], None]:
    def change(nodes: Any) -> None:
        nodes = nodes["nodes"] if isinstance(nodes, dict) else nodes
        nodes[field][0] = value

    return change


@pytest.mark.parametrize(
    "content",
    [
        hostile_tree(setting("left_child", 10**6)),
        hostile_tree(setting("right_child", 0)),
        hostile_tree(setting("feature", 10**6)),
        hostile_histogram(setting("left", 10**6)),
        hostile_histogram(setting("is_categorical", 1)),
        skops.io.dumps(DecisionTreeClassifier().fit(np.zeros((4, 50)), [0, 1, 0, 1])),
        skops.io.dumps(make_pipeline(GradientBoostingClassifier(n_estimators=2)).fit(SCHEMA.inputs(X), Y)),
    ],
    ids=range(7),
)
def test_trees_that_would_lead_a_library_astray(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadModel):
        load_model(file_of(tmp_path, content))


def test_bytes_changed_at_random(tmp_path: Path) -> None:
    """Each archive is refused, or is a student that gives probabilities."""
    good = skops.io.dumps(GaussianNB().fit(SCHEMA.inputs(X), Y))
    generator = np.random.default_rng(20_261_122)
    refused, rounds = 0, some(60)
    for _ in range(rounds):
        changed = bytearray(good)
        for place in generator.integers(0, len(good), size=3):
            changed[place] = generator.integers(256)
        try:
            found = load_model(file_of(tmp_path, bytes(changed))).predict_proba(X[:3])
        except BadModel:
            refused += 1
        else:
            np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-3)
    assert rounds / 3 < refused <= rounds

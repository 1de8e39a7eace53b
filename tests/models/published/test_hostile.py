"""Files made to harm: nothing is executed, nothing large is allocated, and each is refused by a typed error.

Control: the same payload in a pickle is executed when it is loaded, and so is a class that whoever loads it trusts.
"""

from __future__ import annotations

import functools
import io
import json
import operator
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import skops.io
import torch
from safetensors.numpy import save
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from consilium.data.files import CsvRule
from consilium.models.published import file, structures
from consilium.models.published.file import MOST_HEADER_BYTES, BadModel, read, write
from consilium.models.published.model import load_model, predict_file
from tests.marks import some
from tests.models.published.models import SCHEMA, X, Y, case, file_of, torch_file
from tests.strangers import Net

LINEAR, TORCH = "table logistic_regression", "table torch"
KERNEL, BOTH = "images scattering graph", "images graph_cnn"


class Payload:
    """Unpickled, it makes a folder; saved by joblib or pickle, it is a file that does."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.mark),)


def student(folder: Path, name: str = LINEAR) -> Path:
    path = folder / "model.safetensors"
    case(name).publish(path)
    return path


def zipped(payload: Payload, path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", pickle.dumps(payload))


PICKLES: dict[str, tuple[Callable[[Payload, Path], object], Callable[[Path], object]]] = {
    "joblib": (joblib.dump, joblib.load),
    "joblib compressed": (lambda payload, path: joblib.dump(payload, path, compress=3), joblib.load),
    "pickle": (lambda payload, at: at.write_bytes(pickle.dumps(payload, 0)), lambda at: pickle.loads(at.read_bytes())),
    "torch": (torch.save, lambda path: torch.load(path, weights_only=False)),
    "zipped pickle": (zipped, lambda path: pickle.loads(zipfile.ZipFile(path).read("a"))),
}


@pytest.mark.parametrize("how", PICKLES)
def test_code_in_the_file_is_not_run(how: str, tmp_path: Path) -> None:
    mark, path = tmp_path / "executed", tmp_path / "model.safetensors"
    dump, load = PICKLES[how]
    dump(Payload(mark), path)
    with pytest.raises(BadModel, match="no safetensors file, or is cut off; nothing of it was executed"):
        load_model(path)
    assert not mark.exists()
    load(path.rename(tmp_path / "model"))
    assert mark.exists()


def header(length: int, text: bytes = b"{}") -> bytes:
    return length.to_bytes(8, "little") + text


def sizes(shape: bytes, end: int) -> bytes:
    text = b'{"a":{"dtype":"F32","shape":[%s],"data_offsets":[0,%d]}}' % (shape, end)
    return header(len(text), text)


FORMS: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "absent": lambda path: None,
    **{
        name: lambda path, content=content: path.write_bytes(content)
        for name, content in {
            "empty": b"",
            "no header": header(2**63),
            "a huge header": header(MOST_HEADER_BYTES + 1, b" " * (MOST_HEADER_BYTES + 100)),
            "deep JSON": header(200_000, b'{"__metadata__":' + b"[" * 199_984),
            "sizes beyond the file": sizes(b"1000000000000", 4 * 10**12),
            "no description": header(2),
            "another's file": sizes(b"1", 4) + b"\0\0\0\0",
        }.items()
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_files_that_are_no_student(form: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    FORMS[form](path)
    with pytest.raises(BadModel) as error:
        load_model(path)
    assert str(path) in str(error.value)
    assert error.value.exit_code == 3


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = student(tmp_path)
    load_model(path)
    monkeypatch.setattr(file, "MOST_BYTES", path.stat().st_size - 1)
    for refused in (load_model, lambda path: student(tmp_path)):
        with pytest.raises(BadModel, match="the most is"):
            refused(path)


def test_too_many_rows_to_represent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = student(tmp_path, BOTH)
    rows = len(read(path).arrays["rows"])
    monkeypatch.setattr(structures, "MOST_ROWS", rows)
    load_model(path)
    monkeypatch.setattr(structures, "MOST_ROWS", rows - 1)
    with pytest.raises(BadModel, match=f"{rows} rows, the most is {rows - 1}"):
        load_model(path)


Change = Callable[[dict, dict], object]


def array(name: str, value: np.ndarray | None) -> Change:
    return lambda header, arrays: arrays.pop(name) if value is None else arrays.update({name: value})


def setting(**values: object) -> Change:
    return lambda header, arrays: header["settings"].update(values)


def network(**values: object) -> Change:
    return lambda header, arrays: header["settings"]["networks"][0].update(values)


def said(**values: object) -> Change:
    return lambda header, arrays: header.update(values)


def schema(**values: object) -> Change:
    return lambda header, arrays: header["rows"].update(values)


def adapted(weight: float, coefficients: np.ndarray) -> Change:
    def change(header: dict, arrays: dict) -> None:
        header["adapted"] = weight
        arrays.update({"adapted.intercept": np.zeros(len(coefficients)), "adapted.coefficients": coefficients})

    return change


CHANGES: list[tuple[str, Change]] = [
    (LINEAR, said(format="consilium-student-2")),
    (LINEAR, said(kind="builtins.eval")),
    (LINEAR, said(code="print(1)")),
    (LINEAR, schema(representation="os.system")),
    (LINEAR, schema(classes=["well", "ill\x1b[2J", "never"])),
    (LINEAR, schema(scale=[1, 0, 1])),
    (LINEAR, array("seen", np.array([0, 3]))),
    (LINEAR, array("seen", None)),
    (LINEAR, array("more", np.zeros(3))),
    (LINEAR, array("seen", np.zeros(2, dtype=np.float16))),
    (LINEAR, array("coefficients", np.zeros((2, 4)))),
    (LINEAR, said(adapted=0.5)),
    (LINEAR, adapted(0.5, np.zeros((3, 7)))),
    (LINEAR, adapted(1.5, np.zeros((3, 3)))),
    ("table constant", array("probabilities", np.zeros(2))),
    (KERNEL, setting(gamma=0)),
    (KERNEL, setting(rows="features")),
    (KERNEL, array("weights", np.zeros((40, 2), dtype=np.float32))),
    (BOTH, network(channels=10**9)),
    (BOTH, network(channels=5)),
    (BOTH, network(low=1.0, high=1.0)),
    (BOTH, setting(networks=[])),
    (BOTH, setting(scales=[1.0])),
    (BOTH, array("network-1.1.bias", None)),
    (TORCH, setting(parameters={"hidden": 10**18})),
    (TORCH, setting(factory="a; import b")),
    (TORCH, setting(images=True)),
    (TORCH, array("module.body.0.weight", None)),
    (TORCH, array("seen", np.array([0, 7]))),
    (TORCH, array("module.body.0.weight", np.zeros((1, 1), dtype=np.float32))),
]


@pytest.mark.parametrize(("name", "change"), CHANGES, ids=[str(index) for index in range(len(CHANGES))])
def test_parts_that_do_not_fit(name: str, change: Change, tmp_path: Path) -> None:
    """Control: the file that nothing was changed in is loaded, written in the same way."""
    content = read(student(tmp_path, name))
    path, header, arrays = tmp_path / "changed", json.loads(json.dumps(content.header)), dict(content.arrays)
    write_anyway(path, header, arrays)
    load_model(path, factory=Net)
    change(header, arrays)
    write_anyway(path, header, arrays)
    with pytest.raises(BadModel):
        load_model(path, factory=Net)


def write_anyway(path: Path, header: dict, arrays: dict[str, np.ndarray]) -> None:
    """As an attacker would: `write` itself refuses what is not finite."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    path.write_bytes(save(contiguous, {"consilium": json.dumps(header)}))


@pytest.mark.parametrize("name", [LINEAR, KERNEL, BOTH])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none(name: str, value: float, tmp_path: Path) -> None:
    content, path = read(student(tmp_path, name)), tmp_path / "changed"
    for key in (key for key, array in content.arrays.items() if array.dtype.kind == "f"):
        arrays = {**content.arrays, key: content.arrays[key].copy()}
        arrays[key].flat[-1] = value
        write_anyway(path, content.header, arrays)
        with pytest.raises(BadModel, match="not finite"):
            load_model(path)
        with pytest.raises(BadModel, match="not finite"):
            write(path, content.header, arrays)


@pytest.mark.parametrize("name", [LINEAR, "table graph", "table estimator"])
def test_bytes_changed_at_random(name: str, tmp_path: Path) -> None:
    """Each file is refused by `BadModel`, or is a student that gives probabilities; nothing else ever comes out."""
    path = student(tmp_path, name)
    raw, rows = path.read_bytes(), case(name).rows[:3]
    generator = np.random.default_rng(20_261_122)
    length = int.from_bytes(raw[:8], "little")
    refused, rounds = 0, some(300)
    for round_ in range(rounds):
        changed = bytearray(raw)
        end = len(raw) if round_ % 2 else 8 + length  # every second time within the header
        for place in generator.integers(0, end, size=generator.integers(1, 4)):
            changed[place] = generator.integers(256)
        if round_ % 10 == 0:
            del changed[generator.integers(len(raw)) :]
        path.write_bytes(changed)
        try:
            probabilities = load_model(path).predict_proba(rows)
        except BadModel:
            refused += 1
        else:
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-3)
    assert rounds / 3 < refused <= rounds


@pytest.mark.parametrize("card", [b"{}", b"\xff", b'{"model":{"sha256":"0"}}',
                                  b'{"model":' + b"[" * 100_000])  # fmt: skip
def test_a_card_of_another_model_or_none_that_can_be_read(card: bytes, tmp_path: Path) -> None:
    path, rows = student(tmp_path), tmp_path / "rows.csv"
    rows.write_text("age,pressure,drowsy\n60,140,0\n")
    predict_file(path, rows, CsvRule(), "text", None, print)  # control: without a card
    (tmp_path / "student.json").write_bytes(card)
    with pytest.raises(BadModel, match=r"card|cannot be read"):
        predict_file(tmp_path, rows, CsvRule(), "text", None, print)


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
    path = file_of(tmp_path, skops.io.dumps(payloads(str(mark))[name]))
    with pytest.raises(BadModel, match=r"names what is not trusted: .*; nothing was imported"):
        load_model(path)
    assert not mark.exists()
    if name == "a state that runs":
        with pytest.raises(BadModel):
            load_model(path, trust=[f"{__name__}.Planted"]).predict_proba(X)
        assert mark.exists()


def edited(change: Callable[[str], str]) -> bytes:
    """The archive of a good estimator whose description was rewritten."""
    out = io.BytesIO()
    good = io.BytesIO(skops.io.dumps(GaussianNB().fit(SCHEMA.inputs(X), Y)))
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(out, "w") as new:
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
        with pytest.raises(BadModel, match="nothing was imported"):
            load_model(torch_file(tmp_path, factory))
    assert "planted_by_file" not in sys.modules


def another_class(text: str) -> str:
    """A class that skops trusts, with the attributes of another."""
    return text.replace('"GaussianNB"', '"StandardScaler"').replace("naive_bayes", "preprocessing._data")


def compressed() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "{}" + " " * 10_000_000)
    return out.getvalue()


def hostile_tree(field: str, value: float) -> bytes:
    """The archive of a tree whose first node was changed; scikit-learn itself takes it."""
    fitted = DecisionTreeClassifier(max_depth=3, random_state=0).fit(SCHEMA.inputs(X), Y)
    state = fitted.tree_.__getstate__()
    state["nodes"] = state["nodes"].copy()
    state["nodes"][field][0] = value
    fitted.tree_.__setstate__(state)
    return skops.io.dumps(fitted)


def hostile_histogram(field: str, value: float) -> bytes:
    fitted = HistGradientBoostingClassifier(max_iter=2, max_depth=3).fit(SCHEMA.inputs(X), Y)
    fitted._predictors[0][0].nodes[field][0] = value  # pyright: ignore[reportAttributeAccessIssue]
    return skops.io.dumps(fitted)


ARCHIVES: list[tuple[bytes, str]] = [
    (b"PK", "cannot be read"),
    (b"\x00" * 100, "cannot be read"),
    (compressed(), "is compressed"),
    (edited(lambda _: "{"), "cannot be read"),
    (edited(lambda _: "[]"), "cannot be read"),
    (edited(lambda _: "[" * 100_000), "cannot be read"),
    (edited(lambda text: text.replace("ObjectNode", "AbsentNode")), "cannot be read"),
    (edited(lambda text: text.replace(".npy", ".absent")), "cannot be read"),
    (edited(another_class), "fails"),
    (hostile_tree("left_child", 10**6), "form none"),
    (hostile_tree("right_child", 0), "form none"),
    (hostile_tree("feature", 10**6), "which there are not"),
    (hostile_histogram("left", 10**6), "form none"),
    (hostile_histogram("is_categorical", 1), "splits by category"),
    (skops.io.dumps(DecisionTreeClassifier().fit(np.zeros((4, 50)), [0, 1, 0, 1])), "takes 50 inputs"),
    (skops.io.dumps(make_pipeline(GradientBoostingClassifier(n_estimators=2)).fit(SCHEMA.inputs(X), Y)), "boosting"),
]


@pytest.mark.parametrize(("content", "told"), ARCHIVES, ids=range(len(ARCHIVES)))
def test_archives_that_are_none_and_trees_that_would_lead_a_library_astray(
    content: bytes, told: str, tmp_path: Path
) -> None:
    with pytest.raises(BadModel, match=told):
        load_model(file_of(tmp_path, content)).predict_proba(X)

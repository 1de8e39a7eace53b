"""Files made to harm: nothing is executed, nothing large is allocated, and each is refused by a typed error.

Control: the same payload in a pickle is executed when it is loaded.
"""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch

from consilium.models.published import file, structures
from consilium.models.published.file import MOST_HEADER_BYTES, BadModel, read, write
from consilium.models.published.model import find_model, load_model, publish
from consilium.models.published.predict import predict_file
from tests.marks import some
from tests.models.published.models import case


class Payload:
    """Unpickled, it makes a folder; saved by joblib or pickle, it is a file that does."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.mark),)


def save(folder: Path, name: str = "table logistic_regression") -> Path:
    trained = case(name)
    path = folder / "model.safetensors"
    publish(path, trained.model, trained.schema, trained.pool)
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


def test_a_pickle_in_a_folder_is_not_opened(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    (tmp_path / "student").mkdir()
    joblib.dump(Payload(mark), tmp_path / "student" / "model.joblib")
    for folder in (tmp_path, tmp_path / "student"):
        with pytest.raises(BadModel, match=r"has no model\.safetensors"):
            find_model(folder)
    assert not mark.exists()


def test_pickles_within_the_description_stay_text(tmp_path: Path) -> None:
    mark, path = tmp_path / "executed", tmp_path / "m"
    write(path, {"format": "consilium-student-1", "kind": pickle.dumps(Payload(mark), 0).decode("latin-1")}, {})
    with pytest.raises(BadModel):
        load_model(path)
    assert not mark.exists()


def header(length: int, text: bytes = b"{}") -> bytes:
    return length.to_bytes(8, "little") + text


def sizes(shape: bytes, end: int) -> bytes:
    text = b'{"a":{"dtype":"F32","shape":[%s],"data_offsets":[0,%d]}}' % (shape, end)
    return header(len(text), text)


FORMS = {
    "empty": b"",
    "no header": header(2**63),
    "a huge header": header(MOST_HEADER_BYTES + 1, b" " * (MOST_HEADER_BYTES + 100)),
    "deep JSON": header(200_000, b'{"__metadata__":' + b"[" * 199_984),
    "sizes beyond the file": sizes(b"1000000000000", 4 * 10**12),
    "no description": header(2),
    "another's file": sizes(b"1", 4) + b"\0\0\0\0",

}  # fmt: skip


@pytest.mark.parametrize("content", FORMS.values(), ids=FORMS.keys())
def test_files_that_are_no_student(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadModel) as error:
        load_model(path)
    assert str(path) in str(error.value)
    assert error.value.exit_code == 3


@pytest.mark.parametrize("kind", ["folder", "pipe", "absent"])
def test_paths_that_are_no_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "absent": lambda: None}[kind]()
    with pytest.raises(BadModel):
        load_model(path)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path)
    load_model(path)
    monkeypatch.setattr(file, "MOST_BYTES", path.stat().st_size - 1)
    with pytest.raises(BadModel, match="the most is"):
        load_model(path)
    with pytest.raises(BadModel, match="the most is"):
        save(tmp_path)


@pytest.mark.parametrize("name", ["images graph_cnn"])
def test_too_many_rows_to_represent(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, name)
    rows = len(read(path).arrays["rows"])
    monkeypatch.setattr(structures, "MOST_ROWS", rows)
    load_model(path)
    monkeypatch.setattr(structures, "MOST_ROWS", rows - 1)
    with pytest.raises(BadModel, match=f"{rows} rows, the most is {rows - 1}"):
        load_model(path)


Change = Callable[[dict, dict], object]


def put(name: str, place: object, value: float) -> Change:
    def change(header: dict, arrays: dict) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name][place] = value

    return change


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


LINEAR = "table logistic_regression"
KERNEL, BOTH = "images scattering graph", "images graph_cnn"
CHANGES: list[tuple[str, Change]] = [
    (LINEAR, said(format="consilium-student-2")),
    (LINEAR, said(kind="builtins.eval")),
    (LINEAR, said(inputs="features")),
    (LINEAR, said(code="print(1)")),
    (LINEAR, schema(representation="os.system")),
    (LINEAR, schema(classes=["well", "ill\x1b[2J", "never"])),
    (LINEAR, schema(scale=[1, 0, 1])),
    (LINEAR, put("seen", -1, 3)),
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
]


@pytest.mark.parametrize(("name", "change"), CHANGES, ids=[str(index) for index in range(len(CHANGES))])
def test_parts_that_do_not_fit(name: str, change: Change, tmp_path: Path) -> None:
    """Control: the file that nothing was changed in is loaded, written in the same way."""
    content = read(save(tmp_path, name))
    path, header, arrays = tmp_path / "changed", json.loads(json.dumps(content.header)), dict(content.arrays)
    write(path, header, arrays)
    load_model(path)
    change(header, arrays)
    _write_anyway(path, header, arrays)
    with pytest.raises(BadModel):
        load_model(path)


def _write_anyway(path: Path, header: dict, arrays: dict[str, np.ndarray]) -> None:
    """As an attacker would: `write` itself refuses what is not finite."""
    from safetensors.numpy import save

    path.write_bytes(save({name: np.ascontiguousarray(a) for name, a in arrays.items()},
                          {"consilium": json.dumps(header)}))  # fmt: skip


@pytest.mark.parametrize("name", [LINEAR, KERNEL, BOTH])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none(name: str, value: float, tmp_path: Path) -> None:
    content = read(save(tmp_path, name))
    for key in (key for key, array in content.arrays.items() if array.dtype.kind == "f"):
        arrays = {**content.arrays, key: content.arrays[key].copy()}
        arrays[key].flat[-1] = value
        _write_anyway(tmp_path / "changed", content.header, arrays)
        with pytest.raises(BadModel, match="not finite"):
            load_model(tmp_path / "changed")
        with pytest.raises(BadModel, match="not finite"):
            write(tmp_path / "changed", content.header, arrays)


@pytest.mark.parametrize("name", [LINEAR, "table graph"])
def test_bytes_changed_at_random(name: str, tmp_path: Path) -> None:
    """Each file is refused by `BadModel`, or is a student that gives probabilities; nothing else ever comes out."""
    path = save(tmp_path, name)
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
    assert rounds / 3 < refused < rounds


@pytest.mark.parametrize("card", [b"{}", b"\xff", b'{"model":{"sha256":"0"}}',
                                  b'{"model":' + b"[" * 100_000])  # fmt: skip
def test_a_card_of_another_model_or_none_that_can_be_read(card: bytes, tmp_path: Path) -> None:
    path = save(tmp_path)
    rows = tmp_path / "rows.csv"
    rows.write_text("age,pressure,drowsy\n60,140,0\n")
    from consilium.data.files import CsvRule

    predict_file(path, rows, CsvRule(), "text", None, print)  # control: without a card
    (tmp_path / "student.json").write_bytes(card)
    with pytest.raises(BadModel, match=r"card|cannot be read"):
        predict_file(tmp_path, rows, CsvRule(), "text", None, print)


def test_no_part_of_the_student_can_load_a_pickle() -> None:
    """The sources of students import no pickle, joblib or numpy loader that would run code.

    Only `models.naming` reads one, an estimator in a file of one's own, and `models.own_model`, a teacher that this
    party trained itself.
    """
    rooms = [Path(__file__).parents[3] / room for room in ("student", "models")]
    sources = {
        path: path.read_text()
        for room in rooms
        for path in room.rglob("*.py")
        if path.name not in ("naming.py", "own_model.py")
    }
    assert len(sources) > 25
    for path, text in sources.items():
        for word in ("import joblib", "import pickle", "pickle.load", "allow_pickle=True", "weights_only=False"):
            assert word not in text, f"{path.name}: {word}"
        assert text.count("torch.load(") == text.count("weights_only=True")
        assert text.count("np.load(") == text.count("allow_pickle=False")

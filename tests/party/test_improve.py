"""`party improve`: a better model at home, private, and nothing sent."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from consilium import cli
from consilium.models.published.file import BadModel
from consilium.models.published.model import CARD_FILE, load_model, publish
from consilium.models.tabular import Linear
from consilium.party.improve import _tells
from consilium.protocol.errors import ConsiliumError, OutputExists
from consilium.protocol.schema import Schema
from tests.federation import CLASSES, FEATURES, make_home, make_rows


@pytest.fixture
def student(tmp_path: Path) -> Path:
    """A published student that knows the rule roughly."""
    x, _ = make_rows(200, 999)
    schema = Schema.from_public_rows(FEATURES, CLASSES, x.astype(np.float64))
    model = Linear(np.array([[0.0, 0, 0], [2.0, 1.0, 0.3]]), np.array([0.0, 0.4]), np.array([0, 1]), 2)
    (tmp_path / "student").mkdir()
    publish(tmp_path / "student" / "model.safetensors", model, schema, "representation", x)
    return tmp_path / "student"


def improve(*arguments: Any) -> tuple[str, BaseException | None]:
    done = CliRunner().invoke(cli.app, ["party", "improve", *map(str, arguments)])
    return done.output, done.exception


def test_it_writes_a_private_model_that_predicts(tmp_path: Path, student: Path, monkeypatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", fail)
    home = make_home(tmp_path / "home", "p", rows=30)
    before = (student / "model.safetensors").read_bytes()
    output, error = improve(home, student)
    assert error is None, output
    assert output.startswith("LOCAL ONLY")
    for words in ("own model alone", "student ", "improved ", "kept, because", "by 5 folds of own rows"):
        assert words in output
    out = home / "improved"
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o600}
    assert (student / "model.safetensors").read_bytes() == before
    card = json.loads((out / "student.json").read_text())
    assert "given to nobody" in card["private"] and "given to nobody" in (out / "MODEL_CARD.md").read_text()
    improved = load_model(out / "model.safetensors")
    assert improved.adapted_to == ("own rows",)
    x, y = make_rows(2000, 5)
    right = (improved.predict_proba(x).argmax(axis=1) == y).mean()
    assert right > 0.85
    np.savetxt(tmp_path / "rows.csv", x[:3], delimiter=",", header=",".join(FEATURES), comments="")
    done = CliRunner().invoke(cli.app, ["predict", str(out), str(tmp_path / "rows.csv")])
    assert done.exit_code == 0, done.output


def test_the_same_as_json_and_into_another_folder(tmp_path: Path, student: Path) -> None:
    home = make_home(tmp_path / "home", "p", rows=30)
    output, error = improve(home, student / "model.safetensors", "--out", tmp_path / "mine", "--format", "json")
    assert error is None, output
    found = json.loads(output)
    assert found["rows"] == 30 and found["model"] == str(tmp_path / "mine" / "model.safetensors")
    assert found["at_home"]["improved"]["brier"] < found["at_home"]["alone"]["brier"] + 0.05


@pytest.mark.parametrize("rows", [2, 3, 6])
def test_few_rows_and_rows_of_one_class(tmp_path: Path, student: Path, rows: int) -> None:
    home = make_home(tmp_path / "home", "p", rows=rows)
    content = dict(np.load(home / "data.npz"))
    np.savez(home / "data.npz", **{**content, "y": np.zeros_like(content["y"])})
    (home / "party.toml").write_text((home / "party.toml").read_text() + "\n[label]\nallow_one_class = true\n")
    output, error = improve(home, student)
    assert error is None, output
    assert "because" in output


def test_what_is_refused(tmp_path: Path, student: Path) -> None:
    home = make_home(tmp_path / "home", "p", rows=30)
    assert improve(home, student)[1] is None
    assert isinstance(improve(home, student)[1], OutputExists)
    _, error = improve(home, home / "improved", "--out", tmp_path / "twice")
    assert isinstance(error, BadModel) and "own rows already" in str(error)
    assert not (tmp_path / "twice").exists()
    content = dict(np.load(home / "data.npz"))
    np.savez(home / "data.npz", **{**content, "features": np.array(["a", "b", "c"])})
    _, error = improve(home, student, "--out", tmp_path / "other")
    assert isinstance(error, ConsiliumError) and "do not fit" in str(error)
    assert isinstance(improve(home, tmp_path / "nothing", "--out", tmp_path / "other")[1], ConsiliumError)


def test_a_damaged_adaptation_is_no_student(tmp_path: Path, student: Path) -> None:
    from consilium.models.adapted import Adapted
    from consilium.models.published.model import adapted_file

    wrong = Adapted(0.5, np.zeros(2), np.zeros((2, 7)))
    (tmp_path / "wrong.safetensors").write_bytes(adapted_file(student / "model.safetensors", wrong, "own rows"))
    with pytest.raises(BadModel, match="coefficients"):
        load_model(tmp_path / "wrong.safetensors")


@pytest.mark.parametrize(
    ("said", "tells"), [("0.7", 0.7), ("7", None), ("-1", None), ("NaN", None), ('"much"', None), ("null", None)]
)
def test_how_alike_students_are_is_taken_from_a_card_that_makes_sense(
    tmp_path: Path, said: str, tells: float | None
) -> None:
    """A card comes from others, and no number in it may spoil a model."""
    (tmp_path / CARD_FILE).write_text(f'{{"noise_spread": {{"rank_correlation": {said}}}}}')
    assert _tells(tmp_path) == tells

"""`consilium predict`: answers by column name and in raw units, and what people give it on ordinary days."""

from __future__ import annotations

import csv
import io
import json
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from consilium import cli
from consilium.data.files import CsvRule
from consilium.models.published.file import BadModel
from consilium.models.published.model import publish
from consilium.models.published.predict import predict_file
from consilium.student.learn import inputs, train
from tests.federation import CLASSES, FEATURES, make_config, make_rows
from tests.models.published.models import case, published, torch_file
from tests.specs import student_of

GOOD = "age,pressure,drowsy\n60,140,0\n72,165.5,1\n"


@pytest.fixture
def student(tmp_path: Path) -> Path:
    """A run's folder with a student of age (0 to 120, whole), pressure and drowsy."""
    trained = case("table logistic_regression")
    folder = tmp_path / "run" / "student"
    folder.mkdir(parents=True)
    trained.publish(folder / "model.safetensors")
    return folder.parent


class Command:
    """Runs the command line; exit code, stdout and stderr."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["consilium", "predict", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            cli.main()
            sys.exit(0)
        told = self._capsys.readouterr()
        return int(done.value.code or 0), told.out, told.err


@pytest.fixture
def predict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def answers(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_class_and_probabilities_of_each_row(student: Path, predict: Command, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(GOOD)
    expected = case("table logistic_regression")
    x = np.array([[60, 140, 0], [72, 165.5, 1]])
    probabilities = expected.model.predict_proba(expected.schema.inputs(x))
    for model in (student, student / "student", student / "student" / "model.safetensors"):
        code, out, err = predict(model, rows)
        assert (code, err) == (0, "")
        found = answers(out)
        assert [row["row"] for row in found] == ["1", "2"]
        assert list(found[0]) == ["row", "class", "p_well", "p_ill", "p_never"]
        for row, p in zip(found, probabilities, strict=True):
            np.testing.assert_allclose([float(row[f"p_{name}"]) for name in ("well", "ill", "never")], p, atol=1e-6)
            assert row["class"] == expected.schema.classes[p.argmax()]
    code, out, _ = predict(student, rows, "--format", "json")
    table = json.loads(out)
    assert [row["class"] for row in table["rows"]] == [row["class"] for row in found]
    assert table["rows"][1]["probabilities"]["ill"] == pytest.approx(probabilities[1, 1])
    assert len(table["model"]["sha256"]) == 64


NOTES = {
    "outside the range": (GOOD.replace("72", "250"), "age: 1 of 2 rows are outside 0 to 120, which the schema"),
    "a fraction": (GOOD.replace("72", "72.5"), "age: 1 of 2 rows are no whole numbers"),
    "another unit": (GOOD.replace("140", "14000"), "pressure: 1 of 2 rows are more than 10 deviations"),
}


@pytest.mark.parametrize(("content", "told"), NOTES.values(), ids=NOTES.keys())
def test_odd_values_are_told_and_judged(
    student: Path, predict: Command, tmp_path: Path, content: str, told: str
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(content)
    code, out, err = predict(student, rows)
    assert code == 0
    assert len(answers(out)) == content.count("\n") - 1
    assert err.startswith(f"note: {told}")
    assert len(err.splitlines()) == 1


FAULTS: dict[str, tuple[str | bytes, str]] = {
    "a misspelt column": ("age,presure,drowsy\n1,2,3\n", "has no column 'pressure'. It has 'age', 'presure', 'drowsy'"),
    "two of one name": ("age,pressure,drowsy,age\n1,2,3,4\n", "has 2 columns named 'age'"),
    "semicolons": (GOOD.replace(",", ";"), "use --separator"),
    "text": (GOOD.replace("140", "high"), "pressure: 1 of 2 rows hold text that is no number (first: line 2)"),
    "a missing value": (GOOD.replace("72", ""), "age: 1 of 2 rows have no value (first: line 3)"),
    "Excel": (b"PK\x03\x04rest", "is a zip or Excel file"),

}  # fmt: skip


@pytest.mark.parametrize(("content", "told"), FAULTS.values(), ids=FAULTS.keys())
def test_rows_that_cannot_be_used(
    student: Path, predict: Command, tmp_path: Path, content: str | bytes, told: str
) -> None:
    rows, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    rows.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, text, err = predict(student, rows, "--out", out)
    assert (code, text) == (3, "")
    assert err.startswith(f"consilium: {rows}")
    assert told in err
    assert "Traceback" not in err
    assert not out.exists()


def test_all_faults_are_said_at_once_and_no_value_is(student: Path, predict: Command, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("age,pressure,drowsy\n,Secret,1e99\n")
    _, _, err = predict(student, rows)
    assert all(name in err for name in ("age: 1 of 1", "pressure: 1 of 1", "drowsy: 1 of 1"))
    assert "Secret" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["absent", "rows.csv"], 2, "absent is not there"),
        ([".", "rows.csv"], 3, "has no model.safetensors"),
        (["run", "absent.csv"], 2, "cannot read absent.csv: No such file"),
        (["run", "rows.csv", "--out", "rows.csv"], 6, "rows.csv is already there"),
        (["run", "rows.csv", "--out", "no/out.csv"], 2, "cannot write no/out.csv"),
        (["run", "rows.csv", "--format", "xml"], 2, "xml"),
    ],
)
def test_exit_codes(
    student: Path, predict: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments, code: int, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text(GOOD)
    found, out, err = predict(*arguments)
    assert (found, out) == (code, "")
    assert told in err
    assert "Traceback" not in err


def test_the_answers_are_for_their_owner_alone(student: Path, predict: Command, tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    rows.write_text(GOOD)
    code, text, _ = predict(student, rows, "--out", out)
    assert (code, text) == (0, "")
    assert len(answers(out.read_text())) == 2
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert predict(student, rows, "--out", out)[0] == 6


def test_predictions_flag_what_lies_above_the_threshold(tmp_path: Path) -> None:
    """Half of the pool is to be flagged."""
    schema, spec, (x, y) = make_config().rows, student_of(C=1.0), make_rows(150, 3)
    model = train(inputs(spec, schema, x), y, inputs(spec, schema, x), 2, spec, 0)
    path, rows = tmp_path / "model.safetensors", tmp_path / "rows.csv"
    threshold = publish(path, model, schema, x, (0.5, 0.5)).threshold
    with rows.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([FEATURES, *x.tolist()])
    found = answers(predict_file(path, rows, CsvRule(), "text", None, lambda _: None))
    assert list(found[0]) == ["row", "class", *(f"p_{name}" for name in CLASSES), "flagged"]
    flags = [row["flagged"] for row in found]
    assert (flags.count("1"), flags.count("0")) == (75, 75)
    table = json.loads(predict_file(path, rows, CsvRule(), "json", None, lambda _: None))
    assert [row["flagged"] for row in table["rows"]] == [flag == "1" for flag in flags]
    assert threshold is not None
    assert [row["probabilities"]["ill"] > threshold for row in table["rows"]] == [flag == "1" for flag in flags]


def test_predicting_with_what_others_wrote(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(GOOD)
    published(RandomForestClassifier(3), tmp_path / "forest")
    assert predict_file(tmp_path / "forest", rows, CsvRule(), "text", None, print).startswith("row,class,p_well")
    with pytest.raises(BadModel, match=r"In Python: load_model\(path, factory=...\)"):
        predict_file(torch_file(tmp_path), rows, CsvRule(), "text", None, print)

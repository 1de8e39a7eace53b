"""`consilium predict`: answers by column name and in raw units, and what people give it on ordinary days."""

from __future__ import annotations

import csv
import io
import json
import stat
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from consilium.data.files import CsvRule
from consilium.models.published.file import BadModel
from consilium.models.published.model import predict_file, publish
from consilium.student.learn import inputs, train
from tests.command_line import Done, consilium
from tests.federation import CLASSES, FEATURES, make_config, make_rows
from tests.models.published.models import case, published, torch_file
from tests.specs import student_of

GOOD = "age,pressure,drowsy\n60,140,0\n72,165.5,1\n"


@pytest.fixture(autouse=True)
def student(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run`: a run's folder with a student of age (0 to 120, whole), pressure and drowsy."""
    monkeypatch.chdir(tmp_path)
    Path("run/student").mkdir(parents=True)
    case("table logistic_regression").publish(Path("run/student/model.safetensors"))


def predict(content: str | bytes, *arguments: str, model: str = "run") -> Done:
    Path("rows.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    return consilium("predict", model, "rows.csv", *arguments)


def answers(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_class_and_probabilities_of_each_row() -> None:
    expected = case("table logistic_regression")
    probabilities = expected.model.predict_proba(expected.schema.inputs(np.array([[60, 140, 0], [72, 165.5, 1]])))
    for model in ("run", "run/student", "run/student/model.safetensors"):
        done = predict(GOOD, model=model)
        assert (done.exit_code, done.stderr) == (0, "")
        found = answers(done.stdout)
        assert [row["row"] for row in found] == ["1", "2"]
        assert list(found[0]) == ["row", "class", "p_well", "p_ill", "p_never"]
        for row, p in zip(found, probabilities, strict=True):
            np.testing.assert_allclose([float(row[f"p_{name}"]) for name in ("well", "ill", "never")], p, atol=1e-6)
            assert row["class"] == expected.schema.classes[p.argmax()]
    table = predict(GOOD, "--format", "json").json()
    assert [row["class"] for row in table["rows"]] == [row["class"] for row in found]
    assert table["rows"][1]["probabilities"]["ill"] == pytest.approx(probabilities[1, 1])
    assert len(table["model"]["sha256"]) == 64


NOTES = {
    "outside the range": (GOOD.replace("72", "250"), "age: 1 of 2 rows are outside 0 to 120, which the schema"),
    "a fraction": (GOOD.replace("72", "72.5"), "age: 1 of 2 rows are no whole numbers"),
    "another unit": (GOOD.replace("140", "14000"), "pressure: 1 of 2 rows are more than 10 deviations"),
}


@pytest.mark.parametrize(("content", "told"), NOTES.values(), ids=NOTES.keys())
def test_odd_values_are_told_and_judged(content: str, told: str) -> None:
    done = predict(content)
    assert (done.exit_code, len(answers(done.stdout))) == (0, 2)
    assert done.stderr.startswith(f"note: {told}") and len(done.stderr.splitlines()) == 1


FAULTS: dict[str, tuple[str | bytes, list[str]]] = {
    "a misspelt column": (GOOD.replace("ss", "s"), ["has no column 'pressure'. It has 'age', 'presure', 'drowsy'"]),
    "two of one name": ("age,pressure,drowsy,age\n1,2,3,4\n", ["has 2 columns named 'age'"]),
    "semicolons": (GOOD.replace(",", ";"), ["use --separator"]),
    "Excel": (b"PK\x03\x04rest", ["is a zip or Excel file"]),
    "all at once": (
        "age,pressure,drowsy\n,Secret,1e99\n",
        ["age: 1 of 1 rows have no value (first: line 2)", "pressure: 1 of 1 rows hold text that", "drowsy: 1 of 1"],
    ),
}


@pytest.mark.parametrize(("content", "told"), FAULTS.values(), ids=FAULTS.keys())
def test_rows_that_cannot_be_used(content: str | bytes, told: list[str]) -> None:
    done = predict(content, "--out", "out.csv")
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith("consilium: rows.csv") and all(part in done.stderr for part in told)
    assert "Traceback" not in done.stderr and "Secret" not in done.stderr
    assert not Path("out.csv").exists()


def test_the_answers_are_for_their_owner_alone() -> None:
    done = predict(GOOD, "--out", "out.csv")
    assert (done.exit_code, done.stdout) == (0, "")
    assert len(answers(Path("out.csv").read_text())) == 2
    assert stat.S_IMODE(Path("out.csv").stat().st_mode) == 0o600
    assert predict(GOOD, "--out", "out.csv").exit_code == 6


def test_predictions_flag_what_lies_above_the_threshold() -> None:
    """Half of the pool is to be flagged."""
    schema, spec, (x, y) = make_config().rows, student_of(C=1.0), make_rows(150, 3)
    model = train(inputs(spec, schema, x), y, inputs(spec, schema, x), 2, spec, 0)
    threshold = publish(Path("flagging"), model, schema, x, (0.5, 0.5)).threshold
    rows = "\n".join(",".join(map(str, row)) for row in [FEATURES, *x.tolist()])
    found = answers(predict(rows, model="flagging").stdout)
    assert list(found[0]) == ["row", "class", *(f"p_{name}" for name in CLASSES), "flagged"]
    flags = [row["flagged"] == "1" for row in found]
    assert (len(flags), sum(flags)) == (150, 75)
    table = json.loads(predict(rows, "--format", "json", model="flagging").stdout)
    assert [row["flagged"] for row in table["rows"]] == flags
    assert threshold is not None
    assert [row["probabilities"]["ill"] > threshold for row in table["rows"]] == flags


def test_predicting_with_what_others_wrote(tmp_path: Path) -> None:
    Path("rows.csv").write_text(GOOD)
    published(RandomForestClassifier(3), tmp_path / "forest")
    assert predict_file(tmp_path / "forest", Path("rows.csv"), CsvRule(), "text", None, print).startswith("row,class")
    with pytest.raises(BadModel, match=r"In Python: load_model\(path, factory=...\)"):
        predict_file(torch_file(tmp_path), Path("rows.csv"), CsvRule(), "text", None, print)

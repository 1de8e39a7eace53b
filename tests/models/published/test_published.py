"""Published students: the same predictions as in memory, small and equal files, and what the arrays stand for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from consilium.models.keys import TRAINERS
from consilium.models.published.file import BadModel
from consilium.models.published.model import check_names, load_model, publish
from consilium.protocol.errors import DataError
from tests.models.published.models import CASES, case

KINDS = {"constant", "linear", "kernel", "graph_cnn", "estimator", "torch"}


@pytest.mark.parametrize("name", CASES)
def test_a_saved_student_says_what_the_trained_one_said(name: str, tmp_path: Path) -> None:
    trained = case(name)
    path = tmp_path / "model.safetensors"
    publish(path, trained.model, trained.schema, trained.pool)
    loaded = load_model(path, factory=trained.factory)
    expected, found = trained.in_memory(), loaded.predict_proba(trained.rows)
    assert found.shape == (len(trained.rows), 3)
    assert np.abs(found - expected).max() <= 1e-6
    assert loaded.schema == trained.schema
    again = tmp_path / "again.safetensors"
    publish(again, loaded.model, loaded.schema, trained.pool)
    assert again.read_bytes() == path.read_bytes()  # equal students have equal files, however often they are saved


def test_every_trainer_and_every_kind_is_among_the_cases(tmp_path: Path) -> None:
    trained = [case(name) for name in CASES]
    trainers = {one.spec.trainer.name for one in trained}
    assert trainers == {kind.model_fields["name"].default for kind in TRAINERS}
    kinds = set()
    for one in trained:
        path = tmp_path / "model.safetensors"
        kinds.add(publish(path, one.model, one.schema, one.pool).kind)
    assert kinds == KINDS


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (np.zeros((2, 4)), "4 features"),
        (np.full((2, 3), np.nan), "missing"),
        (np.full((2, 3), 1e300), "beyond float32"),
    ],
)
def test_rows_that_cannot_be_judged(rows: np.ndarray, told: str, tmp_path: Path) -> None:
    trained = case("table logistic_regression")
    loaded = publish(tmp_path / "m", trained.model, trained.schema, trained.pool)
    with pytest.raises(DataError, match=told):
        loaded.predict_proba(rows)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31m", "=1+1"])
def test_names_that_a_terminal_or_spreadsheet_would_execute(name: str) -> None:
    schema = case("table constant").schema
    check_names(schema.model_copy(update={"classes": ("+", "-1", "größer, 1.5 (alt)")}))
    with pytest.raises(BadModel):
        check_names(schema.model_copy(update={"classes": ("well", name)}))


def test_loading_and_predicting_touches_no_pickle(tmp_path: Path) -> None:
    """In a process that dies at the first object that is unpickled; control: joblib dies."""
    code = """
import os, sys
sys.addaudithook(lambda event, _: event == "pickle.find_class" and os._exit(9))
from pathlib import Path
import numpy as np
for path in map(Path, sys.argv[1:]):
    if path.suffix == ".joblib":
        import joblib
        joblib.load(path)
    from consilium.models.published.model import load_model
    from tests.strangers import Net
    model = load_model(path, factory=Net)
    model.predict_proba(np.zeros((1, len(model.schema.features))))
"""
    paths = []
    for index, name in enumerate(CASES):
        trained = case(name)
        paths.append(str(tmp_path / f"{index}.safetensors"))
        publish(Path(paths[-1]), trained.model, trained.schema, trained.pool)
    assert subprocess.run([sys.executable, "-c", code, *paths], check=False).returncode == 0
    import joblib

    joblib.dump(case("table logistic_regression").model, tmp_path / "old.joblib")
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "old.joblib")], check=False).returncode == 9


def test_the_file_opens_with_the_library_alone(tmp_path: Path) -> None:
    """Whoever has no Consilium can still read the numbers and what they mean."""
    from safetensors import safe_open

    trained = case("table logistic_regression")
    path = tmp_path / "model.safetensors"
    publish(path, trained.model, trained.schema, trained.pool)
    with safe_open(path, "np") as file:
        header = json.loads(file.metadata()["consilium"])
        weights, offset = file.get_tensor("coefficients"), file.get_tensor("intercept")
    rows = header["rows"]
    z = (trained.rows.astype(np.float64) - rows["center"]) / rows["scale"]
    scores = np.exp(z @ weights.T + offset)
    np.testing.assert_allclose((scores / scores.sum(axis=1, keepdims=True))[:, 1], trained.in_memory()[:, 1])

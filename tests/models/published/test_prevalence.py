"""Probabilities shifted to a declared prevalence: the mean is met, ranks stay, and the file says how."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import logit

from consilium.data.files import CsvRule
from consilium.models.published.file import BadModel, read, write
from consilium.models.published.model import load_model, publish
from consilium.models.published.predict import predict_file
from consilium.models.published.prevalence import FURTHEST_MEAN, PrevalenceShift
from tests.federation import CLASSES, FEATURES, make_rows
from tests.marks import some
from tests.models.published.models import case

SHARES = st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6).map(lambda each: tuple(np.array(each) / sum(each)))


@settings(deadline=None, max_examples=some(60))
@given(shares=SHARES, sharpness=st.floats(0.01, 30.0), seed=st.integers(0, 2**32 - 1))
@example(shares=(5 / 29, 16 / 29, 8 / 29), sharpness=0.01, seed=0)  # two classes move together on a plateau
def test_the_mean_over_the_pool_is_what_was_declared(shares: tuple[float, ...], sharpness: float, seed: int) -> None:
    """Also for students that are almost always sure, with probabilities that are 0 in float64."""
    p = np.random.default_rng(seed).dirichlet(np.full(len(shares), sharpness), size=200)
    shift = PrevalenceShift.onto(shares, p)
    found = shift.applied(p)
    assert np.abs(found.mean(axis=0) - shares).max() <= FURTHEST_MEAN
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    assert PrevalenceShift.onto(shares, p) == shift


def test_the_shift_is_one_of_log_odds() -> None:
    """Golden: one row has a closed form."""
    shift = PrevalenceShift.onto((0.8, 0.2), np.array([[0.5, 0.5]]))
    assert shift.shift == pytest.approx((0.0, math.log(0.25)), abs=1e-12)
    p = np.array([[0.3, 0.7], [0.9, 0.1]])
    np.testing.assert_allclose(logit(shift.applied(p)[:, 1]) - logit(p[:, 1]), math.log(0.25), atol=1e-12)


def test_in_the_file(tmp_path: Path) -> None:
    trained, path = case("table logistic_regression"), tmp_path / "model.safetensors"
    plain = publish(path, trained.model, trained.schema, trained.pool)
    assert "calibration" not in read(path).header
    assert plain.calibration is None
    declared = (0.2, 0.5, 0.3)  # the last class never got a label
    shifted = publish(path, trained.model, trained.schema, trained.pool, declared)
    assert np.abs(shifted.predict_proba(trained.pool).mean(axis=0) - declared).max() <= FURTHEST_MEAN
    again = load_model(path)
    assert again.calibration == shifted.calibration
    assert again.calibration is not None
    assert again.calibration.threshold is None
    np.testing.assert_array_equal(
        again.calibration.applied(plain.predict_proba(trained.rows)), again.predict_proba(trained.rows)
    )


@pytest.mark.parametrize(
    "change",
    [
        {"shift": [0.0, 1.0], "prevalence": [0.5, 0.5], "threshold": 0.5},  # fits itself, not the classes
        {"shift": [0.0, 1e300, 0.0]},
        {"prevalence": [0.5, 0.6, 0.1]},
        {"threshold": 0.5},
        {"code": "import os"},
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    trained, path = case("table logistic_regression"), tmp_path / "model.safetensors"
    publish(path, trained.model, trained.schema, trained.pool, (0.2, 0.5, 0.3))
    content = read(path)
    header = {**content.header, "calibration": {**content.header["calibration"], **change}}
    write(path, header, content.arrays)
    with pytest.raises(BadModel):
        load_model(path)


@pytest.fixture
def flagging(tmp_path: Path) -> Path:
    """A student of two classes with an operating point; half of the pool is to be flagged."""
    from consilium.student.learn import inputs, train
    from tests.federation import make_config
    from tests.specs import student_of

    schema, spec = make_config().rows, student_of(C=1.0)
    x, y = make_rows(150, 3)
    model = train(inputs(spec, schema, x), y, inputs(spec, schema, x), 2, spec, 0)
    path = tmp_path / "model.safetensors"
    publish(path, model, schema, x, (0.5, 0.5))
    return path


def test_predictions_flag_what_lies_above_the_threshold(flagging: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    x, _ = make_rows(150, 3)
    with rows.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([FEATURES, *x.tolist()])
    rule = CsvRule()
    text = predict_file(flagging, rows, rule, "text", None, lambda _: None)
    found = list(csv.DictReader(io.StringIO(text)))
    assert list(found[0]) == ["row", "class", *(f"p_{name}" for name in CLASSES), "flagged"]
    flags = [row["flagged"] for row in found]
    assert (flags.count("1"), flags.count("0")) == (75, 75)
    table = json.loads(predict_file(flagging, rows, rule, "json", None, lambda _: None))
    assert [row["flagged"] for row in table["rows"]] == [flag == "1" for flag in flags]
    threshold = load_model(flagging).calibration
    assert threshold is not None
    assert threshold.threshold is not None
    assert [row["probabilities"]["ill"] > threshold.threshold for row in table["rows"]] == [f == "1" for f in flags]

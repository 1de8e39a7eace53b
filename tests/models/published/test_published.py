"""Published students: the same predictions as in memory, small and equal files, what the arrays stand for, how they are
brought to a prevalence, and what others wrote: what is written without a pickle, and what is read."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from scipy.special import logit
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from consilium.models.keys import TRAINERS, EstimatorStudent, PickledStudent, TorchStudent
from consilium.models.naming import UnusableModel
from consilium.models.own_model import OwnTrainer
from consilium.models.published.file import BadModel, read, write
from consilium.models.published.model import FURTHEST_MEAN, PrevalenceShift, load_model, publish
from consilium.protocol.errors import DataError
from consilium.student.learn import check_trainer
from tests import strangers
from tests.marks import some
from tests.models.published.models import CASES, SCHEMA, X, Y, case, published, torch_file

KINDS = {"constant", "linear", "kernel", "graph_cnn", "estimator", "torch"}


@pytest.mark.parametrize("name", CASES)
def test_a_saved_student_says_what_the_trained_one_said(name: str, tmp_path: Path) -> None:
    trained, path = case(name), tmp_path / "model.safetensors"
    trained.publish(path)
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
    assert {one.publish(tmp_path / "model.safetensors").kind for one in trained} == KINDS


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (np.zeros((2, 4)), "4 features"),
        (np.full((2, 3), np.nan), "missing"),
        (np.full((2, 3), 1e300), "beyond float32"),
    ],
)
def test_rows_that_cannot_be_judged(rows: np.ndarray, told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=told):
        case("table logistic_regression").publish(tmp_path / "m").predict_proba(rows)


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
    paths = [str(tmp_path / f"{index}.safetensors") for index in range(len(CASES))]
    for path, name in zip(paths, CASES, strict=True):
        case(name).publish(Path(path))
    assert subprocess.run([sys.executable, "-c", code, *paths], check=False).returncode == 0
    joblib.dump(case("table logistic_regression").model, tmp_path / "old.joblib")
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "old.joblib")], check=False).returncode == 9


def test_the_file_opens_with_the_library_alone(tmp_path: Path) -> None:
    """Whoever has no Consilium can still read the numbers and what they mean."""
    from safetensors import safe_open

    trained, path = case("table logistic_regression"), tmp_path / "model.safetensors"
    trained.publish(path)
    with safe_open(path, "np") as file:
        header = json.loads(file.metadata()["consilium"])
        weights, offset = file.get_tensor("coefficients"), file.get_tensor("intercept")
    rows = header["rows"]
    z = (trained.rows.astype(np.float64) - rows["center"]) / rows["scale"]
    scores = np.exp(z @ weights.T + offset)
    np.testing.assert_allclose((scores / scores.sum(axis=1, keepdims=True))[:, 1], trained.in_memory()[:, 1])


SHARES = st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6).map(lambda each: tuple(np.array(each) / sum(each)))


@settings(deadline=None, max_examples=some(60))
@given(shares=SHARES, sharpness=st.floats(0.01, 30.0), seed=st.integers(0, 2**32 - 1))
@example(shares=(5 / 29, 16 / 29, 8 / 29), sharpness=0.01, seed=0)  # two classes move together on a plateau
def test_the_mean_over_the_pool_is_what_was_declared(shares: tuple[float, ...], sharpness: float, seed: int) -> None:
    """Also for students that are almost always sure, with probabilities that are 0 in float64."""
    p = np.random.default_rng(seed).dirichlet(np.full(len(shares), sharpness), size=200)
    found = PrevalenceShift.onto(shares, p).applied(p)
    assert np.abs(found.mean(axis=0) - shares).max() <= FURTHEST_MEAN
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)


def test_the_shift_is_one_of_log_odds() -> None:
    """Golden: one row has a closed form."""
    shift = PrevalenceShift.onto((0.8, 0.2), np.array([[0.5, 0.5]]))
    assert shift.shift == pytest.approx((0.0, math.log(0.25)), abs=1e-12)
    p = np.array([[0.3, 0.7], [0.9, 0.1]])
    np.testing.assert_allclose(logit(shift.applied(p)[:, 1]) - logit(p[:, 1]), math.log(0.25), atol=1e-12)


DECLARED = (0.2, 0.5, 0.3)
"""The last class never got a label."""


def test_a_prevalence_is_in_the_file(tmp_path: Path) -> None:
    trained, path = case("table logistic_regression"), tmp_path / "model.safetensors"
    plain = trained.publish(path)
    assert "calibration" not in read(path).header and plain.calibration is None
    shifted = trained.publish(path, DECLARED)
    assert np.abs(shifted.predict_proba(trained.pool).mean(axis=0) - DECLARED).max() <= FURTHEST_MEAN
    again = load_model(path)
    assert again.calibration == shifted.calibration and again.calibration is not None
    assert again.calibration.threshold is None
    expected = again.calibration.applied(plain.predict_proba(trained.rows))
    np.testing.assert_array_equal(expected, again.predict_proba(trained.rows))


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
def test_a_prevalence_that_does_not_fit_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    case("table logistic_regression").publish(path, DECLARED)
    content = read(path)
    write(path, {**content.header, "calibration": {**content.header["calibration"], **change}}, content.arrays)
    with pytest.raises(BadModel):
        load_model(path)


TRUSTED: dict[str, Callable[[], Any]] = {
    "lightgbm": lambda: LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1),
    "forest in a pipeline": lambda: make_pipeline(StandardScaler(), RandomForestClassifier(3)),
}


@pytest.mark.parametrize("name", TRUSTED)
def test_what_anybody_can_load_says_what_the_trained_one_said(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = OwnTrainer("theirs", lambda _: TRUSTED[name]()).fit(SCHEMA.inputs(X), Y, 3, 0)
    assert publish(path, model, SCHEMA, X).kind == "estimator"
    loaded = load_model(path)
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(SCHEMA.inputs(X)), atol=1e-6)
    assert (loaded.predict_proba(X)[:, 2] == 0).all()


TREES = ["sklearn.metrics._dist_metrics.EuclideanDistance64", "sklearn.neighbors._kd_tree.KDTree"]


@pytest.mark.parametrize(
    ("make", "named"), [(strangers.Nearest, ["tests.strangers.Nearest"]), (KNeighborsClassifier, TREES)]
)
def test_other_classes_must_be_named_by_whoever_loads(
    make: Callable[[], Any], named: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    trained = published(make(), path)
    assert str(named) in trained.needs
    for trust in ([], ["tests.strangers.Net"]):
        with pytest.raises(BadModel, match=named[-1]):
            load_model(path, trust)
    assert (load_model(path, trust=named).predict_proba(X) == trained.predict_proba(X)).all()


class NotWritten(strangers.Nearest):
    """Holds what skops cannot write."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Any:
        self.how = (each for each in ())
        return super().fit(x, y)

    def __reduce__(self) -> Any:  # it can be pickled, and that is not enough
        return NotWritten, ()


def test_what_cannot_be_written_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    for name in (f"{__name__}:NotWritten", "sklearn.svm.SVR", "absent.Thing", "tests.strangers:Raises"):
        with pytest.raises((UnusableModel, BadModel)):
            check_trainer(EstimatorStudent(factory=name), SCHEMA)
    check_trainer(EstimatorStudent(factory="tests.strangers:Nearest"), SCHEMA)
    check_trainer(TorchStudent(factory="tests.strangers:Net", epochs=1), SCHEMA)
    with pytest.raises(BadModel, match="gradient boosting"):
        published(GradientBoostingClassifier(n_estimators=3), tmp_path / "m")
    with pytest.raises(UnusableModel, match="SHA-256"):
        (tmp_path / "s.pkl").write_bytes(b"?")
        (tmp_path / "s.pkl").chmod(0o600)
        check_trainer(PickledStudent(file=str(tmp_path / "s.pkl"), sha256="0" * 64), SCHEMA)


class TestTorch:
    """The weights are in the file; the module's code is not."""

    def test_whoever_loads_it_passes_the_factory(self, tmp_path: Path) -> None:
        path = torch_file(tmp_path, hidden=5)
        keys = TorchStudent(factory="tests.strangers:Net", parameters={"hidden": 5}, epochs=2)
        trained = published(keys.build(0), tmp_path / "again")
        loaded = load_model(path, factory=strangers.Net)
        assert "tests.strangers:Net" in loaded.needs
        assert (loaded.predict_proba(X) == trained.predict_proba(X)).all()
        assert path.read_bytes() == (tmp_path / "again").read_bytes()

    @pytest.mark.parametrize(
        ("factory", "told"),
        [
            (strangers.ten_outputs, "is not what tests.strangers:Net makes"),
            (strangers.no_module, "gives object, no torch.nn.Module"),
            (lambda: None, "unexpected keyword"),
        ],
    )
    def test_another_factory_than_it_was_trained_with(self, tmp_path: Path, factory: Any, told: str) -> None:
        with pytest.raises(BadModel, match=told):
            load_model(torch_file(tmp_path), factory=factory)

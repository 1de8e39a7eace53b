"""Published students that others wrote: what is written without a pickle, and what is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from consilium.data.files import CsvRule
from consilium.models.keys import EstimatorStudent, PickledStudent, TorchStudent
from consilium.models.naming import UnusableModel
from consilium.models.own_model import OwnTrainer
from consilium.models.published.file import BadModel, read, write
from consilium.models.published.model import load_model, publish
from consilium.models.published.predict import predict_file
from consilium.student.learn import check_trainer
from tests import strangers
from tests.models.published.own_models import SCHEMA, X, Y, published, torch_file

TRUSTED: dict[str, tuple[Callable[[], Any], str]] = {
    "lightgbm": (lambda: LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1), "estimator"),
    "forest in a pipeline": (lambda: make_pipeline(StandardScaler(), RandomForestClassifier(3)), "estimator"),
    "logistic regression": (LogisticRegression, "estimator"),
    "forest": (lambda: RandomForestClassifier(3), "estimator"),
    "boosting": (lambda: GradientBoostingClassifier(n_estimators=3), "refused"),
}


@pytest.mark.parametrize("name", TRUSTED)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_anybody_can_load_says_what_the_trained_one_said(name: str, tmp_path: Path) -> None:
    make, kind = TRUSTED[name]
    path = tmp_path / "model.safetensors"
    if kind == "refused":
        with pytest.raises(BadModel, match="gradient boosting"):
            published(make(), path)
        return
    model = OwnTrainer("theirs", lambda _: make()).fit(SCHEMA.inputs(X), Y, 3, 0)
    assert publish(path, model, SCHEMA, X).kind == kind
    loaded = load_model(path)
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(SCHEMA.inputs(X)), atol=1e-6)
    assert (loaded.predict_proba(X)[:, 2] == 0).all()


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (strangers.Nearest, ["tests.strangers.Nearest"]),
        (
            KNeighborsClassifier,
            ["sklearn.metrics._dist_metrics.EuclideanDistance64", "sklearn.neighbors._kd_tree.KDTree"],
        ),
    ],
)
def test_other_classes_must_be_named_by_whoever_loads(
    make: Callable[[], Any], named: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    trained = published(make(), path)
    assert str(named) in trained.needs
    with pytest.raises(BadModel, match=named[-1]):
        load_model(path)
    with pytest.raises(BadModel, match=named[-1]):
        load_model(path, trust=["tests.strangers.Net"])
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
    for sound in (
        EstimatorStudent(factory="tests.strangers:Nearest"),
        TorchStudent(factory="tests.strangers:Net", epochs=1),
    ):
        check_trainer(sound, SCHEMA)
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

    @pytest.mark.parametrize(
        "change",
        [
            lambda header, arrays: header["settings"].update(parameters={"hidden": 10**18}),
            lambda header, arrays: header["settings"].update(factory="a; import b"),
            lambda header, arrays: header["settings"].update(images=True),
            lambda header, arrays: arrays.pop("module.body.0.weight"),
            lambda header, arrays: arrays.update({"seen": np.array([0, 7])}),
            lambda header, arrays: arrays.update({"module.body.0.weight": np.zeros((1, 1), dtype=np.float32)}),
        ],
        ids=range(6),
    )
    def test_parts_that_do_not_fit(self, tmp_path: Path, change: Callable[[dict, dict], None]) -> None:
        path = torch_file(tmp_path)
        content = read(path)
        header, arrays = json.loads(json.dumps(content.header)), dict(content.arrays)
        change(header, arrays)
        write(path, header, arrays)
        with pytest.raises(BadModel):
            load_model(path, factory=strangers.Net)


def test_predicting_with_what_others_wrote(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("age,pressure,drowsy\n60,140,0\n")
    published(LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1), tmp_path / "lgbm")
    assert predict_file(tmp_path / "lgbm", rows, CsvRule(), "text", None, print).startswith("row,class,p_well")
    with pytest.raises(BadModel, match=r"In Python: load_model\(path, factory=...\)"):
        predict_file(torch_file(tmp_path), rows, CsvRule(), "text", None, print)

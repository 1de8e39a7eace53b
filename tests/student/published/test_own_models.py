"""Published students that others wrote: what is written without a pickle, what is read, and what is never run."""

from __future__ import annotations

import functools
import io
import json
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
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from consilium.protocol.own_models.guard import GuardedClassifier
from consilium.protocol.own_models.naming import STUDENTS, UnusableModel
from consilium.protocol.own_models.torch_classifier import TorchClassifier
from consilium.protocol.rows.csv_files import CsvRule
from consilium.protocol.rows.schema import Schema
from consilium.student.published.file import BadModel, read, write
from consilium.student.published.model import Published, load_model, publish
from consilium.student.published.predict import predict_file
from consilium.student.published.trial import check_trainer
from consilium.student.trainers.own_kinds import EstimatorStudent, PickledStudent, TorchStudent
from consilium.student.trainers.own_model import OwnModel, OwnTrainer
from tests import strangers
from tests.federation import make_rows
from tests.protocol.own_models.test_naming import install

X, Y = make_rows(200, 4)
SCHEMA = Schema.from_public_rows(("age", "pressure", "drowsy"), ("well", "ill", "never"), X)


def published(estimator: Any, path: Path) -> Published:
    model = OwnTrainer("theirs", lambda _: estimator).fit(SCHEMA.inputs(X), Y, 3, 0)
    return publish(path, model, SCHEMA, "representation", X)


def file_of(tmp_path: Path, content: bytes, kind: str = "estimator", **settings: Any) -> Path:
    """A file with this archive in it, as whoever wants harm would write it."""
    path = tmp_path / "model.safetensors"
    published(GaussianNB(), path)
    good = read(path)
    header = {**good.header, "kind": kind, "settings": settings or good.header["settings"]}
    write(path, header, {**good.arrays, "skops": np.frombuffer(content, dtype=np.uint8)})
    return path


TRUSTED: dict[str, tuple[Callable[[], Any], str]] = {
    "lightgbm": (lambda: LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1), "estimator"),
    "histogram boosting": (lambda: HistGradientBoostingClassifier(max_iter=5), "estimator"),
    "pipeline with imputation": (strangers.imputing, "estimator"),
    "calibrated": (lambda: CalibratedClassifierCV(GaussianNB()), "estimator"),
    "network": (lambda: MLPClassifier((4,), max_iter=20), "estimator"),
    "support vectors, no probabilities": (SVC, "estimator"),
    "discriminant": (LinearDiscriminantAnalysis, "estimator"),
    "tree": (lambda: DecisionTreeClassifier(max_depth=3), "estimator"),
    "bagged": (lambda: BaggingClassifier(n_estimators=3), "estimator"),
    "vote": (lambda: VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())], voting="soft"), "estimator"),
    "forest in a pipeline": (lambda: make_pipeline(StandardScaler(), RandomForestClassifier(3)), "estimator"),
    "logistic regression": (LogisticRegression, "linear"),
    "forest": (lambda: RandomForestClassifier(3), "forest"),
    "extra trees": (lambda: ExtraTreesClassifier(3), "forest"),
    "boosting": (lambda: GradientBoostingClassifier(n_estimators=3), "boosted"),
    "boosting with another loss": (lambda: GradientBoostingClassifier(n_estimators=3, loss="exponential"), "refused"),
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
    assert publish(path, model, SCHEMA, "representation", X).kind == kind
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


def test_equal_students_have_equal_files(tmp_path: Path) -> None:
    files = []
    for name in "ab":
        published(LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1), tmp_path / name)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]


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
    for factory in ("planted_by_file:Net", "planted_by_file.Net", "planted"):
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
        hostile_tree(setting("feature", -5)),
        hostile_histogram(setting("left", 10**6)),
        hostile_histogram(setting("right", 0)),
        hostile_histogram(setting("feature_idx", 10**6)),
        hostile_histogram(setting("is_categorical", 1)),
        skops.io.dumps(DecisionTreeClassifier().fit(np.zeros((4, 50)), [0, 1, 0, 1])),
        skops.io.dumps(make_pipeline(GradientBoostingClassifier(n_estimators=2)).fit(SCHEMA.inputs(X), Y)),
    ],
    ids=range(10),
)
def test_trees_that_would_lead_a_library_astray(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadModel):
        load_model(file_of(tmp_path, content))


def test_bytes_changed_at_random(tmp_path: Path) -> None:
    """Each archive is refused, or is a student that gives probabilities."""
    good = skops.io.dumps(GaussianNB().fit(SCHEMA.inputs(X), Y))
    generator = np.random.default_rng(20_261_122)
    refused = 0
    for _ in range(60):
        changed = bytearray(good)
        for place in generator.integers(0, len(good), size=3):
            changed[place] = generator.integers(256)
        try:
            found = load_model(file_of(tmp_path, bytes(changed))).predict_proba(X[:3])
        except BadModel:
            refused += 1
        else:
            np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-3)
    assert 20 < refused <= 60


def torch_file(tmp_path: Path, factory: str = "", **parameters: Any) -> Path:
    """A trained module in a file, which says that `factory` makes it."""
    path = tmp_path / "torch.safetensors"
    published(TorchClassifier(strangers.Net, name=factory or None, parameters=parameters, epochs=2), path)
    return path


class TestTorch:
    """The weights are in the file; the module's code is not."""

    def test_whoever_loads_it_passes_the_factory(self, tmp_path: Path) -> None:
        path = torch_file(tmp_path, hidden=5)
        trained = published(TorchClassifier(strangers.Net, parameters={"hidden": 5}, epochs=2), tmp_path / "again")
        loaded = load_model(path, factory=strangers.Net)
        assert "tests.strangers:Net" in loaded.needs
        assert (loaded.predict_proba(X) == trained.predict_proba(X)).all()
        assert path.read_bytes() == (tmp_path / "again").read_bytes()

    @pytest.mark.parametrize("value", ["their_students:Own", "best"])
    def test_or_has_installed_what_offers_it(self, tmp_path: Path, monkeypatch, value: str) -> None:
        monkeypatch.syspath_prepend(str(tmp_path))
        install(tmp_path, "their_students", STUDENTS, "best", "their_students:Own")
        (tmp_path / "their_students.py").write_text("from tests.strangers import Net as Own\n")
        path = torch_file(tmp_path, value)
        expected = load_model(path, factory=strangers.Net).predict_proba(X)
        assert (load_model(path).predict_proba(X) == expected).all()

    @pytest.mark.parametrize(
        ("factory", "told"),
        [
            (strangers.ten_outputs, "is not what tests.strangers:Net makes"),
            (lambda inputs, classes: nn.Linear(inputs, classes), "is not what"),
            (strangers.no_module, "gives object, no torch.nn.Module"),
            (strangers.Eyes, "is not what"),
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
            lambda header, arrays: header["settings"].update(parameters={"hidden": -1}),
            lambda header, arrays: header["settings"].update(parameters={"absent": 1}),
            lambda header, arrays: header["settings"].update(factory="a; import b"),
            lambda header, arrays: header["settings"].update(images=True),
            lambda header, arrays: arrays.pop("module.body.0.weight"),
            lambda header, arrays: arrays.pop("seen"),
            lambda header, arrays: arrays.update({"seen": np.array([0, 7])}),
            lambda header, arrays: arrays.update({"other": np.zeros(3)}),
            lambda header, arrays: arrays.update({"module.body.0.weight": np.zeros((1, 1), dtype=np.float32)}),
        ],
        ids=range(10),
    )
    def test_parts_that_do_not_fit(self, tmp_path: Path, change: Callable[[dict, dict], None]) -> None:
        path = torch_file(tmp_path)
        content = read(path)
        header, arrays = json.loads(json.dumps(content.header)), dict(content.arrays)
        change(header, arrays)
        write(path, header, arrays)
        with pytest.raises(BadModel):
            load_model(path, factory=strangers.Net)

    def test_what_no_file_can_say_of_a_module(self, tmp_path: Path) -> None:
        model = TorchClassifier(lambda inputs, classes, how: nn.Linear(inputs, classes), parameters={"how": np.sum})
        with pytest.raises(UnusableModel, match="parameters must be numbers"):
            published(model, tmp_path / "a")


def test_predicting_with_what_others_wrote(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("age,pressure,drowsy\n60,140,0\n")
    published(LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1), tmp_path / "lgbm")
    assert predict_file(tmp_path / "lgbm", rows, CsvRule(), "text", None, print).startswith("row,class,p_well")
    with pytest.raises(BadModel, match=r"In Python: load_model\(path, factory=...\)"):
        predict_file(torch_file(tmp_path), rows, CsvRule(), "text", None, print)


def test_a_loaded_student_that_fails_says_so(tmp_path: Path) -> None:
    seen = np.array([0, 1])
    guarded = GuardedClassifier(seen, b"", 0, strangers.Raises(method="predict_proba"))
    loaded = Published(SCHEMA, "representation", "estimator", OwnModel(guarded, 3, "theirs"), "")
    with pytest.raises(BadModel, match="theirs fails on 200 rows: RuntimeError"):
        loaded.predict_proba(X)

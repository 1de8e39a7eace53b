"""Trackers get the promise and what it covers; what takes private rows only where somebody says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from consilium.simulations.council import hooks
from consilium.simulations.council.frames import BadSetting
from consilium.simulations.council.runs import Run

ROWS = [
    ("run", "privacy", "epsilon_data_dependent", 0.1234),
    ("run", "student", "auc", 0.7),
    ("run", "hand_labels_released", "auc", 0.72),
    ("run", "pooled", "auc", 0.9),
    ("party", "H1", "auc", 0.6),
    ("query", "0", "epsilon_spent", 0.5),
    ("query", "0", "answered", 1.0),
]
PUBLIC = {"privacy.epsilon_promised": 0.8, "privacy.delta": 1e-5, "student.auc": 0.7, "hand_labels_released.auc": 0.72}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    privacy = {
        **{f"epsilon_{name}": 0.8 for name in ("promised", "student", "spent")},
        "epsilon_data_dependent": 0.1234,
        "delta": 1e-5,
        **{"unit": "party", "relation": "party", "towards": "student", "collection": "plaintext"},
        "noise": "system",
    }
    summary = {"privacy": privacy, "student": {}, "baselines": {}, "queries": {}, "worth": None}
    manifest = {"scenario": "mine", "seed": 3, "config": {"data": {"set": "memory", "path": ""}, "x": {"y": [1]}}}
    (tmp_path / "student").mkdir()
    for name, content in {"summary.json": json.dumps(summary), "manifest.json": json.dumps(manifest)}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    for name in ("report.html", "report-public.html", *(f"student/{each}" for each in hooks.STUDENT_FILES)):
        (tmp_path / name).write_text("-", encoding="utf-8")
    names = ("scope", "name", "metric", "value")
    pl.DataFrame(ROWS, schema=names, orient="row").write_parquet(tmp_path / "metrics.parquet")
    return Run(tmp_path)


class Mlflow(ModuleType):
    """Stands in for mlflow: what was logged."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.params: dict[str, str] = {}
        self.metrics: dict[str, float] = {}
        self.files: list[str] = []

    def log_params(self, params: dict[str, str]) -> None:
        self.params |= params

    def log_metrics(self, metrics: dict[str, float]) -> None:
        self.metrics |= metrics

    def log_artifact(self, path: str, folder: str | None = None) -> None:
        self.files.append(Path(path).name)


class Writer:
    """Stands in for TensorBoard's writer."""

    scalars: list[tuple[str, float]]

    def __init__(self, folder: str) -> None:
        Writer.scalars = []

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def add_scalar(self, name: str, value: float, step: int = 0) -> None:
        self.scalars.append((name, value))

    def add_text(self, name: str, text: str) -> None:
        assert "0.1234" not in text


def test_mlflow_gets_what_the_promise_covers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    hooks.log_to_mlflow(run)
    assert mlflow.params == {"scenario": "mine", "seed": "3", "data.set": "memory", "x.y": "[1]"}
    assert mlflow.metrics == PUBLIC
    assert mlflow.files == ["report-public.html", *hooks.STUDENT_FILES]


def test_mlflow_gets_more_where_somebody_says_so_but_no_secret(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    hooks.log_to_mlflow(run, private=True)
    assert mlflow.metrics == {**PUBLIC, "pooled.auc": 0.9}
    assert mlflow.files[0] == "report.html"


@pytest.mark.parametrize(("private", "more"), [(False, {}), (True, {"pooled/auc": 0.9, "secret_epsilon_spent": 0.5})])
def test_tensorboard(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, private: bool, more: dict[str, Any]
) -> None:
    stand_in = ModuleType("torch.utils.tensorboard")
    stand_in.SummaryWriter = Writer  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "tensorboard", ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    hooks.log_to_tensorboard(run, tmp_path / "events", private)
    assert dict(Writer.scalars) == {name.replace(".", "/"): value for name, value in PUBLIC.items()} | more


def test_tensorboard_itself(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    hooks.log_to_tensorboard(run, tmp_path / "events")
    assert list((tmp_path / "events").iterdir())


def test_mlflow_itself(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow: Any = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"file:{tmp_path / 'mlruns'}")
    hooks.log_to_mlflow(run)
    mlflow.end_run()


@pytest.mark.parametrize("name", ["mlflow", "tensorboard"])
def test_what_is_not_installed_says_how(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    log = {"mlflow": lambda: hooks.log_to_mlflow(run), "tensorboard": lambda: hooks.log_to_tensorboard(run, tmp_path)}
    with pytest.raises(
        BadSetting, match=rf"{name} is not installed. Install it: pip install 'consilium-pate\[{name}\]'"
    ):
        log[name]()

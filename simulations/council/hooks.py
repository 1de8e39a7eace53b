"""What a run says, handed to trackers of experiments: MLflow, TensorBoard. Each is imported when it is used.

A tracker is another place, often another machine. So by themselves they get what the guarantee covers or what is
public; everything else (yardsticks from private rows, the full report) only where the caller says `private=True`, and
the secret data-dependent epsilon never.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from consilium.simulations.council.frames import BadSetting
from consilium.simulations.council.runs import Run

_TENSORBOARD = "pip install 'consilium-pate[tensorboard]'"
STUDENT_FILES = ("model.safetensors", "student.json", "MODEL_CARD.md")
_COVERED = ("student", "hand_labels_released", "hand_labels_asked")
"""Names in `Run.metrics` that may be shown to anybody."""
_NEVER = ("privacy",)
"""Holds the data-dependent epsilon; the promise is told apart."""


def log_to_mlflow(run: Run, private: bool = False) -> None:
    """Log parameters, metrics and files of a run to the active MLflow run, or a new one.

    private : yardsticks that take private rows and the full report too: for a tracker that may have them.

    Raises
    ------
    BadSetting : mlflow is not installed.
    """
    mlflow = _needed("mlflow", "pip install 'consilium-pate[mlflow]'")
    mlflow.log_params(dict(parameters(run)))
    mlflow.log_metrics(dict(metrics(run, private)))
    report = run.report if private else run.report.public
    mlflow.log_artifact(str(report.path))
    for name in STUDENT_FILES:
        mlflow.log_artifact(str(run.path / "student" / name), "student")


def log_to_tensorboard(run: Run, folder: str | Path, private: bool = False) -> None:
    """Write a run's metrics to a folder of event files; with `private` the cost of the answers so far, too.

    private : see `log_to_mlflow`.

    Raises
    ------
    BadSetting : tensorboard is not installed.
    """
    _needed("tensorboard", _TENSORBOARD)
    queries = run.votes_asked.select("query", "secret_epsilon_spent").iter_rows() if private else ()
    with _needed("torch.utils.tensorboard", _TENSORBOARD).SummaryWriter(str(folder)) as writer:
        for name, value in metrics(run, private):
            writer.add_scalar(name.replace(".", "/"), value)
        for query, epsilon in queries:
            writer.add_scalar("secret_epsilon_spent", epsilon, query)
        writer.add_text("privacy", str(run.privacy))


def parameters(run: Run) -> Iterator[tuple[str, str]]:
    """What the run was asked to do: dotted keys of its scenario, and its seed."""
    manifest = json.loads((run.path / "manifest.json").read_text(encoding="utf-8"))
    yield "scenario", str(manifest["scenario"])
    yield "seed", str(manifest["seed"])
    yield from _flat(manifest["config"])


def metrics(run: Run, private: bool) -> Iterator[tuple[str, float]]:
    """Dotted name and value: the promise, the student and its yardsticks."""
    yield "privacy.epsilon_promised", run.privacy.epsilon
    if run.privacy.epsilon_nodes is not None:
        yield "privacy.epsilon_nodes", run.privacy.epsilon_nodes
    yield "privacy.delta", run.privacy.delta
    for name, metric, value in run.metrics.filter(pl.col("scope") == "run").drop("scope").iter_rows():
        if name in _COVERED or (private and name not in _NEVER):
            yield f"{name}.{metric}", value


def _flat(table: Mapping[str, Any], parents: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{parents}{key}.")
        elif value not in (None, [], {}, ""):
            yield parents + key, str(value)[:500]


def _needed(module: str, command: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise BadSetting(f"{module} is not installed", f"Install it: {command}") from None

"""Photographs from their published files to a student that is read back: networks on pixels, and scattering."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from consilium.models.published.model import load_model
from consilium.simulations.audit import audit_path
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.simulations.datasets.own import FEDERATION
from tests.simulations.datasets.photographs import write_svhn
from tests.simulations.engines.test_engines_agree import quiet

NETWORKS = {
    "data": {"standardise": False},
    "teacher": {"model": "cnn", "channels": 4, "hidden": 16, "dense_layers": 3, "epochs": 40, "batch": 8},
    "trainer": {"name": "graph_cnn", "augment": "digits", "channels": 4, "steps": 10, "looks": 5, "networks": 1},
}
SCATTERING = {
    "data": {"representation": "scattering"},
    "teacher": {"model": "ridge", "alpha": 0.0015},
    "trainer": {"name": "graph_cnn", "augment": "objects", "channels": 4, "steps": 10, "looks": 5, "networks": 1},
}


@pytest.mark.proofs
@pytest.mark.slow
@pytest.mark.parametrize("ways", [NETWORKS, SCATTERING])
def test_from_published_files_to_a_student(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ways: dict[str, dict]
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    write_svhn(tmp_path, 60, 39)
    table = {
        "data": {"set": "svhn", "path": str(tmp_path), "partition": "iid", "parties": 3, **ways["data"]},
        "federation": {
            **FEDERATION,
            "teacher": ways["teacher"],
            "mechanism": {"name": "gnmax", "sigma": 0.5},
            "query_budget": {"queries": 10, "answers": 10},
        },
        "student": {"trainer": ways["trainer"]},
        "simulation": {"manual_labels": "none"},
    }
    (tmp_path / "scenario.toml").write_text(tomli_w.dumps(table))
    scenario = load_scenario(str(tmp_path / "scenario.toml"), [])
    summary = run_scenario("svhn", scenario, "local", 1, tmp_path / "run", quiet)  # pyright: ignore
    assert (summary["parties"], summary["queries"]["answered"]) == (3, 10)
    assert [finding for finding in audit_path(tmp_path / "run").findings if not finding.holds] == []
    (path,) = (tmp_path / "run").rglob("*.safetensors")
    data = load_dataset("svhn", str(tmp_path))
    assert data.public is not None
    said = load_model(path).predict_proba(data.x[data.public.test])
    right = (said.argmax(axis=1) == data.y[data.public.test]).mean()
    assert right == pytest.approx(summary["student"]["accuracy"])
    np.testing.assert_allclose(said.sum(axis=1), 1, atol=1e-9)

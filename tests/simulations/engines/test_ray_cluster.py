"""A run on a Ray cluster that is there already, without root: two nodes of one machine."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w

from consilium.coordinator.verify import holds
from consilium.simulations.audit import audit_path
from consilium.simulations.divide import divide
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.simulations.methods.cases import few
from tests.simulations.study.tiny import SCENARIO, rows

pytestmark = [pytest.mark.ray, pytest.mark.nightly]
ROOT = Path(__file__).resolve().parents[3]
MEMORY = 80_000_000
"""Bytes of each node's object store."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """In a folder of its own: Ray writes down where a cluster is, and whoever starts Ray beside it would join."""
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(dir="/tmp")  # short: paths of sockets end at 107 bytes
    monkeypatch.setenv("RAY_TMPDIR", folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # what is tested, and not what is installed
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": MEMORY})
    made.add_node(num_cpus=1, object_store_memory=MEMORY)
    yield made
    made.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("votes", ["plaintext", "verified"])
def test_a_run_on_a_cluster_is_that_of_the_local_engine(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch, votes: str
) -> None:
    rows().write_csv(tmp_path / "rows.csv")
    (tmp_path / "tiny.toml").write_text(tomli_w.dumps(SCENARIO))
    scenario = load_scenario(str(tmp_path / "tiny.toml"), [f"federation.collection={votes}"])
    run_scenario("tiny", scenario, "local", 0, tmp_path / "local")
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    run_scenario("tiny", scenario, "ray", 0, tmp_path / "far")
    labels = [pl.read_parquet(tmp_path / out / "labels.parquet") for out in ("local", "far")]
    assert labels[0].equals(labels[1])
    assert holds(audit_path(tmp_path / "far").findings)


@pytest.mark.parametrize("method", ["train", "vote"])
def test_an_actor_that_is_killed_costs_no_party(tmp_path: Path, sabotaged: Callable[..., None], method: str) -> None:
    """Flower hands it every further message, and each is sent again."""
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    scenario = few("federation.mechanism={name='gnmax', sigma=8.0}")
    parties = divide(scenario, 3).parties
    sabotaged(**{f"{parties[5]}__{method}": "once"})
    summary = run_scenario("few", scenario, "ray", 3, tmp_path / "run")
    assert (tmp_path / "flag").exists()
    assert (summary["parties"], "parties_absent" in summary) == (len(parties), False)
    (counted,) = json.loads((tmp_path / "run" / "coordinator.json").read_text())["parties_counted"]
    assert counted == len(parties)

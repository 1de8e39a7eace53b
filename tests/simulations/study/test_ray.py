"""A study on a Ray cluster of two nodes on this machine, one of which is killed in the middle."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from consilium.simulations.study.cache import Shelf, StepCache
from consilium.simulations.study.ray_pool import RayPool, ray_pool
from consilium.simulations.study.results import RESULTS
from consilium.simulations.study.run import run_study
from consilium.simulations.study.spec import load_study
from tests.simulations.study.tiny import STUDY, write_tiny

pytestmark = [pytest.mark.ray, pytest.mark.slow]
MEMORY = 80_000_000
"""Bytes of each node's object store."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """In a folder of its own: Ray writes down where a cluster is, and whoever starts Ray beside it would join."""
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(dir="/tmp")  # short: paths of sockets end at 107 bytes
    monkeypatch.setenv("RAY_TMPDIR", folder)
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": MEMORY})
    yield made
    made.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.proofs
def test_a_node_is_killed_in_the_middle(tmp_path: Path, cluster: Any) -> None:
    """The steps of both nodes come back, those of the dead one are done again, and the table is what one process gives.
    The rows travel: `far` says that no node has the file."""
    second = cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    spec = load_study(str(write_tiny(tmp_path, study={**STUDY["study"], "seeds": 6})))
    run_study(spec, tmp_path / "here", StepCache(tmp_path / "cache-here"))
    used: list[RayPool] = []
    killed = []

    @contextmanager
    def opening(shelf: Shelf) -> Iterator[RayPool]:
        with ray_pool(shelf, cluster.address) as executor:
            used.append(executor)
            yield executor

    def kill_one(stage: str, done: int, total: int) -> None:
        if not killed and len(used[0].steps_done) == 2 and stage == "ensembles" and done < total:
            killed.append(done)
            cluster.remove_node(second, allow_graceful=False)

    summary = run_study(spec, tmp_path / "far", StepCache(tmp_path / "cache-far"), opening, kill_one, far=True)
    assert summary["failed"] == []
    assert killed, "the study was done before a node could be killed"
    assert len(used[0].steps_done) == 2 and min(used[0].steps_done.values()) > 0
    results = [hashlib.sha256((tmp_path / out / RESULTS).read_bytes()).hexdigest() for out in ("here", "far")]
    assert results[0] == results[1]

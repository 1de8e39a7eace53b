"""A run from a notebook: one thread in each of its processes, and the caller's settings as they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from consilium.models.devices import ONE_THREAD
from consilium.node.flower import flower_environment
from consilium.simulations.engines import process
from tests.simulations.small import SMALL

NOTEBOOK = """
import contextlib, json, os, sys
from pathlib import Path
import consilium
import sklearn.linear_model
from threadpoolctl import threadpool_info

def numbers():
    return sorted({each["num_threads"] for each in threadpool_info()})

@contextlib.contextmanager
def watch(events):
    told.append(numbers())
    yield

told, before = [numbers()], dict(os.environ)
out, *changes = sys.argv[1:]
consilium.run_scenario("stroke", consilium.load_scenario("stroke", changes), "local", 0, Path(out), watch)
told.append(numbers())
before.pop("_RJEM_MALLOC_CONF", None)  # polars sets it and takes it away
print(json.dumps([told, [name for name in before if os.environ.get(name) != before[name]]]))
"""


@pytest.mark.nightly
def test_a_run_leaves_the_callers_threads_alone(tmp_path: Path) -> None:
    threads = dict.fromkeys(ONE_THREAD, "3")
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, str(tmp_path / "run"), *SMALL],
        env={**os.environ, **threads}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (before, meanwhile, after), changed = json.loads(done.stdout)
    assert before[-1] == 3  # OpenMP's; OpenBLAS takes no more than there are cores
    assert meanwhile == [1]
    assert after == before
    assert changed == []


def test_processes_train_with_one_thread_and_import_nothing_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = {}

    class Recorded:
        def __init__(self, command: list[str], env: dict[str, str], **_: object) -> None:
            started.update(command=command, env=env)
            self.pid = 1

    for name in ONE_THREAD:
        monkeypatch.setenv(name, "7")
    monkeypatch.setattr(process.subprocess, "Popen", Recorded)
    process.Worker()
    assert {name: started["env"][name] for name in ONE_THREAD} == ONE_THREAD
    assert started["command"][1:3] == ["-P", "-m"]
    flower = flower_environment(tmp_path / "home")
    assert {name: flower[name] for name in ONE_THREAD} == ONE_THREAD
    assert flower["PYTHONSAFEPATH"] == "1"
    assert {os.environ[name] for name in ONE_THREAD} == {"7"}

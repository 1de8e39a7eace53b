"""The device that trains, as everybody asks for it, and one thread for numerical libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline

from consilium.models import devices
from consilium.models.devices import resolve_device
from consilium.models.naming import estimator_of, seeded
from consilium.protocol.errors import ConfigError


@pytest.mark.parametrize("gpu", [True, False])
def test_a_gpu_is_taken_unless_the_cpu_is_asked_and_one_that_is_absent_is_an_error(gpu: bool, monkeypatch) -> None:
    """A driver is there; torch finds a GPU or not."""
    monkeypatch.setattr(devices, "_DRIVERS", ("libc.so.6",))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert [resolve_device(name) for name in ("auto", "cpu")] == ["cuda" if gpu else "cpu", "cpu"]
    if gpu:
        assert resolve_device("cuda") == "cuda"
        return
    with pytest.raises(ConfigError, match=r"device cuda is asked.*finds no GPU.*--device cpu") as caught:
        resolve_device("cuda")
    assert caught.value.exit_code == 2


def test_without_a_driver_torch_is_not_imported() -> None:
    code = (
        "import sys; from consilium.models import devices as device; device._DRIVERS = ('libabsent.so',)\n"
        "assert device.resolve_device('auto') == 'cpu'; sys.exit('torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


COUNT = """
import json
import numpy, scipy.linalg, sklearn.linear_model
import torch
from threadpoolctl import threadpool_info
from consilium.models.devices import one_thread

def numbers():
    found = {each["num_threads"] for each in threadpool_info()}
    return sorted(found | {torch.get_num_threads()})

told = [numbers()]
try:
    with one_thread():
        told.append(numbers())
        raise KeyError
except KeyError:
    told.append(numbers())
print(json.dumps(told))
"""


def test_one_thread_and_then_the_callers_number() -> None:
    """In a process of its own: libraries read the environment when they are loaded."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "3")
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        env={**os.environ, **threads}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, meanwhile, after = json.loads(done.stdout)
    assert before[-1] == 3  # OpenMP's; OpenBLAS takes no more than there are cores
    assert meanwhile == [1]
    assert after == before


def test_the_seed_and_one_thread_reach_what_is_within_a_pipeline() -> None:
    built = seeded(make_pipeline(BaggingClassifier(RandomForestClassifier(n_jobs=2))), 7).get_params()
    found = {key.rpartition("__")[2] + str(key.count("__")): value for key, value in built.items() if "jobs" in key}
    assert found == {"n_jobs1": 1, "n_jobs2": 2}
    assert {value for key, value in built.items() if key.endswith("random_state")} == {7}
    assert seeded(object(), 7).__class__ is object
    assert estimator_of("sklearn.svm.SVC", {"random_state": 3}, 7).random_state == 3

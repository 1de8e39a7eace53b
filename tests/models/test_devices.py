"""The device that trains, as everybody asks for it, and one thread for numerical libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from consilium.models import devices
from consilium.models.devices import resolve_device
from consilium.protocol.errors import ConfigError


@pytest.fixture
def gpu(monkeypatch, request: pytest.FixtureRequest) -> None:
    """A driver is there; torch finds a GPU or not."""
    monkeypatch.setattr(devices, "_driver", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: request.param)


@pytest.mark.parametrize("gpu", [True], indirect=True)
def test_a_gpu_is_taken_unless_the_cpu_is_asked(gpu: None) -> None:
    assert [resolve_device(name) for name in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]


@pytest.mark.parametrize("gpu", [False], indirect=True)
def test_a_gpu_that_is_asked_and_absent_is_an_error(gpu: None) -> None:
    assert [resolve_device(name) for name in ("auto", "cpu")] == ["cpu", "cpu"]
    with pytest.raises(ConfigError, match=r"device cuda is asked.*finds no GPU.*--device cpu") as caught:
        resolve_device("cuda")
    assert caught.value.exit_code == 2


def test_without_a_driver_torch_is_not_imported() -> None:
    code = (
        "import sys; from consilium.models import devices as device; device._DRIVERS = ('libabsent.so',)\n"
        "assert device.resolve_device('auto') == 'cpu'; sys.exit('torch' in sys.modules)"
    )
    root = str(Path(__file__).resolve().parents[2])
    assert (
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, check=False).returncode
        == 0
    )


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

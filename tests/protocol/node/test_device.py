"""The device: asked for by the environment, resolved without torch where that can be, an error where it is absent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from consilium.protocol.errors import ConfigError
from consilium.protocol.node import device
from consilium.protocol.node.device import VARIABLE, asked_device, resolve_device, using_device


@pytest.fixture
def gpu(monkeypatch, request: pytest.FixtureRequest) -> None:
    """A driver is there; torch finds a GPU or not."""
    monkeypatch.setattr(device, "_driver", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: request.param)


def test_what_is_asked(monkeypatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert asked_device() == "auto"
    monkeypatch.setenv(VARIABLE, "cpu")
    assert asked_device() == "cpu"
    for wrong in ("gpu", "", "cuda:0", "CPU"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(ConfigError, match=r"CONSILIUM_DEVICE is '.*Use one of auto, cpu, cuda"):
            asked_device()


def test_it_is_asked_for_a_while(monkeypatch) -> None:
    for before in (None, "cpu"):
        monkeypatch.delenv(VARIABLE, raising=False)
        if before:
            monkeypatch.setenv(VARIABLE, before)
        with pytest.raises(ZeroDivisionError), using_device("cuda"):
            assert asked_device() == "cuda"
            raise ZeroDivisionError
        assert os.environ.get(VARIABLE) == before


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
        "import sys; from consilium.protocol.node import device; device._DRIVERS = ('libabsent.so',)\n"
        "assert device.resolve_device('auto') == 'cpu'; sys.exit('torch' in sys.modules)"
    )
    root = str(Path(__file__).resolve().parents[3])
    assert (
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, check=False).returncode
        == 0
    )

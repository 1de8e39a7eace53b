"""Frozen networks from a folder: only the head learns, nothing is fetched, no pickle is read."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from consilium.models.backbones import backbone, weights_into, with_head
from consilium.models.naming import UnusableModel
from consilium.models.specs import TorchSpec
from tests.strangers import Sees, frozen


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    save_file(Sees().state_dict(), tmp_path / "model.safetensors")
    return tmp_path


@pytest.fixture(autouse=True)
def no_network(monkeypatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("somebody called out"))


def test_only_the_head_learns(folder: Path) -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=120)
    x = generator.random((120, 8, 8))
    x[y == 1, :4] += 1
    settings = {"folder": str(folder), "side": 16}
    keys = TorchSpec(factory="tests.strangers:frozen", parameters=settings, images=True, epochs=30, learning_rate=0.02)
    fitted = keys.build(0).fit(x.reshape(120, -1), y)
    assert (fitted.predict(x.reshape(120, -1)) == y).mean() > 0.9
    before, after = frozen((1, 8, 8), 2, **settings).body.state_dict(), fitted.module_.body.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"folder": "/absent"}, "there is no folder /absent"),
        ({"library": "keras"}, "'keras' is not known"),
        ({"library": "timm"}, r"needs timm, which is not installed. pip install 'consilium-pate\[backbones\]'"),
        ({"library": "transformers"}, r"needs transformers, which is not installed. pip install"),
    ],
)
def test_what_cannot_be_used(folder: Path, monkeypatch, change: dict[str, Any], told: str) -> None:
    for name in ("timm", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnusableModel, match=told):
        backbone((1, 8, 8), 2, **{"folder": str(folder), "library": "timm", **change})


def test_a_body_of_other_inputs_or_weights(folder: Path) -> None:
    with pytest.raises(UnusableModel, match="takes no inputs 5"):
        with_head(Sees(), 5, 2)
    with pytest.raises(UnusableModel, match="holds another module"):
        weights_into(Sees(width=7), folder)


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    torch.save(Sees().state_dict(), tmp_path / "pytorch_model.bin")
    for library in ("timm", "transformers"):
        with pytest.raises(UnusableModel, match="a pickle is not read"):
            backbone((1, 8, 8), 2, folder=str(tmp_path), library=library)
    with pytest.raises(UnusableModel, match="a pickle is not read"):
        weights_into(Sees(), tmp_path)


def test_a_folder_of_timm(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm", reason="timm is not installed: pip install 'consilium-pate[backbones]'")
    timm.models.save_for_hf(timm.create_model("test_resnet", num_classes=0), tmp_path, safe_serialization=True)
    made = backbone((1, 28, 28), 3, folder=str(tmp_path), library="timm", side=32)
    assert made(torch.zeros(2, 1, 28, 28)).shape == (2, 3)


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    reason = "transformers is not installed: pip install 'consilium-pate[backbones]'"
    transformers = pytest.importorskip("transformers", reason=reason)
    config = transformers.ViTConfig(
        image_size=32, patch_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    transformers.ViTModel(config).save_pretrained(tmp_path)
    made = backbone((1, 28, 28), 3, folder=str(tmp_path), library="transformers", side=32)
    assert made(torch.zeros(2, 1, 28, 28)).shape == (2, 3)

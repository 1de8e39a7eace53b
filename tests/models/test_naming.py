"""Names of models: what is imported, what is an entry point, and what is said where there is none.

Frozen networks from a folder: only the head learns, nothing is fetched, no pickle is read.
"""

from __future__ import annotations

import pickle
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from consilium.models.backbones import backbone, weights_into, with_head
from consilium.models.naming import (
    STUDENTS,
    TEACHERS,
    UnusableModel,
    estimator_of,
    installed,
    resolve,
    seeded,
    unpickled,
)
from consilium.models.specs import GONE, TorchSpec
from consilium.models.teachers import RidgeTeacher
from consilium.student.config import StudentSpec
from tests.strangers import Sees, frozen


def install(site: Path, package: str, group: str, name: str, value: str) -> None:
    """A package as an installer leaves it: its code, and its metadata with one entry point."""
    (site / f"{package}.py").write_text("from sklearn.linear_model import LogisticRegression as Own\nTHREE = 3\n")
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_an_entry_point_of_an_installed_package(site: Path) -> None:
    install(site, "their_teachers", TEACHERS, "best-teacher", "their_teachers:Own")
    assert installed("best-teacher", TEACHERS)
    assert installed("their_teachers:Own", TEACHERS)
    assert "their_teachers" not in sys.modules  # looking whether it is there imports nothing
    assert estimator_of("best-teacher", {"C": 3.0}, 0, TEACHERS).get_params()["C"] == 3.0
    with pytest.raises(UnusableModel, match=r"offers 'best-teacher' under the entry points consilium.students"):
        resolve("best-teacher", STUDENTS)
    assert not installed("best-teacher", STUDENTS)


@pytest.mark.parametrize(
    ("value", "told"),
    [("absent_module:Own", "ModuleNotFoundError"), ("broken_entry:Absent", "AttributeError"),
     ("broken_entry:THREE", "no callable but int")],
)  # fmt: skip
def test_an_entry_point_that_cannot_be_used(site: Path, value: str, told: str) -> None:
    install(site, "broken_entry", TEACHERS, "broken", value)
    with pytest.raises(UnusableModel, match=told):
        resolve("broken", TEACHERS)


def test_two_packages_with_one_name(site: Path) -> None:
    for package in ("one_offer", "two_offers"):
        install(site, package, TEACHERS, "twice", f"{package}:Own")
    with pytest.raises(
        UnusableModel, match=r"2 packages offer 'twice' under consilium.teachers: one_offer, two_offers"
    ):
        resolve("twice", TEACHERS)


@pytest.mark.parametrize("name", ["collections:OrderedDict.fromkeys", "collections.OrderedDict", "math:sqrt"])
def test_ways_to_name_a_callable(name: str) -> None:
    assert callable(resolve(name, TEACHERS))


def test_the_seed_and_one_thread_reach_what_is_within_a_pipeline() -> None:
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    built = seeded(make_pipeline(BaggingClassifier(RandomForestClassifier(n_jobs=2))), 7).get_params()
    found = {key.rpartition("__")[2] + str(key.count("__")): value for key, value in built.items() if "jobs" in key}
    assert found == {"n_jobs1": 1, "n_jobs2": 2}
    assert {value for key, value in built.items() if key.endswith("random_state")} == {7}
    assert seeded(object(), 7).__class__ is object
    assert estimator_of("sklearn.svm.SVC", {"random_state": 3}, 7, TEACHERS).random_state == 3


def test_names_and_pickles_of_version_0_9_are_found() -> None:
    """A configuration, and teachers in a party's state, name modules that have moved since."""
    old = "consilium.protocol." + "own_models"
    assert resolve(f"{old}.backbones:backbone", TEACHERS).__module__ == "consilium.models.backbones"
    teacher = RidgeTeacher(0.5).fit(np.eye(4), np.array([0, 1, 0, 1]))
    content = pickle.dumps(teacher, protocol=0)  # its names are lines of text
    aged = content.replace(b"consilium.models.teachers", b"consilium.party." + b"teachers.ridge")
    assert aged != content
    assert (unpickled(aged).predict(np.eye(4)) == teacher.predict(np.eye(4))).all()


@pytest.mark.parametrize(("name", "instead"), GONE.items())
def test_a_student_that_is_gone_is_refused_with_the_way_out(name: str, instead: str) -> None:
    with pytest.raises(ValueError, match=f'{name} is gone since 0.10: write name = "{instead}"'):
        StudentSpec.model_validate({"trainer": {"name": name}})
    assert StudentSpec.model_validate({"trainer": {"name": instead}})


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

"""Names of models: what is imported, what is an entry point, and what is said where there is none.

Frozen networks from a folder: only the head learns, nothing is fetched, no pickle is read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from consilium.models.naming import STUDENTS, TEACHERS, UnusableModel, estimator_of, installed, resolve, seeded


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


def test_the_seed_and_one_thread_reach_what_is_within_a_pipeline() -> None:
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    built = seeded(make_pipeline(BaggingClassifier(RandomForestClassifier(n_jobs=2))), 7).get_params()
    found = {key.rpartition("__")[2] + str(key.count("__")): value for key, value in built.items() if "jobs" in key}
    assert found == {"n_jobs1": 1, "n_jobs2": 2}
    assert {value for key, value in built.items() if key.endswith("random_state")} == {7}
    assert seeded(object(), 7).__class__ is object
    assert estimator_of("sklearn.svm.SVC", {"random_state": 3}, 7, TEACHERS).random_state == 3

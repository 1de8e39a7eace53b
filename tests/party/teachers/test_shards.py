"""Which row is in which shard: by the row's or patient's own identity and the party's secret, and by nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.parts import Privacy
from consilium.data import private_rows as identities
from consilium.data.private_rows import FileRows
from consilium.node.limits import epsilon
from consilium.party import node
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.party.policy import Policy
from consilium.party.voting import simulated_secret, split
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.refusals import Rule
from consilium.protocol.schema import Schema
from tests.federation import HomeFile as PartyFile
from tests.federation import make_config, make_home, make_rows, node_at
from tests.marks import some
from tests.node.folders import allow, asked_of, give_rows, make_small
from tests.party.teachers.test_teachers import images
from tests.party.test_node import hello, refused, train, vote

SECRET = bytes(range(32))
FALSE_ALARMS = 1e-6


def random_identities(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size=(count, 32), dtype=np.uint8)


# The mistake that keyed shards do not make, as a control: rows divided by their position.


def by_position(y: np.ndarray, count: int) -> list[np.ndarray]:
    """Row indices of each shard: a permutation, sorted by label, strided."""
    order = np.random.default_rng(0).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    return [np.sort(order[start::count]) for start in range(count)]


@pytest.mark.parametrize("count", [1, 7, 250])
def test_shards_are_disjoint_and_cover_everything(count: int) -> None:
    parts = split(random_identities(100), count, SECRET)
    assert len(parts) == count
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))


@pytest.mark.parametrize("count", [2, 10])
@pytest.mark.parametrize("numbered", [False, True])
def test_rows_are_spread_as_by_lot(count: int, numbered: bool) -> None:
    """Chi-square over 20,000 identities, fixed secret; a sound function fails once in a million secrets."""
    ids = identities.of_patients([str(i) for i in range(20_000)]) if numbered else random_identities(20_000)
    sizes = np.array([len(part) for part in split(ids, count, SECRET)])
    statistic = ((sizes - 20_000 / count) ** 2 / (20_000 / count)).sum()
    assert chi2.ppf(FALSE_ALARMS, count - 1) < statistic < chi2.ppf(1 - FALSE_ALARMS, count - 1)


@pytest.mark.parametrize(("divide", "holds"), [("keyed", True), ("by position", False)])
def test_one_record_changes_two_shards_at_most(divide: str, holds: bool) -> None:
    """Rows of which many are equal, one of them replaced, in any order: the others hold the same rows in the same
    order. By position they do not: the control."""

    @settings(max_examples=some(200), deadline=None, derandomize=True)
    @given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(0, 9), st.integers(1, 8), st.data())
    def check(values: list[int], newcomer: int, count: int, data: st.DataObject) -> None:
        def shards(rows: list[int]) -> list[list[int]]:
            x, y = np.array(rows, dtype=np.float64)[:, None], np.array(rows) % 2
            parts = split(identities.of_rows(x, y), count, SECRET) if divide == "keyed" else by_position(y, count)
            return [[rows[at] for at in part] for part in parts]

        others = data.draw(st.permutations(values[1:]))
        for rows, most in ((others, 1), ([*others, newcomer], 2)):
            changed = sum(one != other for one, other in zip(shards(values), shards(rows), strict=True))
            assert changed <= most or count == 1

    if holds:
        check()
    else:
        with pytest.raises(AssertionError):
            check()


def test_of_many_rows_each_identity_is_that_of_the_row_alone() -> None:
    x = np.random.default_rng(0).normal(size=(2 * identities.ROWS_AT_ONCE + 1, 2))
    y = np.arange(len(x)) % 2
    alone = [identities.of_rows(x[at : at + 1], y[at : at + 1])[0] for at in range(len(x))]
    assert (identities.of_rows(x, y) == np.array(alone)).all()


def test_copies_of_a_row_are_numbered_and_rows_of_one_patient_are_in_one_shard() -> None:
    x = np.array([[1.0, 0.0], [2.0, np.nan], [1.0, -0.0], [2.0, -np.nan], [1.0, 0.0]])
    ids = [bytes(each) for each in identities.of_rows(x, np.array([0, 1, 0, 1, 1]))]  # the label is part of a row
    assert len(set(ids)) == 5
    assert ids == [bytes(each) for each in identities.of_rows(x[[2, 3, 0, 1, 4]], np.array([0, 1, 0, 1, 1]))]
    whose = identities.of_patients(["a", "b", "a"])
    assert (whose[0] == whose[2]).all() and not (whose[0] == whose[1]).all()
    assert not (identities.of_patients([""])[0] == identities.of_rows(np.zeros((1, 0)), np.zeros(1))[0]).all()


# -- a party's own path, from its file to its teachers ---------------------------------------------------------------

SCHEMA = Schema.of_images(tuple(f"p{index}" for index in range(256)), ("a", "b", "c"), "none")
TEACHERS = 4
CONFIG = make_config(rows=SCHEMA, teachers_per_party=TEACHERS, seed=1)
KINDS: dict[str, dict[str, Any]] = {
    "ridge, balanced": {"model": "ridge", "class_weight": "balanced"},
    "mlp": {"model": "mlp", "hidden": 16, "epochs": 3, "class_weight": "balanced"},
    "own: support vectors": {"model": "estimator", "factory": "sklearn.svm.SVC"},
}


def party(folder: Path, x: np.ndarray, y: np.ndarray, teacher: dict[str, Any], **more: Any) -> PartyNode:
    """A simulated party with these rows, whose name, secret and seeds are always the same."""
    folder.mkdir()
    np.savez(
        folder / "data.npz", x=x, y=y, features=np.array(SCHEMA.features), classes=np.array(SCHEMA.classes), **more
    )
    policy = {
        "allowed_classes": list(SCHEMA.classes),
        "least_rows_per_teacher": 0,
        "most_teachers": TEACHERS,
        "most_epsilon": float("inf"),
        "collection": "plaintext",
        "allow_simulation": True,
    }
    tables = {"patient": {"column": "patient"}} if "patient" in more else {}
    (folder / "party.toml").write_text(tomli_w.dumps({"name": "p", "policy": policy, "teacher": teacher, **tables}))
    return node_at(folder)


def said_by_teachers(party: PartyNode) -> list[np.ndarray]:
    """What every teacher of the party makes of the same queries, to the last bit."""
    party.hello(hello(CONFIG))
    party.train(train(CONFIG))
    teachers = party.teachers(CONFIG.digest()).teachers
    queries, _ = images(60, seed=99)
    return [teacher.predict_proba(queries) for teacher in teachers]


def changed_teachers(tmp_path: Path, teacher: dict[str, Any], changed: tuple[np.ndarray, np.ndarray]) -> set[int]:
    x, y = images(64, seed=5)
    before = said_by_teachers(party(tmp_path / "d", x, y, teacher))
    after = said_by_teachers(party(tmp_path / "d'", *changed, teacher))
    return {
        index
        for index, (one, other) in enumerate(zip(before, after, strict=True))
        if one.shape != other.shape or not (one == other).all()
    }


def neighbour(change: str) -> tuple[np.ndarray, np.ndarray, set[int]]:
    """The rows of `changed_teachers`, one of them changed, and the shards that this concerns."""
    x, y = images(64, seed=5)
    (newcomer,), _ = images(1, seed=77)
    label = (y[9] + 1) % 3
    gone, come = (x[9], y[9]), (newcomer, label)

    def shard_of(row: np.ndarray, label: int) -> int:
        ids = identities.of_rows(row[None], np.array([label]))
        return next(i for i, p in enumerate(split(ids, TEACHERS, simulated_secret(1, "p"))) if len(p))

    if change == "remove":
        return np.delete(x, 9, axis=0), np.delete(y, 9), {shard_of(*gone)}
    if change == "add":
        return np.insert(x, 9, newcomer, axis=0), np.insert(y, 9, label), {shard_of(*come)}
    x, y = x.copy(), y.copy()
    x[9], y[9] = come
    return x, y, {shard_of(*gone), shard_of(*come)}


@pytest.mark.parametrize("change", ["add", "remove", "replace"])
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_shards_of_a_changed_row_have_other_teachers(tmp_path: Path, kind: str, change: str) -> None:
    x, y, concerned = neighbour(change)
    changed = changed_teachers(tmp_path, KINDS[kind], (x, y))
    assert changed <= concerned
    if not kind.startswith("own"):  # neighbours far away may say nothing
        assert changed == concerned
    assert len(concerned) == (2 if change == "replace" else 1)


def test_before_one_row_changed_all_teachers(tmp_path: Path, monkeypatch) -> None:
    """The control: the same rows, divided by label and position as they used to be."""
    labels, read = [], FileRows.read
    monkeypatch.setattr(FileRows, "read", lambda self, schema: labels.append(rows := read(self, schema)) or rows)
    monkeypatch.setattr(node, "split", lambda identities, count, secret: by_position(labels[-1].y, count))
    x, y, _ = neighbour("add")
    assert changed_teachers(tmp_path, KINDS["ridge, balanced"], (x, y)) == set(range(TEACHERS))


def test_all_rows_of_a_patient_train_one_teacher(tmp_path: Path) -> None:
    """One patient's eight rows change; with rows divided one by one they would be in several shards: the control."""
    x, y = images(64, seed=5)
    patient = np.arange(64) // 8
    other, labels = images(8, seed=77)
    x2, y2 = x.copy(), y.copy()
    x2[16:24], y2[16:24] = other, labels
    outcomes = {}
    for name, more in {"by patient": {"patient": patient}, "by row": {}}.items():
        said = [
            said_by_teachers(party(tmp_path / f"{name} {at}", rows, truth, KINDS["ridge, balanced"], **more))
            for at, (rows, truth) in enumerate([(x, y), (x2, y2)])
        ]
        outcomes[name] = sum(not (one == two).all() for one, two in zip(*said, strict=True))
    assert outcomes["by patient"] == 1
    assert outcomes["by row"] > 2


# -- the promise to patients -----------------------------------------------------------------------------------------


def set_table(folder: Path, **tables: Any) -> PartyNode:
    kept = load(folder / "party.toml", PartyFile).model_dump(mode="json", exclude_none=True)
    (folder / "party.toml").write_text(tomli_w.dumps({**kept, **tables}))
    return node_at(folder)


PATIENTS = make_config(privacy=Privacy(unit=Unit.PATIENT, delta=1e-5))


def test_a_promise_to_patients_needs_to_know_them(tmp_path: Path) -> None:
    folder = make_home(tmp_path / "home", "p")
    assert refused(node_at(folder).hello, hello(PATIENTS)) is Rule.UNIT
    assert set_table(folder, patient={"rows_are_patients": True}).hello(hello(PATIENTS)).party == "p"
    set_table(folder, patient={"rows_are_patients": True}).train(train(PATIENTS))
    # the table is taken away after the party enrolled and trained
    without = set_table(folder, patient={})
    assert refused(without.train, train(PATIENTS)) is Rule.UNIT
    x, _ = make_rows(5, 3)
    assert refused(without.vote, vote(x, PATIENTS)) is Rule.UNIT


@pytest.mark.parametrize("patient", [{}, {"rows_are_patients": True}])
def test_a_party_that_protects_patients_knows_which_rows_are_of_one(tmp_path: Path, patient: dict[str, bool]) -> None:
    folder = make_small(tmp_path).nodes["p00"]
    give_rows(folder, patient=patient)
    allow(folder, **{**asked_of(folder), "unit": "patient"})
    if patient:
        assert open_home(folder).settings().rules.patient.known
        return
    with pytest.raises(ConfigError, match="does not say which rows are of one"):
        open_home(folder).settings()


def test_the_party_counts_in_its_own_unit_and_relation() -> None:
    """A coordinator that says "add or remove" pays half as much in its own books; not in those of a party."""
    stated = Privacy(unit=Unit.RECORD, neighbouring=Neighbouring.ADD_OR_REMOVE, delta=1e-5)
    stated, replaced = (
        make_config(teachers_per_party=4, privacy=privacy).promise()
        for privacy in (stated, Privacy(unit=Unit.RECORD, delta=1e-5))
    )
    strict = Policy(allowed_classes=("a", "b"), unit=Unit.RECORD)
    agreed = Policy(allowed_classes=("a", "b"), unit=Unit.RECORD, neighbouring=Neighbouring.ADD_OR_REMOVE)
    assert epsilon([stated], strict) == epsilon([replaced], strict) > epsilon([stated], agreed)

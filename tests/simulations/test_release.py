"""A federation replayed on recorded votes is the run itself: the same labels, the same student, the same epsilons.
Sums of recorded votes are the sums of the votes. And whatever is released comes from the one label service."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import consilium.simulations.vote as module
from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.mechanisms import MECHANISMS
from consilium.party.voting import Lot, draw_lots
from consilium.protocol.errors import LedgerError
from consilium.protocol.label_source import NO_LABEL, Answers, Outcome
from consilium.protocol.noise import SeededNoise
from consilium.simulations.attack.attacks import AttackedRun
from consilium.simulations.divide import Case, make_case
from consilium.simulations.judge import judged
from consilium.simulations.methods.base import Predicted
from consilium.simulations.methods.teachers import plurality_shares
from consilium.simulations.papers.measure import released
from consilium.simulations.release import Replayed, load_own, replay
from consilium.simulations.run import run_scenario
from consilium.simulations.study.spec import method_of
from consilium.simulations.vote import Ensemble, TeacherVotes
from consilium.student.run import judged as student_judged
from tests.rooms import ROOMS, ROOT
from tests.simulations.methods.cases import SEED, few, run_alone, taught

CONFIDENT = "federation.mechanism={name='confident', threshold=10, sigma1=20.0, sigma2=8.0}"
CASES = {
    "gnmax": ("federation.mechanism={name='gnmax', sigma=8.0}",),
    "gnmax, relative votes": ("federation.mechanism={name='gnmax', sigma=8.0}", "federation.voting_rule.rule=relative"),
    "confident": (CONFIDENT, "federation.query_budget.answers=30"),
    "confident, cut in the third batch": (CONFIDENT, "federation.query_budget.answers=11", "student.batch=9"),
    "confident, in batches": (CONFIDENT, "federation.query_budget.answers=30", "student.batch=7"),
    "confident, relative votes, several teachers": (
        CONFIDENT, "federation.voting_rule.rule=relative", "federation.teachers_per_party=2",
        "federation.query_budget.answers=30", "federation.privacy.unit=record", "federation.minimum_parties=6",
    ),
    "confident, sanitised": (
        "federation.mechanism={name='confident', threshold=10, sigma1=60.0, sigma2=40.0}",
        "federation.privacy.sanitised={order=8.0, beta=0.05, sigma_ss=10.0}",
    ),
    "difference": (
        "federation.mechanism={name='difference', sigma=8.0}", "federation.privacy.neighbouring=add_or_remove",
    ),
    "gnmax, public labels": ("federation.mechanism={name='gnmax', sigma=8.0}", "student.public_labels=40"),
    "histogram": ("federation.mechanism={name='histogram', sigma=20.0}", "student.prevalence=[0.37, 0.63]"),
    "histogram, relative votes": (
        "federation.mechanism={name='histogram', sigma=20.0}", "federation.voting_rule.rule=relative",
        "federation.voting_rule.shares=[0.37, 0.63]",
    ),
    "interactive": (
        "federation.mechanism={name='interactive', threshold=6, sigma1=20.0, sigma2=8.0, confidence=0.7}",
        "student.rounds=3", "student.selection=margin", "federation.query_budget.answers=40",
    ),
    "lnmax": ("federation.mechanism={name='lnmax', gamma=0.1}",),
    "lnmax, sanitised": (
        "federation.mechanism={name='lnmax', gamma=0.02}",
        "federation.privacy.sanitised={order=8.0, beta=0.03, sigma_ss=10.0}",
    ),
    "immutable": ("federation.mechanism={name='immutable', gamma=0.1, constant=20, unsafe_not_private=true}",),
    "immutable, Gaussian": (
        "federation.mechanism={name='immutable_gaussian', sigma=8.0, constant=20, unsafe_not_private=true}",
    ),
}  # fmt: skip


def asked(found: Replayed) -> list[tuple[int, str, int]]:
    names = [Outcome(outcome).name.lower() for outcome in found.outcomes]
    return list(zip(found.rows.tolist(), names, found.labels.tolist(), strict=True))


def written(folder: Path, case: Case) -> list[tuple[int, str, int]]:
    table = pl.read_parquet(folder / "labels.parquet")
    index = {**{name: at for at, name in enumerate(case.classes)}, None: NO_LABEL}
    return [(row, outcome, index[label]) for row, outcome, label in table.select("row", "outcome", "label").iter_rows()]


def check_is_the_run(found: Replayed, case: Case, folder: Path) -> None:
    assert asked(found) == written(folder, case)
    told = json.loads((folder / "coordinator.json").read_text())["privacy"]
    assert found.promised.to_json() == told["guarantee"]
    assert {name: guarantee.to_json() for name, guarantee in found.spent.items()} == {
        name: told[name] for name in ("spent", "data_dependent")
    }
    assert (found.sanitised or {}).get("guarantee") == told.get("sanitised")
    student = json.loads((folder / "student" / "student.json").read_text())
    metrics = student_judged(found.student, found.pool, found.pool.queries)[0]
    assert metrics is not None and json.loads(json.dumps(metrics)) == student["metrics"]
    np.testing.assert_array_equal(
        found.student.predict_proba(case.test_x), load_own(folder).predict_proba(case.test_x), strict=True
    )


@pytest.mark.parametrize(
    "changes", [pytest.param(CASES[name], id=name, marks=pytest.mark.nightly if "," in name else []) for name in CASES]
)
def test_the_replay_is_the_run(changes: tuple[str, ...], tmp_path: Path) -> None:
    teachers = [
        change for change in changes if change.startswith(("federation.voting_rule", "federation.teachers_per"))
    ]
    case = make_case(few(*changes), SEED, 0.0)
    run_alone(case, tmp_path)
    found = replay(case, taught(0.0, *teachers)[1].pool)
    check_is_the_run(found, case, tmp_path)
    outcomes = set(found.outcomes.tolist())
    assert Outcome.ANSWERED in outcomes
    if case.config.query_budget.answers < 60:  # both ways to be cut short are in the table
        assert outcomes & {Outcome.ABSTAINED, Outcome.NOT_ASKED, Outcome.REINFORCED}


def test_public_labels_are_none_of_those_that_judge() -> None:
    """The same division, queries and released answers, and another student."""
    plain, known = (make_case(few(CASES["gnmax"][0], *more), SEED, 0.0) for more in ((), ("student.public_labels=40",)))
    assert plain.known_labels is None and known.known_labels is not None
    chosen = np.flatnonzero(known.known_labels != NO_LABEL)
    assert len(chosen) == 40 and (known.known_labels[chosen] == known.pool_y[chosen]).all()
    assert not set(known.partition.queries[chosen]) & set(known.partition.test)
    every = make_case(few(CASES["gnmax"][0], "student.public_labels=all"), SEED, 0.0)
    np.testing.assert_array_equal(every.known_labels, every.pool_y)
    votes = taught(0.0)[1].pool
    first, second = replay(plain, votes), replay(known, votes)
    assert asked(first) == asked(second) and first.promised == second.promised
    assert first.student.adapted is None and second.student.adapted is not None
    assert plain.config.digest() == known.config.digest()


def test_every_mechanism_is_in_the_table() -> None:
    assert {few(*changes).federation.mechanism.name for changes in CASES.values()} == set(MECHANISMS)


def test_the_figures_are_those_that_a_whole_run_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # one worker process: starting one takes longer than its work
    changes = (CONFIDENT, "federation.query_budget.answers=30", "federation.voting_rule.rule=relative")
    case = make_case(few(*changes), SEED, 0.0)
    summary = run_scenario("few", few(*changes), "local", SEED, tmp_path / "run", device="cpu")
    _, ensemble = taught(0.0, "federation.voting_rule.rule=relative")
    check_is_the_run(replay(case, ensemble.pool), case, tmp_path / "run")
    found: Predicted = method_of("pate").predict(case, ensemble)
    privacy = summary["privacy"]
    expected = {
        **summary["queries"],
        "parties": summary["parties"],
        "teachers": summary["teachers"],
        "epsilon": privacy["epsilon_student"],
        "epsilon_spent": privacy["epsilon_spent"],
        "epsilon_data_dependent": privacy["epsilon_data_dependent"],
        "delta": privacy["delta"],
        "labels_right": privacy["released_label_accuracy"],
    }
    assert {name: found.figures[name] for name in expected} == expected
    rivals = {name: values_of(name, case, ensemble) for name in ("noisy_average", "pooled")}
    shares = plurality_shares(case, ensemble.test, case.test_x, case.config.digest())
    rivals["plurality"] = {row.metric: row.value for row in judged("plurality", case, Predicted(test=shares))}
    alone = values_of("local", case, ensemble)
    told = summary["baselines"]["mean_teacher"]
    assert [alone[name] for name in ("accuracy", "auc")] == pytest.approx([told["accuracy"], told["auc"]], abs=1e-6)
    for name, metrics in rivals.items():
        told = summary["baselines"][name]
        assert metrics["accuracy"] == pytest.approx(told["accuracy"], abs=2e-4)  # draws are, too
        assert metrics["auc"] == pytest.approx(told["auc"], abs=1e-6)


def values_of(method: str, case: Case, ensemble: Ensemble) -> dict[str, float]:
    rows = judged(method, case, method_of(method).predict(case, ensemble))
    return {row.metric: row.value for row in rows if row.scope == "run"}


def test_noise_is_seeded_whatever_the_scenario_says() -> None:
    _, ensemble = taught(0.0)
    cases = [
        make_case(few(CONFIDENT, f"simulation.noise={noise}"), SEED, 0.0) for noise in ("seeded", "system", "system")
    ]
    first, second, third = (asked(replay(case, ensemble.pool)) for case in cases)
    assert first == second == third


def test_rows_with_equal_values_are_one_query() -> None:
    _, ensemble = taught(0.0)
    twice = np.tile(np.arange(20), 2)
    changed = make_case(few("federation.mechanism={name='gnmax', sigma=8.0}"), SEED, 0.0)
    pool = replace(changed.partition, queries=changed.partition.queries[twice])
    found = replay(replace(changed, partition=pool), TeacherVotes(ensemble.pool.cast[:, :, twice]))
    assert sorted(row % 20 for row in found.rows.tolist()) == list(range(20))
    assert found.spent["spent"].epsilon < found.promised.epsilon  # half of what was asked cost nothing


PARTIES, TEACHERS, ROWS, CLASSES = 7, 2, 30, 5
NAMES = tuple(f"party-{number}" for number in range(PARTIES))


def some_said(ties: int) -> TeacherVotes:
    """Votes by lot; the first teachers of the first `ties` parties were torn between two classes on row 3."""
    generator = np.random.default_rng(0)
    said = generator.integers(0, CLASSES, (PARTIES, TEACHERS, ROWS)).astype(np.uint8)
    tied = np.zeros((ties, CLASSES), dtype=bool)
    tied[:, :2] = True
    party, teacher = np.arange(ties, dtype=np.int32), np.zeros(ties, dtype=np.int32)
    return TeacherVotes(said, party, teacher, np.full(ties, 3, dtype=np.int32), tied)


@pytest.mark.parametrize("at_once", [1, 50, 10**6], ids=["row by row", "three rows", "all"])
@pytest.mark.parametrize("ties", [0, 6])
@pytest.mark.parametrize("rows", [[3], [5, 3, 29, 0], list(range(ROWS))], ids=["one", "some", "all rows"])
def test_totals_are_the_sum_of_the_votes(
    at_once: int, ties: int, rows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = some_said(ties)
    asked = np.array(rows), NAMES, "federation", [f"query-{row}" for row in rows], CLASSES
    cast, lots = said.cast[:, :, asked[0]], [Lot(name, *asked[2:4]) for name in NAMES]
    torn = said.tied_party, said.tied_teacher, np.full(ties, rows.index(3))
    cast[torn] = draw_lots(lots, *torn, said.tied)
    expected = (cast[..., None] == np.arange(CLASSES)).sum(axis=(0, 1))
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    for _ in range(2):  # lots are drawn into a copy
        found = said.totals(*asked)
        np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.int64


def test_what_a_party_has_by_itself_is_one_model_of_all_its_rows() -> None:
    """Not the mean of its teachers on shards, each of a few rows, beside which any student would look good."""
    four = "federation.teachers_per_party=4", "federation.privacy.unit=record"
    of_one, of_four = taught(0.0)[1], taught(0.0, *four)[1]
    np.testing.assert_allclose(of_four.test_scores, of_one.test_scores, atol=1e-6)
    np.testing.assert_allclose(of_four.test_right, of_one.test_right)
    assert not np.array_equal(of_four.pool.cast[:, 0], of_one.pool.cast[:, 0])


MECHANISM = "federation.mechanism={name='gnmax', sigma=8.0}"


def run(folder: Path) -> None:
    changes = (MECHANISM, "simulation.manual_labels=none")
    run_scenario("few", few(*changes), "local", SEED, folder / "run", device="cpu")


def cell(folder: Path) -> None:
    method_of("pate").predict(make_case(few(MECHANISM), SEED, 0.0), taught(0.0)[1])


def paper(folder: Path) -> None:
    released(GNMax(sigma=1.0), np.array([[9, 1], [2, 8]]), SeededNoise(0))


def attack(folder: Path) -> None:
    AttackedRun(make_case(few(MECHANISM), SEED, 0.0))


@pytest.mark.parametrize("release", [run, cell, paper, attack], ids=lambda each: each.__name__)
def test_each_release_is_an_answer_of_the_one_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: Callable[[Path], None]
) -> None:
    """The control: one that answers without any noise is enough for all of them."""
    asked: list[int] = []

    def refuse(service: LabelService, queries: np.ndarray, *_: Any, **__: Any) -> Answers:
        asked.append(len(queries))
        raise LedgerError("this service gives nothing")

    def answer(service: LabelService, queries: np.ndarray, *_: Any, **__: Any) -> Answers:
        asked.append(len(queries))
        return Answers(np.full(len(queries), Outcome.ANSWERED), np.arange(len(queries)) % 2)

    monkeypatch.setattr(LabelService, "ask", refuse)
    with pytest.raises(LedgerError):
        release(tmp_path)
    assert len(asked) == 1
    if release is not run:  # which reads the ledger afterwards
        monkeypatch.setattr(LabelService, "ask", answer)
        release(tmp_path)
        assert len(asked) > 1


def test_only_the_service_and_the_game_that_audits_it_draw() -> None:
    imports = re.compile(r"^from consilium\.coordinator\.draw import .*\bdraw\b", re.MULTILINE)
    sources = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    drawing = {str(path.relative_to(ROOT)) for path in sources if imports.search(path.read_text(encoding="utf-8"))}
    assert drawing == {"coordinator/label_service.py", "coordinator/distinguish.py"}

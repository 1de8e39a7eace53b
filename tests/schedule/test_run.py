"""Runs of two phases: query budget of each, a crash between them, and what an audit finds."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.coordinator.collection.clear import Histogram
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Batch, Ledger
from consilium.coordinator.mechanisms import GNMax
from consilium.coordinator.privacy import by_phase, epsilon_by_query, promised, spent
from consilium.coordinator.stages import Phase
from consilium.coordinator.verify import find_run, verify_run, verify_student
from consilium.protocol.errors import BudgetExceeded, ConfigError
from consilium.protocol.label_source import Outcome
from consilium.protocol.noise import SeededNoise
from consilium.student.ask import AskingPlan
from consilium.student.config import StudentSpec
from tests.coordinator.verify.runs import rechain
from tests.federation import make_rows
from tests.schedule.small import LINEAR, STUDENT, Broken, findings, run, scheduled

T = 8


class Votes:
    """A collector that gives each query a fixed histogram of T votes."""

    def settle(self) -> None:
        pass

    def __call__(self, queries, query_set, progress, phase=1) -> Histogram:
        ones = (np.abs(queries[:, 0]) * 7).astype(np.int64) % (T + 1)
        return Histogram(np.column_stack([T - ones, ones]), tuple(f"p{i}" for i in range(T)), T)


@pytest.fixture
def two(tmp_path: Path, log):
    """The services of both phases on one ledger, which answer everything, with query budgets of 10 and 6; and the
    ledger."""
    every = GNMax(sigma=1.0)
    later = Phase(mechanism=every, query_budget=QueryBudget(queries=6, answers=6))
    config = scheduled(mechanism=every, query_budget=QueryBudget(queries=10, answers=10), schedule=(later,))
    ledger = Ledger(tmp_path / "ledger.db", config.digest(), config.model_dump_json())
    services = [LabelService(config, ledger, SeededNoise, Votes(), T, log, phase=phase) for phase in (1, 2)]
    yield *services, ledger
    ledger.close()


class TestServices:
    def test_each_phase_has_its_own_caps(self, two) -> None:
        first, second, ledger = two
        rows = make_rows(40, 3)[0]
        first.ask(rows[:10])
        with pytest.raises(BudgetExceeded, match="0 queries and 0 answers are left of 10 and 10"):
            first.ask(rows[10:11])
        assert (second.describe().queries_left, second.describe().answers_left) == (6, 6)
        second.ask(rows[10:16])
        with pytest.raises(BudgetExceeded, match="0 queries and 0 answers are left of 6 and 6"):
            second.ask(rows[16:17])
        assert [ledger.spent(phase) for phase in (None, 1, 2)] == [(16, 16), (10, 10), (6, 6)]

    def test_a_query_is_released_once_in_whatever_phase(self, two) -> None:
        first, second, ledger = two
        rows = make_rows(40, 3)[0]
        labels = first.ask(rows[:10]).labels
        second.ask(rows[10:12])
        assert (second.ask(rows[:10]).labels == labels).all()
        assert (first.ask(rows[:12]).labels == second.ask(rows[:12]).labels).all()
        assert ledger.spent() == (12, 12)

    def test_a_phase_is_over_when_the_next_has_begun(self, two) -> None:
        first, second, ledger = two
        rows = make_rows(40, 3)[0]
        first.ask(rows[:2])
        second.ask(rows[2:4])
        assert (first.describe().queries_left, first.describe().answers_left) == (0, 0)
        with pytest.raises(BudgetExceeded, match="stage 1, which is over: stage 2 has begun"):
            first.ask(rows[4:5])
        late = Batch({}, T, ("ab",), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=bool), phase=1)
        with pytest.raises(BudgetExceeded, match="stage 1 is over"):
            ledger.commit(late, 10, 10)
        assert ledger.spent() == (4, 4)

    def test_all_phases_state_the_epsilon_of_the_whole(self, two) -> None:
        first, second, _ = two
        assert first.describe().epsilon == second.describe().epsilon
        assert first.describe().mechanism == second.describe().mechanism


@pytest.fixture(scope="module")
def closed(tmp_path_factory) -> Path:
    """A run that went through."""
    return run(tmp_path_factory.mktemp("closed"), scheduled())


def batches_of(out: Path) -> list[Batch]:
    config = scheduled()
    ledger = Ledger(out / "ledger.db", config.digest(), "", read_only=True)
    try:
        return ledger.batches()
    finally:
        ledger.close()


class TestRun:
    def test_both_phases_were_asked_within_their_caps_and_charged_their_own_events(self, closed: Path) -> None:
        config, batches = scheduled(), batches_of(closed)
        phases = [batch.phase for batch in batches]
        assert sorted(set(phases)) == [1, 2]
        assert phases == sorted(phases)  # pyright: ignore[reportArgumentType]
        for batch in batches:
            event = config.event(len(batch.query_ids), int(batch.answered.sum()), batch.phase)
            assert batch.event == event.to_json()
        for number, phase in enumerate(config.phases, 1):
            mine = [batch for batch in batches if batch.phase == number]
            assert sum(len(batch.query_ids) for batch in mine) <= phase.query_budget.queries
            assert sum(int(batch.answered.sum()) for batch in mine) <= phase.query_budget.answers
        assert any(batch.reinforced.any() for batch in batches if batch.phase == 2)
        assert not any(batch.reinforced.any() for batch in batches if batch.phase == 1)

    def test_the_second_student_begins_with_the_labels_of_the_first(self, closed: Path) -> None:
        """Its predictions go with the very first request of phase 2."""
        first, second = (next(b for b in batches_of(closed) if b.phase == phase) for phase in (1, 2))
        assert not first.probabilities.any()  # pyright: ignore[reportOptionalMemberAccess]
        assert np.allclose(second.probabilities.sum(axis=1), 1)  # pyright: ignore[reportOptionalMemberAccess]

    def test_no_row_is_chosen_in_both(self, closed: Path) -> None:
        federation = scheduled().digest()
        first, second = (
            AskingPlan(closed / "student" / name, federation, 0).chosen for name in ("plan.json", "plan-2.json")
        )
        assert (len(first), len(second)) == (20, 30)
        assert not set(first.tolist()) & set(second.tolist())

    def test_spent_is_below_what_was_promised_and_grows_with_every_query(self, closed: Path) -> None:
        config, batches = scheduled(), batches_of(closed)
        known = spent(config, batches)
        assert 0 < known["data_dependent"].epsilon <= known["spent"].epsilon <= promised(config).epsilon
        curve = epsilon_by_query(config, batches)["spent"]
        assert len(curve) == sum(len(batch.query_ids) for batch in batches)
        assert (np.diff(curve) >= -1e-9).all()
        assert curve[-1] == pytest.approx(known["spent"].epsilon, rel=1e-9)

    def test_the_coordinator_tells_of_each_phase(self, closed: Path) -> None:
        config = scheduled()
        told = json.loads((closed / "coordinator.json").read_text())
        assert told["stages"] == by_phase(config, batches_of(closed))["stages"]
        assert sum(phase["asked"] for phase in told["stages"]) == told["asked"]
        assert [phase["most_queries"] for phase in told["stages"]] == [20, 30]
        assert told["privacy"]["guarantee"]["epsilon"] == promised(config).epsilon

    def test_students_of_other_numbers_than_phases_are_refused_before_anything_is_asked(self, tmp_path: Path) -> None:
        spec = StudentSpec(later=(StudentSpec(), StudentSpec()))
        with pytest.raises(ConfigError, match=r"student\.later has 2 students, the federation 1 stages"):
            run(tmp_path, scheduled(), spec=spec)
        assert batches_of(tmp_path / "run") == []

    def test_one_student_for_all_phases_and_a_pool_that_ends_in_the_second(self, tmp_path: Path) -> None:
        out = run(tmp_path, scheduled(), spec=StudentSpec(trainer=LINEAR), rows=25)
        told = json.loads((out / "coordinator.json").read_text())
        assert [phase["asked"] <= most for phase, most in zip(told["stages"], (20, 5), strict=True)] == [True, True]
        assert findings(out) == {}


class TestCrash:
    @pytest.mark.parametrize(
        ("dies_in", "dies_after"), [(1, 1), (2, 0), (2, 2)], ids=["in the first", "between", "in the second"]
    )
    def test_a_run_that_goes_on_is_the_run_that_went_through(
        self, closed: Path, tmp_path: Path, dies_in: int, dies_after: int
    ) -> None:
        with pytest.raises(Broken):
            run(tmp_path, scheduled(), dies_in=dies_in, dies_after=dies_after)
        out = run(tmp_path, scheduled())
        assert pl.read_parquet(out / "labels.parquet").equals(pl.read_parquet(closed / "labels.parquet"))
        same = ("query_ids", "event", "phase")
        for one, other in zip(batches_of(out), batches_of(closed), strict=True):
            assert [getattr(one, name) for name in same] == [getattr(other, name) for name in same]
        assert findings(out) == {}


def forged(*statements: str) -> Callable[[Path], None]:
    """Changes the ledger and computes all its hashes anew."""

    def apply(out: Path) -> None:
        with sqlite3.connect(out / "ledger.db") as ledger:
            for statement in statements:
                ledger.execute(statement)
        rechain(out / "ledger.db")

    return apply


def told(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Changes coordinator.json."""

    def apply(out: Path) -> None:
        content = json.loads((out / "coordinator.json").read_text())
        change(content)
        (out / "coordinator.json").write_text(json.dumps(content))

    return apply


def silently(out: Path) -> None:
    with sqlite3.connect(out / "ledger.db") as ledger:
        ledger.execute("UPDATE phases SET phase = 1")


def other_plan(out: Path) -> None:
    path = out / "student" / "plan-2.json"
    content = json.loads(path.read_text())
    content["rounds"][0] = content["rounds"][0][::-1]
    path.write_text(json.dumps(content))


STRUCTURE = "ledger.db: structure, hash chain and counts"


class TestAudit:
    def test_a_run_that_is_what_it_says(self, closed: Path) -> None:
        assert findings(closed) == {}

    @pytest.mark.parametrize(
        ("forge", "check", "says"),
        [
            (silently, STRUCTURE, "the hash chain is broken"),
            (
                forged("UPDATE phases SET phase = 1"),
                "ledger.db: query budget never passed",
                "in stage 1, the cap is 20",
            ),
            (
                forged("UPDATE phases SET phase = 1 WHERE seq = (SELECT MIN(seq) FROM phases WHERE phase = 2)"),
                "ledger.db: events of the configured mechanism",
                "the event differs in",
            ),
            (forged("UPDATE phases SET phase = 3 - phase"), STRUCTURE, "stage 1, which was over"),
            (forged("UPDATE phases SET phase = 3 WHERE phase = 2"), STRUCTURE, "no stage of the schedule (1 to 2)"),
            (forged("UPDATE phases SET phase = 0 WHERE seq = 1"), STRUCTURE, "no stage of the schedule (1 to 2)"),
            (forged("DELETE FROM phases WHERE seq = 1"), STRUCTURE, "the stage of a batch is missing"),
            (forged("DROP TABLE phases"), STRUCTURE, "the stage of a batch is missing"),
            (forged("INSERT INTO phases VALUES (99, 2)"), STRUCTURE, "the stage of a batch is missing"),
            (told(lambda it: it.pop("stages")), "coordinator.json: counts and parties", "stages"),
            (told(lambda it: it["stages"][1].update(epsilon=0.1)), "coordinator.json: counts and parties", "stages"),
            (told(lambda it: it["privacy"]["guarantee"].update(epsilon=0.1)), "coordinator.json: epsilon", "epsilon"),
            (other_plan, "student/plan.json: what was asked", "not those that it chose"),
        ],
    )
    def test_a_forged_phase_is_found(
        self, closed: Path, tmp_path: Path, forge: Callable[[Path], None], check: str, says: str
    ) -> None:
        out = tmp_path / "run"
        shutil.copytree(closed, out)
        forge(out)
        found = findings(out)
        assert check in found
        assert says in found[check]

    def test_phases_without_a_schedule_are_none(self, tmp_path: Path) -> None:
        from tests.federation import make_config

        out = run(tmp_path, make_config(), spec=STUDENT.model_copy(update={"later": ()}))
        assert findings(out) == {}
        forged("CREATE TABLE phases (seq INTEGER PRIMARY KEY REFERENCES batches, phase INTEGER NOT NULL)")(out)
        assert findings(out) == {}  # an empty one says nothing
        forged("INSERT INTO phases VALUES (1, 1)")(out)
        assert "no schedule" in findings(out)[STRUCTURE]


def test_outcomes_that_a_phase_cut_are_told(tmp_path: Path) -> None:
    """Where the answers of a phase end, the rest of its request is not asked, and the next phase goes on."""
    config = scheduled(query_budget=QueryBudget(queries=20, answers=3))
    out = run(tmp_path, config)
    outcomes = pl.read_parquet(out / "labels.parquet")["outcome"].to_list()
    assert outcomes.count(Outcome.NOT_ASKED.name.lower()) > 0
    assert {phase["asked"] > 0 for phase in json.loads((out / "coordinator.json").read_text())["stages"]} == {True}
    found = verify_run(find_run(out))
    assert found.recorded is not None
    all_ = [*found.findings, *verify_student(out, found.recorded, found.guarantees["student"]).findings]
    assert [finding for finding in all_ if not finding.holds] == []

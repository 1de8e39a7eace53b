"""A federation that is replayed in memory ends as one whose ledger, events and student are files: nothing differs."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from consilium.coordinator.conclusion import normal_for
from consilium.coordinator.events import EventLog
from consilium.coordinator.label_service import LabelService, noise_for
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import close, promised_to_student, spent
from consilium.simulations.divide import Case, make_case
from consilium.simulations.release import RecordedVotes, Replayed, load_own, replay
from consilium.simulations.vote import TeacherVotes
from consilium.student.pool import Pool
from consilium.student.run import run_student
from tests.coordinator.ledger.test_memory_ledger import plain
from tests.simulations.methods.cases import few, taught
from tests.simulations.test_release import CASES, asked, written

CUT = {
    "cut at the answers": ("federation.query_budget={queries=60, answers=11}",),
    "cut in the third batch": ("federation.query_budget={queries=60, answers=11}", "student.batch=9"),
    "asked in rounds": ("federation.query_budget={queries=40, answers=11}", "student.rounds=4"),
}


def check_is_as_on_files(replayed: Replayed, case: Case, votes: TeacherVotes, folder: Path) -> None:
    """Against the same service on a real ledger, with a student that writes everything down."""
    config = case.config.model_copy(update={"noise_seed": case.seed})
    most = len(case.parties) * config.teachers_per_party
    log, ledger = EventLog(folder / "events.jsonl"), Ledger(folder / "ledger.db", config.digest(), "{}")
    with closing(log), closing(ledger):
        collector, parties = RecordedVotes(case, votes), len(case.parties)
        service = LabelService(config, ledger, noise_for(config), collector, parties, log, most_votes=most)
        pool = Pool(case.dataset.features, case.pool_x, case.test_x, case.test_y, case.known_labels)
        result = run_student(service, pool, case.scenario.student, folder, case.seed)
        sanitised = close(config, ledger, normal_for(config), log)
        batches = ledger.batches()
    assert [plain(batch) for batch in replayed.batches] == [plain(batch) for batch in batches]
    assert asked(replayed) == written(folder, case)
    assert (replayed.promised, replayed.to_student) == (service.promised, promised_to_student(config))
    assert replayed.spent == spent(config, batches, closed=sanitised is not None)
    assert replayed.sanitised == sanitised
    assert json.dumps(replayed.metrics) == json.dumps(result.metrics)
    assert replayed.student.sha256 == load_own(folder).sha256
    counts = pl.read_parquet(folder / "labels.parquet")["counts"].drop_nulls().to_list()
    assert counts == [row.tolist() for batch in replayed.batches if batch.counts is not None for row in batch.counts]


@pytest.mark.parametrize("changes", [*CASES.values(), *((*CASES["confident"], *cut) for cut in CUT.values())],
                         ids=[*CASES, *CUT])  # fmt: skip
def test_a_replay_in_memory_is_one_on_files(changes: tuple[str, ...], tmp_path: Path) -> None:
    teachers = [
        change for change in changes if change.startswith(("federation.voting_rule", "federation.teachers_per"))
    ]
    case, votes = make_case(few(*changes), 3, 0.0), taught(0.0, *teachers)[1].pool
    check_is_as_on_files(replay(case, votes), case, votes, tmp_path)

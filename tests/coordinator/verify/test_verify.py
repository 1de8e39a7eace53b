"""A deployed run against its ledger: a sound one holds, a lie is found, and a crash looks like a crash."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.ledger import NO_LABEL, Batch
from consilium.coordinator.verify import Recorded, Verdict, holds, verify_run
from consilium.coordinator.verify.ledger import Contradiction, check_query_budget
from consilium.protocol.errors import DataError, PathError
from consilium.protocol.files import held
from tests.coordinator.verify.runs import (
    SANITISED,
    Tamper,
    edit,
    findings,
    hot_journal,
    node_run,
    rechained,
    run_of,
    sql,
    wrong,
)
from tests.federation import make_config

LEDGER = "ledger.db: structure, hash chain and counts"
CHARGES = "ledger.db: events of the configured mechanism"
CLAIMS = "coordinator.json: counts and epsilon"
LOG, LINES = "events.jsonl: what was released", "events.jsonl: every line"
LABELS, CARD = "labels.parquet: those of the ledger", "student/student.json: federation and epsilon"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return node_run(tmp_path_factory.mktemp("verify"))


@pytest.fixture(scope="module")
def sanitised(tmp_path_factory) -> Path:
    """A run that released a sanitised epsilon, so that its ledger keeps histograms."""
    privacy = {"unit": "record", "neighbouring": "add_or_remove", "delta": 1e-5, "sanitised": SANITISED}
    mechanism = {"name": "confident", "threshold": 7, "sigma1": 12.0, "sigma2": 8.0}
    return node_run(tmp_path_factory.mktemp("verify"), privacy=privacy, mechanism=mechanism)


@pytest.fixture
def copied(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_sound_run_holds_and_is_not_changed(sound: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in sound.rglob("*")}
    found = findings(sound)
    assert wrong(found) == []
    assert {finding.verdict for finding in found} == {Verdict.HOLDS, Verdict.ABSENT}
    assert {path: path.stat().st_mtime_ns for path in sound.rglob("*")} == before


def test_a_run_with_a_sanitised_epsilon_holds(sanitised: Path) -> None:
    found = {finding.check: finding.verdict for finding in findings(sanitised)}
    assert found["ledger.db: sanitised epsilon released once and as planned"] is Verdict.HOLDS
    assert Verdict.FAILS not in found.values()


def twice(folder: Path) -> None:
    """The true epsilon after a false one: JSON readers differ on which one counts."""
    path = run_of(folder) / "coordinator.json"
    path.write_text(path.read_text().replace('"guarantee": {', '"guarantee": {"epsilon": 0.01,', 1))


def view(folder: Path) -> None:
    """A table that shows other rows than it has."""
    sql("ALTER TABLE closing RENAME TO shut", "CREATE VIEW closing AS SELECT * FROM shut WHERE 0")(folder)


STRAY = f"INSERT INTO releases VALUES ('{'a' * 64}', 99, 0, 1, 0, NULL, NULL, NULL)"
FIRST = "WHERE query_id = (SELECT MIN(query_id) FROM releases WHERE outcome = 1)"
LIES: dict[str, tuple[Tamper, str]] = {
    # the ledger, without care
    "a label in the ledger": (sql("UPDATE releases SET label = 1 - label WHERE outcome = 1"), LEDGER),
    "a batch removed": (sql("DELETE FROM batches WHERE seq = 2"), LEDGER),
    "the configuration": (sql("UPDATE meta SET value = replace(value, '\"sigma2\":3.0', '\"sigma2\":80.0')"), LEDGER),
    "no configuration": (sql("UPDATE meta SET value = '{}' WHERE key = 'config'"), LEDGER),
    "a label without a charge": (sql(STRAY), LEDGER),
    "a view for a table": (view, LEDGER),
    # the ledger, with all hashes computed anew
    "another sigma, rechained": (
        rechained("UPDATE batches SET event = replace(event, '\"sigma2\":3.0', '\"sigma2\":150.0')"), CHARGES,
    ),
    "abstentions with labels, rechained": (rechained(f"UPDATE releases SET outcome = 2 {FIRST}"), LEDGER),
    "a label beyond the classes, rechained": (rechained(f"UPDATE releases SET label = 7 {FIRST}"), LEDGER),
    "too few parties, rechained": (rechained("UPDATE batches SET parties = 1 WHERE seq = 1"), LEDGER),
    "labels, rechained: only the student's copy tells": (
        rechained("UPDATE releases SET label = 1 - label WHERE outcome = 1"), LABELS,
    ),
    # what is said about it
    "spent epsilon, slightly": (
        edit("coordinator.json", lambda c: c["privacy"]["spent"].update(
            epsilon=c["privacy"]["spent"]["epsilon"] * (1 - 1e-7))),
        CLAIMS,
    ),
    "the same epsilon of another unit": (
        edit("coordinator.json", lambda c: c["privacy"]["guarantee"].update(relation="a whole party")), CLAIMS,
    ),
    "no epsilon": (edit("coordinator.json", lambda c: c["privacy"].update(spent=[3])), CLAIMS),
    "epsilon in two ways": (twice, CLAIMS),
    "a guarantee left out": (edit("coordinator.json", lambda c: c["privacy"].pop("spent")), CLAIMS),
    "a sanitised epsilon that was never released": (
        edit("coordinator.json", lambda c: c["privacy"].update(sanitised=c["privacy"]["spent"])), CLAIMS,
    ),
    "fewer queries": (edit("coordinator.json", lambda c: c.update(asked=c["asked"] - 1)), CLAIMS),
    "a release that is not in the ledger": (
        lambda folder: (run_of(folder) / "events.jsonl").write_text(
            (run_of(folder) / "events.jsonl").read_text().replace('"asked": 5', '"asked": 4', 1)
        ),
        LOG,
    ),
    "a line of the log": (
        lambda folder: (run_of(folder) / "events.jsonl").write_text(
            "nonsense\n" + (run_of(folder) / "events.jsonl").read_text()
        ),
        LINES,
    ),
    # what the student has
    "unit on the card": (edit("student/student.json", lambda c: c["privacy"].update(unit="party")), CARD),
    "relation on it": (edit("student/student.json", lambda c: c["privacy"].update(neighbouring="add_or_remove")), CARD),
    "the nodes' epsilon on it": (edit("student/student.json", lambda c: c["privacy"].update(epsilon_nodes=0.1)), CARD),
    "a card of another federation": (edit("student/student.json", lambda c: c.update(federation="a" * 64)), CARD),
}  # fmt: skip


@pytest.mark.parametrize("case", LIES)
def test_a_lie_is_found(copied: Path, case: str) -> None:
    tamper, expected = LIES[case]
    tamper(copied)
    found = findings(copied)
    assert expected in wrong(found)
    # one lie is one finding; only where the ledger itself is false, others follow from it
    assert len(wrong(found)) == 1 or expected in (LEDGER, CHARGES)


@pytest.mark.parametrize(
    ("labels", "passed"), [((0, 1, None), None), ((0, 1, 1), "3 labels"), ((0, 1, None, None), "4 queries")]
)
def test_a_ledger_is_within_its_caps_or_a_contradiction(labels: tuple[int | None, ...], passed: str | None) -> None:
    """Its own coordinator could have written it so, with a chain that fits."""
    config = make_config(query_budget=QueryBudget(queries=3, answers=2))
    none = np.zeros(len(labels), dtype=bool)
    outcomes = np.array([NO_LABEL if label is None else label for label in labels])
    batch = Batch({}, 3, tuple(f"{index:064x}" for index in range(len(labels))), outcomes, none)
    recorded = Recorded(config, [batch], {}, None)
    if passed is None:
        assert check_query_budget(recorded) == "3 of 3 queries, 2 of 2 labels"
    else:
        with pytest.raises(Contradiction, match=passed):
            check_query_budget(recorded)


def test_nothing_secret_is_told(sound: Path, copied: Path) -> None:
    """A false data-dependent epsilon is found, but neither the true one nor the false one is said."""
    edit("coordinator.json", lambda c: c["privacy"]["data_dependent"].update(epsilon=0.271828))(copied)
    found = findings(copied)
    assert wrong(found) == [CLAIMS]
    secret = json.loads((run_of(sound) / "coordinator.json").read_text())["privacy"]["data_dependent"]["epsilon"]
    text = " ".join(finding.found for finding in found)
    assert "0.2718" not in text and f"{secret:.4f}"[:6] not in text


class TestCrashes:
    """No crash is a lie: the verdict is `unfinished`, and nothing speaks against the run."""

    @pytest.fixture
    def crashed(self, copied: Path) -> Path:
        """As if the coordinator had died before it closed."""
        (run_of(copied) / "coordinator.json").unlink()
        return copied

    def state(self, folder: Path) -> dict[str, Verdict]:
        found = findings(folder)
        assert wrong(found) == []
        return {finding.check: finding.verdict for finding in found}

    def test_before_the_close(self, crashed: Path) -> None:
        found = self.state(crashed)
        assert found["run: finished"] is found[CLAIMS] is Verdict.UNFINISHED
        assert found[LEDGER] is found[LABELS] is Verdict.HOLDS
        rechained("UPDATE batches SET event = replace(event, '\"sigma2\":3.0', '\"sigma2\":150.0')")(crashed)
        assert CHARGES in wrong(findings(crashed))  # a lie before the close is one

    def test_while_it_serves(self, crashed: Path) -> None:
        with held(crashed / "coordinator" / "state" / "lock", "the coordinator"):
            told = {finding.check: finding.found for finding in findings(crashed)}
        assert told["run: finished"] == "its coordinator is serving"

    def test_in_the_middle_of_a_write(self, crashed: Path) -> None:
        run = run_of(crashed)
        hot_journal(run / "ledger.db", run / "torn.db")
        (run / "torn.db").rename(run / "ledger.db")
        (run / "torn.db-journal").rename(run / "ledger.db-journal")
        before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
        found = {finding.check: finding for finding in findings(crashed)}
        assert found[LEDGER].verdict is Verdict.UNFINISHED and "broke off the last write" in found[LEDGER].found
        assert {path: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
        (run / "ledger.db-journal").unlink()  # control: without its journal the same file is no ledger any more
        assert wrong(findings(crashed)) == [LEDGER]

    @pytest.mark.parametrize("how", ["emptied", "removed"])
    def test_without_a_ledger(self, crashed: Path, how: str) -> None:
        """Before it was made; but no crash takes the ledger of a run that gave labels."""
        run = run_of(crashed)
        (run / "ledger.db").unlink() if how == "removed" else (run / "ledger.db").write_bytes(b"")
        assert wrong(findings(crashed)) == [LEDGER]
        lines = [line for line in (run / "events.jsonl").read_text().splitlines(True) if '"released"' not in line]
        (run / "events.jsonl").write_text("".join(lines))
        assert self.state(crashed)[LEDGER] is Verdict.UNFINISHED

    def test_a_lost_end_of_the_log(self, copied: Path) -> None:
        run = run_of(copied)
        text = (run / "events.jsonl").read_bytes()
        (run / "events.jsonl").write_bytes(text[: text.rfind(b'"released"') + 3])
        assert self.state(copied)[LOG] is Verdict.HOLDS

    def test_a_student_that_died(self, copied: Path) -> None:
        (copied / "student" / "student" / "student.json").unlink()
        labels = copied / "student" / "labels.parquet"
        assert self.state(copied)[CARD] is Verdict.UNFINISHED
        labels.write_bytes(labels.read_bytes()[:100])
        assert self.state(copied)[LABELS] is Verdict.UNFINISHED


class TestPlaces:
    def test_node_s_folder_its_state_and_bare_folder_are_one_run(self, copied: Path) -> None:
        shutil.copytree(run_of(copied), copied / "bare")
        for path in (copied / "coordinator", run_of(copied), copied / "bare"):
            assert holds(verify_run(path).findings)

    def test_another_federation_was_joined(self, copied: Path) -> None:
        """After a new roster the old run is still one, and can be given by its folder."""
        folder, run = copied / "coordinator", run_of(copied)
        run.rename(run.with_name("run-000000000000"))
        with pytest.raises(DataError, match="its state holds run-000000000000"):
            verify_run(folder)
        assert holds(verify_run(run.with_name("run-000000000000")).findings)

    @pytest.mark.parametrize("path", ["absent", "empty", "coordinator"])
    def test_where_there_is_none(self, copied: Path, path: str) -> None:
        shutil.rmtree(copied / "coordinator" / "state")
        (copied / "empty").mkdir()
        with pytest.raises(PathError if path == "absent" else DataError, match="no run here"):
            verify_run(copied / path)
        assert not (copied / "coordinator" / "state").exists()

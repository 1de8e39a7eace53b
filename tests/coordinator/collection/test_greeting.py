"""What is told at enrolment: other versions, a ledger or a party's state that went back; each with its cure. And where
parties stand and what went wrong, from the events of a run."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.coordinator.events import AWAY_CURE, NO_ANSWER, UNKNOWN, Event, EventLog, EventTail, RollEntry, RunState
from consilium.coordinator.federation import FederationRun, RunFolder, conclude
from consilium.coordinator.ledger import Ledger
from consilium.protocol.errors import BudgetExceeded, NotEnoughParties, StorageError
from consilium.protocol.refusals import CURES, Rule
from consilium.protocol.versions import program_versions
from tests.federation import FakeTransport, hello_of, make_config, make_home, make_rows

CONFIG = make_config(minimum_parties=3, teachers_per_party=2, simulation=False, noise_seed=None)


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    return [make_home(tmp_path / f"p{number}", f"p{number}", most_teachers=2) for number in range(3)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def student(count: int, first: int = 0):

    def ask(source, *_: object) -> None:
        source.ask(make_rows(60, 77)[0][first : first + count].astype(np.float32))

    return ask


def events(run: Path, kind: str) -> list[dict]:
    lines = map(json.loads, (run / "events.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == kind]


def federation(homes: list[Path], run: Path, first: int, ask=None) -> None:
    """One run of the coordinator in which three rows are asked."""
    run.mkdir(exist_ok=True)
    (run / "events.jsonl").unlink(missing_ok=True)
    with closing(EventLog(run / "events.jsonl")) as log:
        FederationRun(FakeTransport(homes), CONFIG, run, log, ask or student(3, first)).run()


def left_out(run: Path) -> dict[str, dict]:
    return {event["party"]: event for event in events(run, "left-out")}


def restored(backup: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)


def test_a_party_with_an_old_state_is_left_out_by_name(homes: list[Path], run: Path, tmp_path: Path) -> None:
    federation(homes, run, 0)
    backup = shutil.copytree(homes[1] / "state", tmp_path / "backup")
    federation(homes, run, 3)
    newest = shutil.copytree(homes[1] / "state", tmp_path / "newest")
    restored(backup, homes[1] / "state")
    with pytest.raises(NotEnoughParties, match=r"2 parties after .*Restore the newest backup of its folder"):
        federation(homes, run, 6)
    told = left_out(run)
    assert list(told) == ["p1"]
    assert "asked at position 2 of the ledger, and knows 1" in told["p1"]["reason"]
    restored(newest, homes[1] / "state")
    federation(homes, run, 6)
    assert not left_out(run)


def test_a_coordinator_with_an_old_ledger_is_refused_before_it_trains(
    homes: list[Path], run: Path, tmp_path: Path
) -> None:
    federation(homes, run, 0)
    backup = shutil.copytree(run, tmp_path / "backup")
    for first in (3, 6):
        federation(homes, run, first)
    restored(backup, run)
    with pytest.raises(
        NotEnoughParties,
        match=r"3 x refused: ledger, requested 1, limit 2\).*Restore the newest backup of the coordinator",
    ):
        federation(homes, run, 9)
    assert {event["stage"] for event in left_out(run).values()} == {"enrol"}


def test_a_ledger_that_went_back_by_one_batch_is_noticed(homes: list[Path], run: Path, tmp_path: Path) -> None:
    """Of a coordinator that serves: no start has come since. Parties were asked at the very position of the backup, and
    would answer the same queries again. A coordinator that died before its commit knows whom it asked."""

    def asks(source, *_: object) -> None:
        student(3)(source)
        shutil.copytree(run, tmp_path / "backup")
        student(3, 3)(source)

    federation(homes, run, 0, asks)
    restored(tmp_path / "backup", run)
    with pytest.raises(NotEnoughParties, match="3 x it was asked at position 2 of the ledger, and this one"):
        federation(homes, run, 3)


def test_one_that_died_before_its_commit_goes_on(homes: list[Path], run: Path, monkeypatch) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("consilium.coordinator.ledger.Ledger.commit", dies)
        federation(homes, run, 0)
    assert not left_out(run)
    federation(homes, run, 0)
    assert not left_out(run)


def test_a_question_under_way_is_charged_nothing_once_the_federation_is_summed_up(homes, run, monkeypatch) -> None:
    """Else the audit of an honest run would find a charge that its summary does not have."""
    sources: list = []

    def concluded(*args: Any, **more: Any) -> dict[str, Any]:
        with pytest.raises(BudgetExceeded, match="is being closed"):
            student(2, 3)(sources[0])
        return conclude(*args, **more)

    monkeypatch.setattr("consilium.coordinator.federation.conclude", concluded)
    federation(homes, run, 0, lambda source: (sources.append(source), student(3)(source)))
    use = RunFolder(run, CONFIG).use()
    assert (use.unanswered, events(run, "closed")[0]["asked"]) == (2, 3)
    assert use.describe().endswith("nothing can be asked; of those 2 not answered")


def test_another_version_is_told_on_both_sides_before_anything_is_trained(homes, run, monkeypatch, caplog) -> None:
    """Versions that speak the same protocol may work together; another protocol is refused."""
    theirs = iter(["consilium-pate 9.9, flwr 1.41.0", ""])
    monkeypatch.setattr("consilium.party.node.program_versions", lambda: next(theirs, program_versions()))
    federation(homes, run, 0)
    told = [(event["party"], event["theirs"]) for event in events(run, "version")]
    assert told == [("p0", "consilium-pate 9.9, flwr 1.41.0"), ("p1", "an unknown version")] and not left_out(run)
    party = FakeTransport([make_home(run.parent / "other", "p9", most_teachers=2)]).parties[0]
    party.hello(hello_of(CONFIG, program="consilium-pate 9.9, flwr 1.41.0"))
    assert "another version: the coordinator runs consilium-pate 9.9" in caplog.text
    monkeypatch.setattr("consilium.coordinator.collection.means.PROTOCOL_VERSION", 4)
    with pytest.raises(NotEnoughParties, match=r"protocol-version, requested 4.*Install the same version of Consilium"):
        federation(homes, run, 0)


def test_what_was_seen_only_grows(tmp_path: Path) -> None:
    for _ in range(2):
        with closing(Ledger.of(tmp_path / "ledger.db", CONFIG)) as ledger:
            for parties, batch in (["a", "b"], 0), (["a"], 4), (["a", "b"], 2):
                ledger.seen_by(parties, batch)
            assert [*map(ledger.least_seen, "abc")] == [5, 3, 0]


def test_on_a_full_disk_no_votes_are_counted_that_were_not_noted(
    homes: list[Path], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StorageError("cannot write the ledger", "Make room")

    monkeypatch.setattr(Ledger, "seen_by", full)
    with pytest.raises(StorageError):
        federation(homes, run, 0)
    monkeypatch.undo()
    federation(homes, run, 0)
    assert [event["asked"] for event in events(run, "closed")] == [3]


def event(kind: str, *names: str, **fields: Any) -> Event:
    return Event(event=kind, at="12:00", parties=names, **fields)


def out(stage: str, reason: str, **fields: Any) -> Event:
    return event("left-out", party="a", stage=stage, reason=reason, **fields)


CONNECTED, ENROLLED, PART = event("connected", "a"), event("enrolled", "a"), event("takes-part", "a")
SERVES = event("second-aggregator", name="a")
BACK = PART, event("voted", "a", queries=1), ENROLLED
CASES = {
    "nothing": ([], "awaited, not connected"),
    "connected": ([CONNECTED], "awaited, connected"),
    "enrolled": ([CONNECTED, ENROLLED], "enrolled, connected"),
    "trained": ([CONNECTED, ENROLLED, PART], "takes part, connected, in no sum yet"),
    "in a sum": (
        [CONNECTED, ENROLLED, PART, event("voted", "a", queries=4)],
        "takes part, connected, answered 4 queries",
    ),
    "refused": (
        [CONNECTED, out("enrol", "refused: storage", rule="storage")],
        f"refused: storage. {CURES[Rule.STORAGE]}",
    ),
    "corrected": ([out("enrol", "refused: storage"), CONNECTED, ENROLLED], "enrolled, connected"),
    "silent": ([CONNECTED, out("train", "no answer within 60 s")], "left out: no answer within 60 s"),
    "missed one sum": (
        [CONNECTED, PART, event("voted", "a", queries=4), out("secure sum: masked", "no answer within 9 s")],
        "takes part, connected, last left out: secure sum: masked: no answer within 9 s, answered 4 queries",
    ),
    "a second aggregator": ([CONNECTED, SERVES], "checks votes, connected"),
    "one that is gone": ([CONNECTED, SERVES, event("lost", "a")], "checks votes, not connected"),
    "started anew": ([CONNECTED, PART, event("awaiting", "a")], "awaited, not connected"),
    "back while it takes part": ([*BACK], "takes part, not connected now, answered 1 query"),
    "back after a restart": ([*BACK, event("awaiting", "a"), ENROLLED], "enrolled, not connected, answered 1 query"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_of_a_party(case: str) -> None:
    told, words = CASES[case]
    assert RunState.of(told, ["a"]).roll["a"].words == words


def test_everybody_who_ever_took_part_is_named_after_a_restart_too() -> None:
    first = [event("takes-part", "a", "b"), event("voted", "a", queries=4)]
    state = RunState.of([*first, event("awaiting", "a", "b", "c"), event("takes-part", "c")], ["a", "b", "c", "d"])
    assert state.took_part == ["a", "b", "c"]
    assert state.roll["a"].queries == 4
    assert state.roll["d"] == RollEntry()


def test_a_log_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = EventTail(path)
    assert tail.fresh() == []
    with closing(EventLog(path)) as log:
        log.write("stage", stage="enrol", total=3)
    with open(path, "a") as file:
        file.write('damaged\n[1]\n{"event": "of a later version"}\n')
        file.write('{"event": "serving", "at": "x", "address": "y"}\n{"event": "clo')
    assert [event.kind for event in tail.fresh()] == ["stage", "serving"]
    with open(path, "a") as file:
        file.write('sed", "asked": 1, "answered": 1}\n')
    assert [event.kind for event in tail.fresh()] == ["closed"]
    path.write_text('{"event": "stage", "stage": "enrol", "total": 3}\n')  # it was begun anew
    assert ([event.kind for event in tail.fresh()], tail.skipped) == (["stage"], 3)


AWAY = "2 parties after stage 'vote' (1 x away)"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (out("train", "refused: storage", rule="storage"), f". {CURES[Rule.STORAGE]}."),
        (out("train", "no answer within 250 s", silent=True), f". {NO_ANSWER}"),
        (out("train", "2 nodes claim this name"), f". {UNKNOWN}"),
        (out("train", ""), f". {UNKNOWN}"),
        # why a question was not answered is shown where it does not hang on votes, as whether a sum was in range does
        (event("not-answered", error="NotEnoughParties", reason=AWAY), AWAY_CURE),
        (
            event("not-answered", error="BadShare", reason="share 741 is out of range"),
            ". The event log of the run says more.",
        ),
    ],
)
def test_every_trouble_has_a_cure_and_tells_no_votes(told: Event, words: str) -> None:
    (trouble,) = RunState.of([told]).troubles
    assert trouble.endswith(words) and "741" not in trouble and "BadShare" not in trouble
    assert words != AWAY_CURE or AWAY in trouble

"""What is told at enrolment: other versions, a ledger or a party's state that went back; each with its cure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.collection.admission import SEEN_FILE, Greeting, SeenPositions, enrol
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun
from consilium.protocol.errors import LedgerError, NotEnoughParties, StorageError
from consilium.protocol.files import replace_private
from consilium.protocol.messages import HelloReply, LedgerPosition
from consilium.protocol.records import from_record, to_record
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.versions import program_versions
from tests.federation import FakeTransport, make_config, make_home, make_rows

CONFIG = make_config(minimum_parties=3, teachers_per_party=2, simulation=False, noise_seed=None)
LEDGER = "1" * 64


def at(batch: int, head: str = "", ledger: str = LEDGER) -> LedgerPosition:
    return LedgerPosition(ledger=ledger, batch=batch, head=head or f"{batch:064x}")


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    return [make_home(tmp_path / f"p{number}", f"p{number}", most_teachers=2) for number in range(3)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def student(count: int, first: int = 0):
    """Asks so many rows, one batch."""

    def ask(source, *_: object) -> None:
        source.ask(make_rows(60, 77)[0][first : first + count].astype(np.float32))

    return ask


def federation(homes: list[Path], run: Path, first: int) -> list[dict]:
    """One run of the coordinator in which three rows are asked; its events."""
    run.mkdir(exist_ok=True)
    (run / "events.jsonl").unlink(missing_ok=True)
    log = EventLog(run / "events.jsonl")
    try:
        FederationRun(FakeTransport(homes), CONFIG, run, log, student(3, first)).run()
    finally:
        log.close()
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def left_out(run: Path) -> dict[str, dict]:
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return {event["party"]: event for event in events if event["event"] == "left-out"}


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def restored(backup: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)


def test_a_party_with_an_old_state_is_left_out_by_name(homes: list[Path], run: Path, tmp_path: Path) -> None:
    federation(homes, run, 0)
    backup = copied(homes[1] / "state", tmp_path / "backup")
    federation(homes, run, 3)
    newest = copied(homes[1] / "state", tmp_path / "newest")
    assert json.loads((run / SEEN_FILE).read_text()) == {"p0": 2, "p1": 2, "p2": 2}
    restored(backup, homes[1] / "state")
    with pytest.raises(NotEnoughParties, match=r"2 parties after .*Restore the newest backup of its folder"):
        federation(homes, run, 6)
    told = left_out(run)
    assert list(told) == ["p1"]
    assert "asked at position 2 of the ledger, and knows 1" in told["p1"]["reason"]
    restored(newest, homes[1] / "state")
    assert not [event for event in federation(homes, run, 6) if event["event"] == "left-out"]


def test_a_coordinator_with_an_old_ledger_is_refused_before_it_trains(
    homes: list[Path], run: Path, tmp_path: Path
) -> None:
    federation(homes, run, 0)
    backup = copied(run, tmp_path / "backup")
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
        copied(run, tmp_path / "backup")
        student(3, 3)(source)

    run.mkdir()
    log = EventLog(run / "events.jsonl")
    FederationRun(FakeTransport(homes), CONFIG, run, log, asks).run()
    log.close()
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


def test_control_a_coordinator_that_hides_where_its_ledger_stands_is_refused_too(homes: list[Path], run: Path) -> None:
    federation(homes, run, 0)
    federation(homes, run, 3)
    account = FakeTransport(homes).parties[0].account
    with pytest.raises(Refused) as caught:
        account.check_position(CONFIG.digest(), at(0, "0" * 64, ledger="2" * 64))
    assert caught.value.refusal.rule is Rule.LEDGER


def replied(**fields: object):
    """Another hello of a party than it gave."""

    def change(record):
        reply = from_record(record, HelloReply)
        return to_record(reply.model_copy(update=fields))

    return change


@pytest.mark.parametrize(
    ("program", "theirs"),
    [(program_versions(), None), ("consilium-pate 9.9, flwr 1.41.0", "consilium-pate 9.9"), ("", "an unknown version")],
)
def test_another_version_is_told_before_anything_is_trained(
    homes: list[Path], tmp_path: Path, program: str, theirs: str | None
) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    members = enrol(FakeTransport(homes, {(1, "query.hello"): replied(program=program)}), CONFIG, LEDGER, log)
    log.close()
    assert len(members) == 3  # versions that speak the same protocol may work together
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    told = [event for event in events if event["event"] == "version"]
    assert [event["party"] for event in told] == ([] if theirs is None else ["p1"])
    if theirs:
        assert theirs in told[0]["theirs"] and told[0]["ours"] == program_versions()


def test_a_party_says_so_too(homes: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    party = FakeTransport(homes).parties[0]
    party.hello(Greeting(lambda: at(0, "0" * 64), program="consilium-pate 9.9, flwr 1.41.0").request(CONFIG))
    assert "another version: the coordinator runs consilium-pate 9.9" in caplog.text


def test_another_protocol_is_refused_with_its_cure(homes: list[Path], tmp_path: Path, monkeypatch) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    monkeypatch.setattr("consilium.coordinator.collection.admission.PROTOCOL_VERSION", 4)
    with pytest.raises(NotEnoughParties, match=r"protocol-version, requested 4.*Install the same version of Consilium"):
        enrol(FakeTransport(homes), CONFIG, LEDGER, log)
    log.close()


SEEN = {
    "parties that were never asked": ({}, 0, (), True),
    "one more": ({"p": 1}, 2, (), True),
    "the same": ({"p": 2}, 2, (), True),
    "one less": ({"p": 2}, 1, (), False),
    "nothing": ({"p": 1}, 0, (), False),
    "another's": ({"q": 5}, 0, (), True),
    "asked where the ledger stands": ({"p": 1}, 4, ("p", "q"), True),
    "asked, and the ledger does not know": ({"p": 1}, 4, ("q",), False),
}


@pytest.mark.parametrize("case", SEEN)
def test_who_is_behind(case: str) -> None:
    least, seen, asked, well = SEEN[case]
    found = Greeting(lambda: at(3), least, asked=lambda: asked).behind(HelloReply(party="p", teachers=2, seen=seen))
    assert (found is None) == well


def test_what_was_seen_only_grows(tmp_path: Path) -> None:
    path = tmp_path / SEEN_FILE
    seen = SeenPositions(path)
    seen.note(["a", "b"], 0)
    seen.note(["a"], 4)
    seen.note(["a", "b"], 2)
    assert SeenPositions(path).least == {"a": 5, "b": 3}
    path.write_text("[]")
    with pytest.raises(LedgerError, match="cannot be read"):
        SeenPositions(path)


def test_on_a_full_disk_no_votes_are_counted_that_were_not_noted(
    homes: list[Path], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        if path.name == SEEN_FILE:
            raise StorageError(f"cannot write {path}", "Make room")
        replace_private(path, text)

    monkeypatch.setattr("consilium.coordinator.collection.admission.replace_private", full)
    with pytest.raises(StorageError):
        federation(homes, run, 0)
    monkeypatch.undo()
    assert [event["asked"] for event in federation(homes, run, 0) if event["event"] == "closed"] == [3]

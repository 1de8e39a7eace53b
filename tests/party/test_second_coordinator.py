"""Two coordinators with copies of one ledger: once one has asked for votes, parties refuse the other, and it says so.

The control of each: the same coordinators without the tokens of their starts, as before. Both are answered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from consilium.coordinator.collection.admission import Greeting
from consilium.coordinator.events import EventLog, LeftOut, read_events
from consilium.coordinator.federation import FederationRun
from consilium.coordinator.ledger import Ledger
from consilium.party import store
from consilium.protocol.errors import NotEnoughParties
from consilium.protocol.refusals import CURES, Refused, Rule
from consilium.sums.terms import NO_LEDGER
from tests.coordinator.collection.test_greeting import CONFIG, student
from tests.federation import FakeTransport, hello_of, make_home, node_at


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    return [make_home(tmp_path / f"p{number}", f"p{number}", most_teachers=2) for number in range(3)]


def served(homes: list[Path], folder: Path, first: int) -> list[str]:
    """One start of the coordinator with this folder, in which three rows are asked; what its log says."""
    folder.mkdir(exist_ok=True)
    log = EventLog(folder / "events.jsonl")
    try:
        FederationRun(FakeTransport(homes), CONFIG, folder, log, student(3, first)).run()
    finally:
        log.close()
    return [event.words for event in read_events(folder / "events.jsonl")]


@pytest.fixture
def copied(homes: list[Path], tmp_path: Path) -> tuple[Path, Path]:
    """A coordinator that has asked, and a copy of it."""
    first = tmp_path / "first"
    served(homes, first, 0)
    return first, Path(shutil.copytree(first, tmp_path / "second"))


@pytest.mark.parametrize("goes_on", [1, 0])
def test_once_one_was_answered_the_other_is_refused_and_says_so(
    homes: list[Path], copied: tuple[Path, Path], goes_on: int
) -> None:
    one, other = copied[goes_on], copied[1 - goes_on]
    served(homes, one, 3)
    with pytest.raises(NotEnoughParties, match=r"refused: (second-coordinator|ledger)"):
        served(homes, other, 6)
    words = [event.words for event in read_events(other / "events.jsonl") if isinstance(event, LeftOut)]
    cure = CURES[Rule.SECOND_COORDINATOR]
    assert [cure in line and "refused: second-coordinator, requested 2, limit 2" in line for line in words] == (
        [True] * 3
    )
    served(homes, one, 9)


def test_control_without_tokens_both_are_answered(
    homes: list[Path], copied: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows, with fresh noise, and each ledger is charged for them once."""
    monkeypatch.setattr(Ledger, "begin_start", lambda _: ())
    monkeypatch.setattr(store, "_check_start", lambda *_: None)
    monkeypatch.setattr(Greeting, "behind", lambda *_: None)
    first, second = copied
    served(homes, second, 3)
    served(homes, first, 3)


def test_a_start_that_asked_nothing_leaves_an_older_backup_good(homes: list[Path], copied: tuple[Path, Path]) -> None:
    first, backup = copied
    with pytest.raises(RuntimeError):
        log = EventLog(first / "events.jsonl")
        FederationRun(FakeTransport(homes), CONFIG, first, log, _dies).run()
    served(homes, backup, 3)


def _dies(*_: object) -> None:
    raise RuntimeError


def test_a_request_of_the_one_that_was_left_is_refused(tmp_path: Path) -> None:
    """A party whose connection went to another coordinator and back, unseen."""
    party = node_at(make_home(tmp_path / "p", "p", most_teachers=2))

    def greet(*starts: str) -> None:
        party.hello(hello_of(CONFIG, starts=[start * 16 for start in starts]))

    def follow(start: str) -> None:
        agreed, policy = party.agreed(CONFIG.digest()), party.settings.policy
        party.store.charge(agreed, "", (), policy, 1, NO_LEDGER, start=start * 16)

    greet("a")
    follow("a")
    greet("a", "b")
    with pytest.raises(Refused) as caught:
        follow("a")
    assert caught.value.refusal.rule is Rule.SECOND_COORDINATOR
    follow("b")
    for starts in ("", "a", "ac", "bad"):
        with pytest.raises(Refused):
            greet(*starts)
    greet(*"abc")

"""A ledger that another program holds: a student waits as long as it likes, the event log says why, and each label is
given once. A student hears no more than that the operator sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.events import Event, EventLog, read_events
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.node.supervisor import BackOff
from consilium.protocol import databases
from consilium.protocol.errors import ServiceError
from consilium.protocol.noise import SeededNoise
from tests.coordinator.labels.test_service import T, Votes
from tests.disks import locked
from tests.federation import make_config, make_rows

X = make_rows(20, 3)[0]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a lock, and students ask again at once."""
    monkeypatch.setattr(databases, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr("consilium.student.channel.AGAIN", BackOff(first=0.05, most=0.05))


class Made:
    """A label service whose ledger and event log are in a folder."""

    def __init__(self, folder: Path) -> None:
        config = make_config(query_budget=QueryBudget(queries=100, answers=100))
        self.path, self.log = folder / "ledger.db", EventLog(folder / "events.jsonl")
        self.ledger = Ledger.of(self.path, config)
        self.service = LabelService(config, self.ledger, Votes(), SeededNoise, T, self.log)

    def noted(self) -> list[Event]:
        return [event for event in read_events(self.path.parent / "events.jsonl") if event.kind == "not-answered"]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    made = Made(tmp_path)
    yield made
    made.ledger.close()


def test_a_lock_is_waited_for_within_the_students_patience(site, made: Made) -> None:
    """From its first call on."""
    said: list[str] = []
    with ExitStack() as lock, site.serving(made.service, 100) as address:
        lock.enter_context(locked(made.path))
        with site.channel(address) as hasty, pytest.raises(ServiceError, match=r"sees why.*consilium status") as error:
            hasty.describe()
        assert "ledger" not in str(error.value)

        def tell(text: str) -> None:
            said.append(text)
            if len(said) == 3:
                lock.close()

        with site.channel(address, patience=600) as channel:
            channel.tell = tell
            channel.describe()
            said.clear()
            lock.enter_context(locked(made.path))
            assert len(channel.ask(X)) == 20
            assert channel.known([]).tolist() == []
    assert len(said) >= 3 and made.ledger.spent() == (20, made.ledger.spent()[1])
    assert {event.error for event in made.noted()} == {"LedgerLocked"}
    assert all("ledger.db: it is locked: another program holds it" in event.words for event in made.noted())

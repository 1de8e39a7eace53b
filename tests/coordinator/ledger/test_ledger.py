"""The ledger: nothing is lost, nothing is overwritten, and a change is found."""

from __future__ import annotations

import json
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.ledger import GENESIS, HISTOGRAM, Batch, Ledger, batch_hash, blobs
from consilium.party.store import Store
from consilium.protocol.databases import committed
from consilium.protocol.errors import BudgetExceeded, LedgerError
from consilium.protocol.label_source import NO_LABEL, Outcome

EVENT = {"type": "confident"}


def batch(*names: str, labels=None, votes=123) -> Batch:
    count = len(names)
    return Batch(
        event=EVENT,
        parties=3,
        query_ids=names,
        labels=np.array([1] * count if labels is None else labels, dtype=np.int64),
        reinforced=np.zeros(count, dtype=bool),
        histogram=np.full((count, 2), votes),
        probabilities=np.full((count, 2), -0.0),
    )


@pytest.fixture
def ledger(tmp_path: Path):
    opened = Ledger(tmp_path / "ledger.db", "f" * 64, "{}")
    yield opened
    opened.close()


def test_what_is_committed_is_read_back(ledger) -> None:
    ledger.commit(batch("a", "b", labels=[1, NO_LABEL]), 10, 10)
    ledger.commit(batch("c", votes=7), 10, 10)
    found = ledger.find(["a", "b", "c", "d"])
    assert {name: (release.outcome, release.label) for name, release in found.items()} == {
        "a": (Outcome.ANSWERED, 1),
        "b": (Outcome.ABSTAINED, NO_LABEL),
        "c": (Outcome.ANSWERED, 1),
    }
    first, second = ledger.batches()
    assert first.query_ids == ("a", "b")
    assert first.histogram is not None and first.histogram.tolist() == [[123, 123]] * 2
    assert second.histogram is not None and second.histogram.tolist() == [[7, 7]]
    assert ledger.spent() == (3, 2)


def test_a_check_of_queries_is_drawn_once_until_they_are_released(ledger) -> None:
    """A coordinator that died after it showed what passed shows the same again."""
    assert [ledger.checked(["a", "b"], outcome) for outcome in ("first", "second")] == ["first", "first"]
    assert ledger.checked(["b"], "other") == "other"
    ledger.commit(batch("a", "b"), 10, 10)
    assert ledger.checked(["a", "b"], "third") == "third"


@pytest.mark.parametrize(("queries", "answers"), [(2, 10), (10, 2)])
def test_caps_hold_inside_the_transaction(ledger, queries: int, answers: int) -> None:
    ledger.commit(batch("a", "b"), 2, 2)
    with pytest.raises(BudgetExceeded):
        ledger.commit(batch("c"), queries, answers)
    assert ledger.spent() == (2, 2)


def test_a_query_is_never_recorded_twice(ledger) -> None:
    ledger.commit(batch("a"), 10, 10)
    with pytest.raises(LedgerError, match="UNIQUE constraint"):
        ledger.commit(batch("b", "a"), 10, 10)
    assert ledger.spent() == (1, 1)
    assert list(ledger.find(["a", "b"])) == ["a"]


def test_what_parties_charge_in_each_session_anew_is_counted_as_often(ledger) -> None:
    ledger.voted_on(["a", "b"], ["p"], "one")
    ledger.voted_on(["a", "b"], ["p"], "one")  # it goes on
    assert ledger.in_vain() == 2 and ledger.charged(["a", "b"]) == 2 and ledger.charged(["a"]) == 0
    ledger.voted_on(["a", "b"], ["p"], "two")
    assert ledger.in_vain() == 4 and ledger.unanswered().queries == 2
    ledger.commit(batch("a", "b"), 10, 10)
    assert ledger.in_vain() == 2 and ledger.unanswered().queries == 0
    ledger.voted_on(["c"], ["p"], "three")
    ledger.voted_on(["d"], ["p"], "four")
    assert ledger.charged(["c"]) == 0 and ledger.charged(["d"]) == 1, "parties remember the last session alone"


def tried_out(ledger: Ledger, salt: str) -> list[list[int]]:
    """Votes of seven parties on one query of three classes that fit the head that every node is shown: all are tried.

    Whoever does this knows when the query was answered, and the label.
    """
    at = ledger._file.execute("SELECT at FROM batches")[0][0]
    event, fits = json.dumps(EVENT, separators=(",", ":")), []
    for votes in [[a, b, 7 - a - b] for a in range(8) for b in range(8 - a)]:
        rows = [("a", int(Outcome.ANSWERED), 1, None, *blobs(np.array([votes]), HISTOGRAM, 1), None)]
        head = batch_hash(salt, GENESIS, 1, at, event, 3, rows)
        if head == ledger.position().head:
            fits.append(votes)
    return fits


def test_the_head_does_not_tell_the_votes_to_whoever_tries_them_all(ledger) -> None:
    ledger.commit(replace(batch("a"), histogram=np.array([[2, 4, 1]]), probabilities=None), 10, 10)
    assert tried_out(ledger, "0" * 64) == []
    assert tried_out(ledger, ledger._meta["salt"]) == [[2, 4, 1]], "control: all is right but for the secret"


def test_another_federation_cannot_use_it(ledger) -> None:
    with pytest.raises(LedgerError, match="another federation"):
        Ledger(ledger.path, "e" * 64, "{}")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE releases SET label = 0 WHERE query_id = 'a'",
        "UPDATE releases SET histogram = probabilities WHERE query_id = 'a'",
        "UPDATE releases SET counts = histogram WHERE query_id = 'a'",
        "UPDATE batches SET event = '{}' WHERE seq = 1",
        "UPDATE batches SET parties = 4 WHERE seq = 2",
        "DELETE FROM batches WHERE seq = 1",
        "DELETE FROM releases WHERE query_id = 'b'",
    ],
)
def test_any_change_breaks_the_chain(ledger, statement: str) -> None:
    ledger.commit(batch("a", "b"), 10, 10)
    ledger.commit(batch("c"), 10, 10)
    assert len(ledger.batches()) == 2
    with sqlite3.connect(ledger.path) as other:
        other.execute(statement)
    with pytest.raises(LedgerError, match="hash chain is broken"):
        ledger.batches()


def test_nothing_that_was_charged_comes_undone_in_a_power_cut(ledger, tmp_path: Path) -> None:
    """The folder is synced after a journal is removed: one that comes back undoes what it is of."""
    store = Store(tmp_path / "party.db")
    with committed(tmp_path / "given.db", (), 1) as given:
        for file in (ledger._file, store, given):
            assert file.execute("PRAGMA synchronous") == [(3,)]
            assert file.execute("PRAGMA journal_mode") == [("delete",)]


def test_only_the_owner_can_read_it(ledger) -> None:
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"no database at all, but long enough to look like one" * 100, None])
def test_what_is_no_ledger_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.db"
    if content is None:
        path = tmp_path / "absent" / "x.db"
    else:
        path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"cannot use .*(damaged|cannot be opened).* nothing leaves this node"):
        Ledger(path, "f" * 64, "{}")


def test_labels_and_evidence_are_not_in_repr() -> None:
    text = repr(batch("a", labels=[7], votes=12325))
    assert "12325" not in text
    assert "label" not in text

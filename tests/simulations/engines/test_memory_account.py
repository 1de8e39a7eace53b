"""A simulated party's account in memory and a real one's file: whatever is asked of them, both say the same."""

from __future__ import annotations

import hashlib
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.config import QueryBudget
from consilium.party.home import Policy
from consilium.party.spend import SpendStore
from consilium.protocol.messages import LedgerPosition
from consilium.protocol.refusals import Refused
from consilium.simulations.engines.memory_account import MemoryAccount, MemoryBook
from tests.federation import CLASSES, make_config

CONFIGS = [
    make_config(name="a", query_budget=QueryBudget(queries=6, answers=4)),
    make_config(name="b", mechanism=GNMax(sigma=3.0), query_budget=QueryBudget(queries=8, answers=8)),
]
TERMS = [config.terms() for config in CONFIGS]
POLICY = Policy(
    allowed_classes=CLASSES, collection="plaintext", most_queries=14, most_epsilon=float("inf"), allow_simulation=True
)
IDS = [hashlib.sha256(bytes([number])).hexdigest() for number in range(10)]
LEDGERS = ["a" * 64, "b" * 64]

federations = st.integers(0, len(CONFIGS) - 1)
positions = st.builds(
    lambda ledger, batch, head: LedgerPosition(ledger=LEDGERS[ledger], batch=batch, head=str(head) * 64),
    st.integers(0, 1),
    st.integers(0, 3),
    st.integers(0, 1),
)
steps = st.one_of(
    st.tuples(st.just("enrol"), federations, st.integers(0, 1)),
    st.tuples(st.just("follow"), federations, positions),
    st.tuples(st.just("seen"), federations, positions),
    st.tuples(
        st.just("charge"),
        federations,
        st.sampled_from(["t", "u"]),
        st.lists(st.integers(0, 9), min_size=1, max_size=6),
        st.integers(1, 2),
    ),
)


def outcome(store: SpendStore, step: tuple[Any, ...]) -> Any:
    """What a step gives, or how it is refused; and all that can be read after it."""
    kind, number, *rest = step
    terms = TERMS[number]
    try:
        match kind:
            case "enrol":
                said: Any = store.enrol(terms, LEDGERS[rest[0]], POLICY)
            case "follow":
                said = store.follow(terms.federation, rest[0])
            case "seen":
                said = store.seen(terms.federation, rest[0])
            case _:
                teachers, ids, phase = rest
                said = store.charge(terms, teachers, [IDS[each] for each in ids], POLICY, phase)
    except Refused as error:
        said = error.refusal
    federation = terms.federation
    return said, store.answered(), store.past(federation), store.answered_in(federation)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(steps, max_size=25))
def test_memory_and_file_say_the_same(history: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        account = MemoryAccount()
        file, memory = SpendStore(Path(folder) / "spend.db", durable=False), SpendStore(MemoryBook(account))
        for step in [("enrol", 0, 0), *history]:
            assert outcome(memory, step) == outcome(file, step), step
            # as between two exchanges
            account = pickle.loads(pickle.dumps(account))
            memory = SpendStore(MemoryBook(account))


def test_what_fails_changes_nothing() -> None:
    account = MemoryAccount()
    book = MemoryBook(account)
    SpendStore(book).enrol(TERMS[0], LEDGERS[0], POLICY)
    before = pickle.dumps(account)
    with pytest.raises(ZeroDivisionError), book.transaction() as inside:
        inside.give(TERMS[0].federation, "t", 1, frozenset({b"q" * 32}))
        raise ZeroDivisionError
    assert pickle.dumps(account) == before
    assert "q" * 32 not in repr(account)

"""What the second aggregator's own people read speaks of the second aggregator, never of "this party"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.collection.admission import Greeting
from consilium.coordinator.collection.verified import SecondAggregator
from consilium.coordinator.events import EventLog
from consilium.protocol.records import refusal_to_record
from consilium.protocol.refusals import CURES, CURES_OF_SECOND, Refusal, Rule
from consilium.sums.errors import (
    AggregatorRefuses,
    AggregatorsDisagree,
    AlreadyAnswered,
    BadLink,
    BadSignature,
    BrokenBlock,
    OtherVersion,
    Replay,
    RosterMismatch,
    SecAggError,
    StageOrder,
    SumTooLarge,
    ThresholdNotMet,
    UnsafeSession,
)
from consilium.sums.terms import NO_LEDGER
from tests.aggregator.given_rules import OWN, ROOM, errors_raised, rules_given
from tests.aggregator.test_node import Board

SPEAKS_OF_A_PARTY = re.compile(r"\bparty\b", re.IGNORECASE)
"""It is about several parties, or none: who is one of them is a party."""
ERRORS: list[SecAggError] = [
    AlreadyAnswered(1, 3), BadSignature("the leader", "terms"), Replay("x"), RosterMismatch("x"), BrokenBlock("x"),
    StageOrder("x"), ThresholdNotMet("sum", 1, 2, ["ward-a"]), UnsafeSession("x"), AggregatorsDisagree(["ward-a"]),
    BadLink("x"), SumTooLarge(70_000, 32_760), OtherVersion("the session", 1, 2),
]  # fmt: skip


def test_what_it_can_refuse_by_is_found() -> None:
    """The control: by its own policy, at its edge, and by the protocol that it runs."""
    assert {Rule.MOST_EPSILON, Rule.TERMS, Rule.STORAGE, Rule.NODE_KIND, Rule.BROKEN_BLOCK} <= rules_given()
    assert not {Rule.CLASSES, Rule.DATA, Rule.NOT_TRAINED} & rules_given()


@pytest.mark.parametrize("rule", sorted(rules_given()))
def test_its_cures_are_its_own(rule: Rule) -> None:
    told = CURES_OF_SECOND[rule]
    assert not SPEAKS_OF_A_PARTY.search(told), told
    assert told and not told.endswith(".")  # a sentence is made of it


def test_words_of_its_own_are_of_what_it_can_refuse_by() -> None:
    own = {rule for rule in Rule if CURES_OF_SECOND[rule] != CURES[rule]}
    assert own <= rules_given()
    assert {rule for rule in rules_given() if SPEAKS_OF_A_PARTY.search(CURES[rule])} <= own


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return Board(tmp_path_factory.mktemp("board"))


class Refusing:
    """One node, which refuses whatever it is asked."""

    def __init__(self, refusal: Refusal) -> None:
        self._refusal = refusal

    def nodes(self) -> list[int]:
        return [1]

    def exchange(self, requests: dict[int, Any], *_: object) -> Iterator[tuple[int, Any]]:
        for node in requests:
            yield node, refusal_to_record(self._refusal)


@pytest.mark.parametrize("rule", sorted(rules_given() - {Rule.NODE_KIND}))  # who refuses by that one is not it
def test_the_coordinator_tells_the_same(rule: Rule, board: Board, tmp_path: Path) -> None:
    transport: Any = Refusing(Refusal(rule=rule, limit=3, requested=5))
    with closing(EventLog(tmp_path / "events.jsonl")) as log:
        second = SecondAggregator(transport, board.config, board.keys.roster, Greeting(lambda: NO_LEDGER), list, log)
        with pytest.raises(AggregatorRefuses) as refused:
            second.find()
    assert refused.value.action.startswith(CURES_OF_SECOND[rule])
    assert not SPEAKS_OF_A_PARTY.search(str(refused.value))


def test_its_log_too() -> None:
    assert {type(error) for error in ERRORS} == errors_raised()
    assert [str(error) for error in ERRORS if SPEAKS_OF_A_PARTY.search(str(error))] == []


def texts_of(path: Path) -> list[str]:
    """Constants that somebody may read; not the docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes
    ]


def test_its_own_code_speaks_of_itself() -> None:
    texts = {f"{path.relative_to(ROOM)}: {text}" for path in OWN for text in texts_of(path)}
    assert len(texts) > 100
    assert not [text for text in texts if re.search(r"\b(this|the) party\b", text)]

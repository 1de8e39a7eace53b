"""Two kinds of nodes behind one coordinator: each refuses what is for the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message, RecordDict

from consilium.aggregator import client_app as aggregator
from consilium.node.answering import TO_AGGREGATORS, TO_PARTIES
from consilium.party import client_app as party
from consilium.protocol.records import refusal_from_record, to_record
from consilium.protocol.refusals import Refusal, Rule
from consilium.simulations.engines.flower import assign_message_id, assume_identity
from tests.aggregator.test_node import Board


def call(app: Any, home: Path, kind: str, content: RecordDict | None = None) -> Message:
    assume_identity(1, 1)
    message = Message(content or RecordDict(), dst_node_id=2, message_type=kind)
    assign_message_id(message)
    assume_identity(1, 2)
    return app(message, Context(1, 2, {"home": str(home)}, RecordDict(), {}))


@pytest.mark.parametrize("kind", TO_AGGREGATORS)
def test_a_party_refuses_what_is_for_the_second_aggregator(tmp_path: Path, kind: str) -> None:
    assert refusal_from_record(call(party.app, tmp_path, kind).content) == Refusal(rule=Rule.NODE_KIND)


@pytest.mark.parametrize("kind", TO_PARTIES)
def test_the_second_aggregator_refuses_what_is_for_parties(tmp_path: Path, kind: str) -> None:
    assert refusal_from_record(call(aggregator.app, tmp_path, kind).content) == Refusal(rule=Rule.NODE_KIND)


def test_a_greeting_is_no_trouble_and_any_other_stray_message_is(tmp_path: Path, caplog) -> None:
    """A coordinator greets all nodes as parties: whoever refuses is the second aggregator, and all is well."""
    with caplog.at_level("WARNING"):
        call(aggregator.app, tmp_path, "query.hello")
        assert caplog.messages == []
        call(aggregator.app, tmp_path, "query.vote")
    assert [message for message in caplog.messages if "another kind of node" in message]


def test_each_kind_of_message_is_for_one_kind_of_node() -> None:
    assert not {*TO_AGGREGATORS} & {*TO_PARTIES}
    assert "query.va_upload" in TO_PARTIES


def test_no_exception_text_travels(tmp_path: Path, monkeypatch, caplog) -> None:
    def fail(*_):
        raise RuntimeError("patient 4711 has a stroke")

    board = Board(tmp_path)
    monkeypatch.setattr(aggregator, "open_home", fail)
    reply = call(aggregator.app, board.home, "query.va_hello", to_record(board.hello()))
    assert refusal_from_record(reply.content) == Refusal(rule=Rule.INTERNAL)
    assert "4711" not in f"{reply.content}{caplog.text}"


def test_a_malformed_message_is_refused(tmp_path: Path) -> None:
    for kind in TO_AGGREGATORS:
        refusal = refusal_from_record(call(aggregator.app, tmp_path, kind).content)
        assert refusal == Refusal(rule=Rule.MALFORMED)

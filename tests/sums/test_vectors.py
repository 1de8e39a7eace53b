"""The bytes of messages, what is signed in them, and terms: what another implementation must read and refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import frame
from consilium.protocol.records import from_record, to_record
from consilium.sums.packing import pack_message, unpack_message
from consilium.sums.secure.messages import (
    REPLIES,
    REQUESTS,
    AdvertiseReply,
    ConsistencyReply,
    Stage,
    UnmaskReply,
    advert_parts,
    adverts_digest,
    consistency_parts,
    masked_parts,
    self_commitment,
    set_digest,
)
from consilium.sums.secure.terms import MaskedTerms
from tests.sums.network import Federation, Network

MODELS = [*REQUESTS.values(), *REPLIES.values()]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """One message of each kind, of a session that was played."""
    federation = Federation(tmp_path_factory.mktemp("session"), 3)
    machine, network, found = federation.machine(), Network(federation, lost={Stage.UNMASK: []}), {}
    while machine.stage is not None:
        requests = machine.requests()
        replies = network.send(machine.stage, requests)
        found |= {type(message): message for message in (requests["party-001"], replies["party-001"])}
        machine.take(replies)
    return found


def malformed(message) -> list[tuple[str, object]]:
    """Fields with what they may not be; None: the field is missing."""
    bad: list[tuple[str, object]] = [("other", 1)]
    for name in type(message).model_fields:
        value = getattr(message, name)
        bad.append((name, None))
        if isinstance(value, bytes) and name != "descriptor":
            bad += [(name, value[1:]), (name, value + b"x"), (name, value.hex())]
        elif isinstance(value, int):
            bad += [(name, each) for each in (-1, 1000, "2", 2.0)]
        elif isinstance(value, np.ndarray):
            bad += [(name, value.astype(np.int64)), (name, value.reshape(-1, 1, 1))]
            if value.dtype == np.uint16 and value.ndim == 1 and len(value) > 1:
                bad += [(name, value[::-1].copy()), (name, np.full(2, 999, dtype=np.uint16))]
            elif value.dtype == np.uint8 and name != "proof":
                bad += [(name, value[:, 1:].copy()), (name, np.zeros((1001, value.shape[1]), dtype=np.uint8))]
    return bad


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_message_is_read_as_it_was_written_and_nothing_else_is(played: dict, model) -> None:
    message = played[model]
    assert pack_message(from_record(to_record(message), model)) == pack_message(message)
    content = pack_message(message)
    assert pack_message(unpack_message(content, model)) == content
    for damaged in (content[:-1], content + b"x", content[:20], b""):
        with pytest.raises(MalformedMessage):
            unpack_message(damaged, model)
    fields = {name: getattr(message, name) for name in model.model_fields}
    for name, value in malformed(message):
        changed = {key: each for key, each in {**fields, name: value}.items() if each is not None}
        with pytest.raises(ValueError):
            model(**changed)


def test_a_message_does_not_pass_for_another(played: dict) -> None:
    with pytest.raises(MalformedMessage, match="another kind"):
        unpack_message(pack_message(played[ConsistencyReply]), AdvertiseReply)
    with pytest.raises(MalformedMessage):
        from_record(to_record(played[ConsistencyReply]), UnmaskReply)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"queries":4', '"queries":0'),
        ('"ring":16', '"ring":8'),
        ('"ring":16', '"ring":16.0'),
        ('"sigma":3.0', '"sigma":0.0'),
        ('"sigma":3.0', '"sigma":NaN'),
        ('"sigma":3.0', '"sigma":3.00'),
        ('"noise_shares":2', '"noise_shares":0'),
        ('"phase":1', '"phase":3'),
        ('"teachers":2', '"teachers":"2"'),
        ('"version":2', '"version":1'),
        ('"version":2', '"version":2,"x":1'),
        ('"queries":4', '"queries": 4'),
        ('"lifetime":86400,', ""),
    ],
)
def test_malformed_terms(tmp_path: Path, old: str, new: str) -> None:
    content = Federation(tmp_path, 3).terms().canonical().decode()
    assert old in content
    with pytest.raises(MalformedMessage):
        MaskedTerms.parse(content.replace(old, new).encode())


def test_frames_are_unambiguous() -> None:
    frames = [frame("ab"), frame("a", b"b"), frame("a", b"b", b""), frame("a", b"", b"b"), frame("a", b"bb")]
    assert len(set(frames)) == 5


@pytest.mark.parametrize(
    ("statement", "arguments"),
    [
        (self_commitment, (b"c", 1, b"b")),
        (advert_parts, (b"c", 1, b"k")),
        (consistency_parts, (b"c", 1, b"1", b"2", b"3")),
        (masked_parts, (b"c", 1, b"1", b"2", np.ones((2, 2), dtype=np.uint16))),
        (set_digest, ("U2", b"c", np.array([1], dtype=np.uint16))),
        (adverts_digest, (b"c", np.array([1], dtype=np.uint16), np.ones((1, 2), np.uint8), np.ones((1, 3), np.uint8))),
    ],
)
def test_a_statement_depends_on_all_that_it_states(statement, arguments: tuple) -> None:
    for at, argument in enumerate(arguments):
        other = "U3" if isinstance(argument, str) else argument + b"x" if isinstance(argument, bytes) else argument + 1
        assert statement(*arguments[:at], other, *arguments[at + 1 :]) != statement(*arguments)

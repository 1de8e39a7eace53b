"""What `cost.wire` says is what encoded messages have, in Flower's own form, to two per cent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from benchmarks.cost import model
from benchmarks.cost.model import COSTED_MODES, CostedMode, Load
from consilium.protocol.choices import packed
from consilium.protocol.errors import ConfigError
from consilium.protocol.messages import VoteReply, VoteRequest, WireModel
from consilium.protocol.noise import SeededNoise
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import query_ids
from consilium.protocol.records import encode_array, to_record
from consilium.simulations.engines.flower import assume_identity
from consilium.sums.masks.machine import drive
from consilium.sums.masks.messages import SecAggMessage, Stage
from tests.protocol.verified.federation import VerifiedFederation
from tests.secagg.network import Federation, make_queries

CLOSE = 0.02
SHAPES = [(100, 100, 10, 1), (400, 37, 10, 3), (1200, 1200, 300, 1)]
"""Rows of the pool, rows that are asked, classes, teachers."""
HEX = "a" * 64


def encoded(content: RecordDict, kind: str) -> int:
    """Bytes of a message as Flower's nodes send it."""
    assume_identity(1, 1)
    message = Message(content, dst_node_id=2, message_type=kind)
    return sum(len(part.deflate()) for part in get_all_nested_objects(message).values())


def as_message(fields: dict[str, bytes | str | int], arrays: dict[str, np.ndarray]) -> int:
    """Bytes of a message with these values, as `records.to_record` makes them."""
    held = {name: encode_array(array) for name, array in arrays.items()}
    return encoded(RecordDict({"body": ConfigRecord({**fields}), "arrays": ArrayRecord(held)}), "query.test")


@pytest.mark.parametrize("queries, asked, classes, teachers", SHAPES)
def test_clear_votes(queries: int, asked: int, classes: int, teachers: int) -> None:
    rows, features = make_queries(queries, 7), 7
    ids = query_ids(rows)
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.choice(queries, asked, replace=False))
    places, proof = PoolTree(ids).prove([ids[row] for row in chosen])
    said = rng.integers(classes, size=(teachers, asked))
    told = VoteRequest(
        federation=HEX,
        query_set=HEX,
        ledger=HEX,
        batch=3,
        head=HEX,
        queries=rows[chosen],
        places=places,
        proof=proof,
        release=1,
        start="",
    )
    reply = VoteReply(party="party-0001", query_set=HEX, choices=packed(said, classes))
    load = Load(9, asked, classes, features, teachers, pool=queries)
    sent = model.clear(load)
    assert sent.up == pytest.approx(encoded(to_record(reply), reply.kind), rel=CLOSE)
    real = encoded(to_record(told), told.kind)
    slack = model.proof_bytes(load) - proof.nbytes  # a bound of what any choice of rows needs
    assert slack >= 0
    assert sent.down - slack == pytest.approx(real, rel=CLOSE)


@pytest.mark.parametrize("size, asked", [(1, 1), (2, 1), (7, 3), (64, 64), (100, 10), (129, 100)])
def test_the_bound_of_a_proof_holds_for_every_choice_that_was_tried(size: int, asked: int) -> None:
    ids = query_ids(make_queries(size))
    tree, bound = PoolTree(ids), model.proof_bytes(Load(2, asked, 2, pool=size))
    for seed in range(30):
        chosen = np.random.default_rng(seed).choice(size, asked, replace=False)
        assert tree.prove([ids[row] for row in chosen])[1].nbytes <= bound


@pytest.mark.slow
@pytest.mark.parametrize("parties, queries, classes", [(10, 50, 3), (30, 400, 10)])
@pytest.mark.parametrize("sigma", [0.0, 6.0, 4000.0])
def test_secure_sums_and_those_with_shares_of_noise(
    tmp_path: Path, parties: int, queries: int, classes: int, sigma: float
) -> None:
    noise = SeededNoise(1)
    federation = Federation(
        tmp_path,
        parties,
        classes,
        1,
        queries=make_queries(queries, 10),
        noise=lambda s, shape: noise.gaussian(s, shape),
    )
    terms = federation.terms(sigma=sigma, noise_shares=federation.roster.u_min if sigma else 0)
    gone, last = federation.names[: parties // 10], federation.names[-1]
    bytes_of: dict[str, int] = defaultdict(int)

    def send(stage: Stage, requests: Mapping[str, SecAggMessage]) -> dict[str, WireModel]:
        here = {name: each for name, each in requests.items() if stage is not Stage.MASKED or name not in gone}
        replies = {name: federation.serve(name, stage, each) for name, each in here.items()}
        bytes_of["down"] += encoded(to_record(here[last]), here[last].kind)
        bytes_of["up"] += encoded(to_record(replies[last]), replies[last].kind)
        return replies

    drive(federation.machine(terms), send)
    mode: CostedMode = "distributed" if sigma else "secure"
    sent = model.SENT[mode](Load(parties, queries, classes, sigma=sigma))
    assert (sent.up, sent.down) == pytest.approx((bytes_of["up"], bytes_of["down"]), rel=CLOSE)


@pytest.mark.parametrize("parties, queries, classes, teachers", [(9, 60, 4, 1), (70, 50, 10, 1), (8, 40, 3, 5)])
def test_verified_votes(parties: int, queries: int, classes: int, teachers: int) -> None:
    federation = VerifiedFederation(parties, queries, classes, teachers)
    leader, helper = federation.leader(), federation.helper()
    sid, there, back = bytes(16), [], []

    def carried(kept: list[int], content: bytes) -> bytes:
        answer = {"record": b"", "signature": b""} if kept is back else {}
        kept.append(as_message({"sid": sid, **answer}, {"content": np.frombuffer(content, dtype=np.uint8)}))
        return content

    def settle() -> None:
        while (batch := leader.batch()) is not None:
            leader.settle(carried(back, helper.check(carried(there, batch))))

    uploads = federation.uploads()
    for name, upload in uploads.items():
        leader.accept(name, upload)
        if leader.waiting == 32:
            settle()
    settle()
    leader.finish(carried(back, helper.give(carried(there, leader.ask()))))
    up = as_message({"sid": sid, "party": "party-0001"}, {"upload": np.frombuffer(uploads["h0"], dtype=np.uint8)})
    places, proof = np.zeros(0, dtype=np.uint32), np.zeros((0, 32), dtype=np.uint8)
    begun = as_message(
        {"terms": federation.session.canonical(), "signature": bytes(64)},
        {"queries": np.zeros((queries, 10), dtype=np.float32), "places": places, "proof": proof},
    )
    key, arrays = federation.keys().place(0), {"queries": np.zeros((queries, 10), dtype=np.float32)}
    asked = as_message(
        {
            "terms": federation.session.canonical(),
            "signature": bytes(64),
            "helper_key": key.public,
            "helper_signature": key.signature,
        },
        {**arrays, "places": places, "proof": proof},
    )
    keys = np.frombuffer(federation.keys().content, dtype=np.uint8)
    back.append(as_message({"sid": sid, "signed": 0}, {"keys": keys}))
    sent = model.verified(Load(parties, queries, classes, 10, teachers))
    assert sent.up == pytest.approx(up, rel=CLOSE)
    assert sent.down == pytest.approx(asked, rel=CLOSE)
    assert sent.to_second == pytest.approx(begun + sum(there), rel=CLOSE)
    assert sent.from_second == pytest.approx(sum(back), rel=CLOSE)


def test_a_false_formula_is_found() -> None:
    """The control: without the proof that its votes are votes an upload is shorter than what is sent."""
    federation = VerifiedFederation(3, 60, 4, 1)
    real = len(federation.uploads(["h0"])["h0"])
    assert 2 * federation.session.grid.cells < (1 - CLOSE) * real


@pytest.mark.parametrize("mode", COSTED_MODES)
def test_more_of_anything_is_never_fewer_bytes(mode: CostedMode) -> None:
    for one, other in (
        (Load(20, 100, 4), Load(20, 200, 4)),
        (Load(20, 100, 4), Load(20, 100, 5)),
        (Load(20, 100, 4), Load(20, 100, 4, features=11)),
        (Load(20, 100, 4), Load(20, 100, 4, teachers=2)),
        (Load(20, 100, 4, lost=0), Load(40, 100, 4, lost=0)),
    ):
        fewer, more = model.SENT[mode](one), model.SENT[mode](other)
        assert fewer.up <= more.up
        assert fewer.down <= more.down
        assert fewer.to_second <= more.to_second


@pytest.mark.parametrize(
    "numbers", [(1, 10, 2), (3, 0, 2), (3, 10, 1), (3, 10, 2, 0), (3, 10, 2, 4, 0), (3, 10, 2, 4, 1, 0, 1.0)]
)
def test_what_no_federation_has_is_refused(numbers: tuple) -> None:
    with pytest.raises(ConfigError, match=r"the least is|must be a share"):
        Load(*numbers)

"""Parties in blocks against parties with a home each: the same answers, refusals and accounts; and a block whose node
dies, is late, or sends nonsense, costs no party but the one at fault."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import Context, Error, Message, RecordDict

from consilium.coordinator.collection import exchange
from consilium.coordinator.collection.exchange import Failure, FlowerTransport
from consilium.node.answering import home_folder
from consilium.party.home import Policy, open_home
from consilium.party.node import PartyNode
from consilium.protocol.messages import HelloReply, TrainReply, VoteReply, WireModel
from consilium.protocol.queries import canonical_queries
from consilium.protocol.records import from_record, refusal_from_record, to_record
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.simulations.engines import block_app
from consilium.simulations.engines.block import Block, Settings, blocks_of, write_block
from consilium.simulations.engines.block_server import BlockTransport
from consilium.simulations.engines.flower import COORDINATOR_NODE, NodesGrid, assign_message_id, assume_identity
from tests.federation import (
    CLASSES,
    hello_of,
    make_config,
    make_home,
    make_homes,
    make_relative,
    make_rows,
    vote_request,
)

PARTIES = 20
QUERIES = canonical_queries(make_rows(30, 77)[0], 3)


def block_up(homes: list[Path], root: Path) -> list[Path]:
    """The same parties in blocks."""
    folders = []
    for number, places in enumerate(blocks_of(len(homes))):
        tables = [tomllib.loads((homes[index] / "party.toml").read_text()) for index in places]
        names = [table.pop("name") for table in tables]
        arrays = [dict(np.load(homes[index] / "data.npz")) for index in places]
        shared = {name: arrays[0][name] for name in ("features", "classes")}
        folder = root / f"{number:05d}"
        folder.mkdir(parents=True)
        settings = Settings(
            first=places.start,
            names=tuple(names),
            counts=tuple(len(part["y"]) for part in arrays),
            common={**tables[0], "data": "data.npz"},
            own={place: table for place, table in enumerate(tables) if table != tables[0]},
        )
        write_block(folder, settings, {key: [part[key] for part in arrays] for key in ("x", "y")}, shared)
        folders.append(folder)
    return folders


Spoil = Callable[[int, Message, int], Message | None]
"""What comes of a node's reply: from its number, the reply, and how often the node has answered; None: nothing."""


@dataclass
class BlockGrid(NodesGrid):
    """Nodes with blocks in this process. dies: kinds and names of parties at whose request the process ends."""

    root: Path
    count: int
    spoil: Spoil = lambda node, reply, turn: reply
    dies: frozenset[str] = frozenset()
    asked: list[tuple[int, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        assume_identity(1, COORDINATOR_NODE)
        super().__init__(1, {"party-root": str(self.root)}, self.count)
        self._replies: dict[str, Message] = {}
        self._turns = itertools.count()

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Answer at once, or never."""
        ids = []
        for message in messages:
            ids.append(assign_message_id(message))
            node = message.metadata.dst_node_id
            context = self._contexts[node]
            if (reply := self._answered(message, context)) is not None:
                reply = self.spoil(node, reply, next(self._turns))
            if reply is not None:
                self._replies[ids[-1]] = reply
        return ids

    def _answered(self, message: Message, context: Context) -> Message | None:
        if block_app.BLOCK in message.content:
            asked = block_app.BlockRequest.of_record(message.content)
            names = Block.open(home_folder(context)).settings.names
            self.asked.append((context.node_id, asked.asked, len(asked.places)))
            if asked.asked == "query.vote" and self.dies & {names[place] for place in asked.places}:
                return Message(Error(code=8, reason="worker process died"), reply_to=message)
        return block_app.app(message, context)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """What is there."""
        return [self._replies.pop(each) for each in message_ids if each in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Not used."""
        raise NotImplementedError


def ask(transport: BlockTransport, request: WireModel, seconds: float = 250.0) -> dict[int, RecordDict | Failure]:
    steps: list[tuple[int, int]] = []
    nodes = transport.nodes()
    replies = list(transport.exchange(dict.fromkeys(nodes, request), seconds, lambda *step: steps.append(step)))
    assert sorted(node for node, _ in replies) == nodes  # each once, whatever happens
    assert [done for done, _ in steps] == list(range(1, len(replies) + 1))
    return dict(replies)


def said_by(node: PartyNode, request: Any) -> WireModel | Refusal:
    actions = {"query.hello": node.hello, "train.teacher": node.train, "query.vote": node.vote}
    try:
        return actions[request.kind](from_record(to_record(request), type(request)))
    except Refused as error:
        return error.refusal


REPLIES = {"query.hello": HelloReply, "train.teacher": TrainReply, "query.vote": VoteReply}


def read(record: RecordDict | Failure, kind: str) -> Any:
    assert isinstance(record, RecordDict)
    refusal = refusal_from_record(record)
    if refusal is not None:
        return refusal
    return from_record(record, REPLIES[kind])


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, VoteReply):
        assert (one.party, one.query_set) == (other.party, other.query_set)
        np.testing.assert_array_equal(one.choices, other.choices)
    else:
        assert one == other


@pytest.mark.parametrize("teachers", [1, 3])
def test_the_same_answers_refusals_and_accounts_as_with_a_home_each(tmp_path: Path, teachers: int) -> None:
    """Also of parties whose policy, rows or limits differ, in two federations, asked twice, and beyond their limits."""
    homes = make_homes(tmp_path / "homes", PARTIES - 6, most_teachers=3)
    homes += [
        make_home(tmp_path / "homes" / "e", "few-queries", seed=50, most_queries=10, most_teachers=3),
        make_home(tmp_path / "homes" / "f", "no-simulation", seed=51, allow_simulation=False, most_teachers=3),
        make_home(tmp_path / "homes" / "g", "little-epsilon", seed=52, most_epsilon=0.1, most_teachers=3),
        make_home(tmp_path / "homes" / "h", "few-rows", seed=53, rows=4, most_teachers=3),
        make_home(tmp_path / "homes" / "i", "one-teacher", seed=54, most_teachers=1),
        make_home(tmp_path / "homes" / "j", "odd-rows", seed=55, most_teachers=3),
    ]
    odd = dict(np.load(homes[-1] / "data.npz"))
    odd["x"][3, 1] = np.nan
    np.savez(homes[-1] / "data.npz", **odd)
    folders = block_up(homes, tmp_path / "blocks")
    parties = [PartyNode(open_home(home)) for home in homes]
    transport = BlockTransport(FlowerTransport(BlockGrid(tmp_path / "blocks", len(folders))))
    first, second = make_config(teachers_per_party=teachers), make_relative(name="second", teachers_per_party=teachers)
    moved = {"ledger": "0" * 64, "batch": 3, "head": "a" * 64}
    back = {"ledger": "0" * 64, "batch": 2, "head": "a" * 64}
    requests = [
        first.train_request(),
        hello_of(first),
        hello_of(first),
        hello_of(first, ledger="e" * 64),
        vote_request(first, QUERIES[:8]),
        first.train_request(),
        second.train_request(),
        vote_request(first, QUERIES[:8]),
        vote_request(first, QUERIES[:8]),
        vote_request(first, QUERIES[4:20]),
        hello_of(second),
        second.train_request(),
        vote_request(second, QUERIES[:12]),
        vote_request(first, QUERIES[:2], **moved),
        vote_request(first, QUERIES[:2], **back),
        vote_request(first, np.concatenate([QUERIES[:1], QUERIES[:1]]), **moved),
        vote_request(first, QUERIES[:2], query_set="f" * 64, **moved),
    ]
    rules = set()
    for request in requests:
        kind = request.kind
        answers = ask(transport, request)
        for index, party in enumerate(parties):
            expected = said_by(party, request)
            assert_same(read(answers[COORDINATOR_NODE + 1 + index], kind), expected)
            if isinstance(expected, Refusal):
                rules.add(expected.rule)
    assert {Rule.PROMISE, Rule.LEDGER, Rule.MALFORMED, Rule.NOT_TRAINED, Rule.MOST_QUERIES} <= rules
    assert {Rule.SIMULATION, Rule.MOST_EPSILON, Rule.LEAST_ROWS} <= rules
    assert (Rule.MOST_TEACHERS in rules) == (teachers > 1)
    blocks = [Block.open(folder) for folder in folders]
    nodes = [block.node(place) for block in blocks for place in range(len(block.settings.names))]
    for party, node in zip(parties, nodes, strict=True):
        assert node.home.policy == party.home.policy
        assert node.spend.answered() == party.spend.answered()
        for config in (first, second):
            assert node.spend.past(config.digest()) == party.spend.past(config.digest())
            assert node.spend.answered_in(config.digest()) == party.spend.answered_in(config.digest())


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., BlockTransport]:
    """Makes a transport to parties that enrolled and trained; its grid is `grid` of it."""
    homes = make_homes(tmp_path / "homes", PARTIES)
    folders = block_up(homes, tmp_path / "blocks")

    def make(**grid: Any) -> BlockTransport:
        quiet = BlockTransport(FlowerTransport(BlockGrid(tmp_path / "blocks", len(folders))))
        for request in (hello_of(make_config()), make_config().train_request()):
            assert not any(isinstance(reply, Failure) for reply in ask(quiet, request).values())
        made = BlockGrid(tmp_path / "blocks", len(folders), **grid)
        transport = BlockTransport(FlowerTransport(made))
        transport.nodes()
        cast(Any, transport).grid = made
        return transport

    return make


VOTE = vote_request(make_config(), QUERIES)


def counted(folder: Path) -> list[int]:
    """How many queries each party was charged."""
    blocks = [Block.open(path) for path in sorted((folder / "blocks").iterdir())]
    return [block.node(place).spend.answered() for block in blocks for place in range(len(block.settings.names))]


def test_one_message_for_a_block(small) -> None:
    transport = small()
    ask(transport, VOTE)
    sizes = [len(places) for places in blocks_of(PARTIES)]
    assert transport.grid.asked == [(COORDINATOR_NODE + 1 + index, "query.vote", n) for index, n in enumerate(sizes)]


def test_who_ends_the_process_is_left_out_alone_and_nobody_is_charged_twice(tmp_path: Path, small) -> None:
    transport = small(dies=frozenset({"p04", "p19"}))
    replies = ask(transport, VOTE)
    failed = {node - COORDINATOR_NODE - 1: reply for node, reply in replies.items() if isinstance(reply, Failure)}
    assert {index: reply.reason for index, reply in failed.items()} == {4: "node crashed", 19: "node crashed"}
    assert counted(tmp_path) == [0 if index in failed else len(QUERIES) for index in range(PARTIES)]


def test_a_reply_that_never_comes_costs_its_block_and_no_other(tmp_path: Path, small, monkeypatch) -> None:
    def drop(node: int, reply: Message, turn: int) -> Message | None:
        return None if node == COORDINATOR_NODE + 2 and block_app.BLOCK not in reply.content else reply

    transport = small(spoil=drop)
    replies = ask(transport, VOTE, seconds=1.0)
    lost = blocks_of(PARTIES)[1]
    for node, reply in replies.items():
        assert isinstance(reply, Failure) == (node - COORDINATOR_NODE - 1 in lost)
        if isinstance(reply, Failure):
            assert (reply.reason, reply.silent) == ("no answer within 1 s", True)
    # it was given, and counts: asked again, the same votes come and cost nothing more
    again = ask(small(), VOTE)
    assert not any(isinstance(reply, Failure) for reply in again.values())
    assert counted(tmp_path) == [len(QUERIES)] * PARTIES


@pytest.mark.parametrize("what", ["nothing", "another place", "a part"])
def test_a_reply_that_is_none_is_a_named_failure_of_each(small, what: str) -> None:
    def spoil(node: int, reply: Message, turn: int) -> Message:
        if node != COORDINATOR_NODE + 1 or block_app.BLOCK in reply.content:
            return reply
        parts = block_app.parted(reply.content)
        kept = {
            "nothing": {},
            "another place": {str(int(place) + 1000): part for place, part in parts.items()},
            "a part": {place: RecordDict({"body": part["body"]}) for place, part in parts.items()},
        }[what]
        reply.content.clear()
        reply.content.update(block_app.joined(kept))
        return reply

    transport = small(spoil=spoil)
    nodes = transport.nodes()
    replies = exchange.exchange(transport, dict.fromkeys(nodes, VOTE), VoteReply, 250.0, lambda *_: None)
    spoiled = {COORDINATOR_NODE + 1 + index for index in blocks_of(PARTIES)[0]}
    assert set(replies.failures) == spoiled
    assert all(failure.reason.startswith("malformed answer") for failure in replies.failures.values())
    assert set(replies.answers) == set(nodes) - spoiled


def test_what_was_given_is_written_down_before_anything_leaves(tmp_path: Path, small, monkeypatch) -> None:
    """A block that cannot be written answers nothing: each of its parties refuses, and none is charged."""
    transport = small()

    def full(self: Block) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Block, "save", full)
    for reply in ask(transport, VOTE).values():
        assert read(reply, "query.vote") == Refusal(rule=Rule.STORAGE)
    assert counted(tmp_path) == [0] * PARTIES


@pytest.mark.parametrize(("collection", "stays"), [("plaintext", False), ("secure", True), ("distributed", True)])
def test_a_session_on_disk_never_knows_more_than_the_account(tmp_path: Path, collection: str, stays: bool) -> None:
    """The process dies before the block is written: what a masked session has on the party's disk was charged there."""
    homes = make_homes(tmp_path / "homes", 2, collection=collection)
    (folder, *_) = block_up(homes, tmp_path / "blocks")
    policy = Policy(allowed_classes=CLASSES, most_epsilon=1e9)
    Block.open(folder).node(0).spend.enrol(make_config().terms(), "a" * 64, policy)
    spend, federation = Block.open(folder).node(0).spend, make_config().digest()
    if stays:
        assert spend.terms(federation) == make_config().terms()
    else:
        with pytest.raises(Refused):
            spend.terms(federation)

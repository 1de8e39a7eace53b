"""What a hidden sum costs each node, beside a plain sum and beside Flower's SecAgg+; and what one liar does to one.

    python -m benchmarks.hidden_sums [10x300x2 ...]      # without a size: all of them, and the liar

A sum is parties x queries x classes, the votes of one teacher each. All nodes are in this process, one after the other,
and read each message from the record that Flower sends; sizes are those of the records. One party in ten is lost: after
it has dealt its shares, in `verified` before its upload. A party's milliseconds are the mean of three that stay, each
of which checks all signatures by itself. Noise is a simulation's, of little cost; the system's takes 15 microseconds a
count more. In brackets: how many times the lower limit, one X25519 agreement and one AES-CTR keystream a peer. SecAgg+
is Flower's own workflow and mod, with the threshold of `secure`, all parties neighbours.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.common.serde import recorddict_to_proto
from flwr.compat.common.recorddict_compat import fitres_to_recorddict
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow

from benchmarks.results import command_of, spread, student_interval, table
from consilium.party.store import Store
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import WireModel
from consilium.protocol.noise import SeededNoise
from consilium.protocol.queries import query_ids
from consilium.protocol.records import decode_array, encode_array, from_record, to_record
from consilium.simulations.attack.attacks import AttackedRun, poisoned_students
from consilium.simulations.divide import make_case
from consilium.simulations.engines.flower import COORDINATOR_NODE, RUN_ID, assign_message_id, assume_identity
from consilium.simulations.scenario import load_scenario
from consilium.sums.modes import ANSWERS
from consilium.sums.roster import AggregatorEntry, Roster, VerifiedRoster, least_rebuilders
from consilium.sums.secure import masks, messages, party
from consilium.sums.secure.coordinator import SecureSession, State, drive
from consilium.sums.verified.aggregators import Helper, Leader
from consilium.sums.verified.messages import UploadReply, UploadRequest
from consilium.sums.verified.uploads import VerifiedTerms, sign_key

SIZES = {"300x2": (10, 50, 100, 200, 371, 1000), "10000x10": (10, 50, 200)}
SUMS = [f"{parties}x{rest}" for rest, numbers in SIZES.items() for parties in numbers]
SAMPLE, MOST_SECAGG, FEATURES, SIGMA, BATCH, HELPER, DIGEST = 3, 100, 10, 100.0, 64, "helper", "f" * 64
"""Parties that are measured, and with SecAgg+ at most; columns of the queries; noise; uploads that are checked at once;
the node's name; the federation's digest."""
CACHES = [each for module in (messages, masks, party) for each in vars(module).values() if hasattr(each, "cache_clear")]
"""What remembers public keys and signatures of others."""


class Game:
    """Parties with votes on made-up rows, and what a session costs: processor milliseconds of nodes, kB that parties
    send and get. votes: of each party, uint16 (queries, classes). stay: all but the first tenth."""

    roster: Roster | VerifiedRoster

    def __init__(self, parties: int, queries: int, classes: int) -> None:
        draw, noise, self.classes = np.random.default_rng(0), SeededNoise(0), classes
        chosen = np.eye(classes, dtype=np.uint16)[draw.integers(classes, size=(parties, queries))]
        self.votes = {f"party-{place:04d}": votes for place, votes in enumerate(chosen)}
        self.rows = draw.normal(size=(queries, FEATURES)).astype(np.float32)
        self.stay, self.sum = list(self.votes)[parties // 10 :], chosen[parties // 10 :].sum(axis=0, dtype=np.int64)
        keys = {name: Identity.generate() for name in self.votes}
        self.public = {name: key.public.hex() for name, key in keys.items()}
        same = {"roster": lambda _: self.roster, "check": lambda _: None, "noise": lambda _: noise}
        self.voters = dict[str, Any]()
        for name, key in keys.items():
            own = {"name": name, "identity": key, "store": Store.in_memory()}
            self.voters[name] = SimpleNamespace(**same, **own, votes=lambda *_, again, name=name: self.votes[name])
        self.took, self.up, self.down = (defaultdict[str, float](float) for _ in range(3))
        self.began = time.process_time()

    def timed(self, name: str, work: Callable[..., Any], *arguments: object) -> Any:
        """What a node does."""
        begun = time.process_time()
        result = work(*arguments)
        self.took[name] += (time.process_time() - begun) * 1e3
        return result

    def exchange(self, name: str, request: RecordDict, answer: Callable[[RecordDict], RecordDict]) -> RecordDict:
        """A party's answer."""
        for each in CACHES if name in self.stay[:SAMPLE] else ():
            each.cache_clear()
        reply = self.timed(name, answer, request)
        for sizes, record in ((self.down, request), (self.up, reply)):
            sizes[name] += recorddict_to_proto(record).ByteSize() / 1e3
        return reply

    def ask(self, name: str, kind: type[WireModel], request: RecordDict, reply: type[WireModel]) -> Any:
        """The same of a message of this kind, as a `sums.terms.Voter` that refuses nothing answers it."""
        voter, answer = self.voters[name], ANSWERS[kind]
        return from_record(
            self.exchange(name, request, lambda r: to_record(answer(voter, from_record(r, kind)))), reply
        )

    def cells(self, limit: float) -> tuple[str, str, str]:
        """A party's milliseconds, and how many times the limit; coordinator's and helper's; a party's kB sent, got."""
        rest = (time.process_time() - self.began) * 1e3 - sum(self.took.values())
        costs = self.took, self.up, self.down
        own, up, down = (sum(each[name] for name in self.stay[:SAMPLE]) / SAMPLE for each in costs)
        helper = f"+{digits(self.took[HELPER])}" if HELPER in self.took else ""
        return f"{digits(own)} ({own / limit:.1f})", digits(rest) + helper, f"{digits(up)}/{digits(down)}"


def digits(number: float) -> str:
    """Three of them."""
    return f"{float(f'{number:.3g}'):,.12g}"


def plain(game: Game) -> np.ndarray:
    """The sum of votes that the coordinator reads."""

    def sent(array: np.ndarray) -> RecordDict:
        return RecordDict({"": ArrayRecord({"": encode_array(array)})})

    def read(record: RecordDict) -> np.ndarray:
        return decode_array(record.array_records[""][""])

    request, total = sent(game.rows), np.zeros_like(game.sum)
    for name in game.stay:
        total += read(
            game.exchange(name, request, lambda record, name=name: sent(game.votes[name][: len(read(record))]))
        )
    return total


def secure(game: Game) -> np.ndarray:
    """The sum under masks."""
    signer = Identity.generate()
    game.roster = roster = Roster.build(game.public, signer.public.hex())
    game.began = time.process_time()
    same = {"sigma": SIGMA, "noise_shares": roster.sure}
    terms = messages.MaskedTerms.of_queries(roster, DIGEST, game.rows, game.classes, 1, **same)

    def send(stage: messages.Stage, requests: Mapping[str, WireModel]) -> dict[str, Any]:
        there, encoded = game.stay if stage is messages.Stage.MASKED else requests, dict[int, Array]()
        sent = {name: (type(each), to_record(each, encoded)) for name, each in requests.items() if name in there}
        return {name: game.ask(name, *each, messages.REPLIES[stage]) for name, each in sent.items()}

    return drive(SecureSession(roster, signer, State(terms, tuple(game.votes)), game.rows), send).sums


def verified(game: Game) -> np.ndarray:
    """The sum by two aggregators."""
    first, second = (Identity.generate() for _ in range(2))
    own, other, fresh, other_fresh = (SealingKey.generate() for _ in range(4))
    entry = AggregatorEntry(ed25519_pk=second.public.hex(), x25519_pk=other.public.hex())
    roster = VerifiedRoster.build(game.public, first.public.hex(), sealing=own.public.hex(), second=entry)
    game.roster, game.began = roster, time.process_time()
    same = {"sigma": SIGMA, "leader_key": fresh.public.hex()}
    terms = VerifiedTerms.of_queries(roster, DIGEST, game.rows, game.classes, 1, **same)
    key = {"helper_key": other_fresh.public, "helper_signature": sign_key(second, terms.ctx, other_fresh.public)}
    nowhere = {"places": np.zeros(0, dtype=np.uint32), "proof": np.zeros((0, 32), dtype=np.uint8)}
    sent = UploadRequest(terms=terms.canonical(), signature=terms.sign(first), queries=game.rows, **key, **nowhere)
    request = to_record(sent)
    leader = Leader(terms, roster, own, fresh, other_fresh.public)
    helper = game.timed(HELPER, Helper, terms, roster, other, other_fresh)
    for start in range(0, len(game.stay), BATCH):
        names = game.stay[start : start + BATCH]
        replies = {roster.place(name): game.ask(name, UploadRequest, request, UploadReply) for name in names}
        batch = leader.batch({place: reply.upload.tobytes() for place, reply in replies.items()})
        leader.settle(game.timed(HELPER, helper.check, batch))
    question = leader.ask(SeededNoise(1))
    given, _ = game.timed(HELPER, helper.give, question.sealed, query_ids(game.rows), SeededNoise(2))
    return leader.finish(question, given).sums


def flower(game: Game) -> np.ndarray:
    """The sum by SecAgg+: Flower's workflow, with a grid that hands each message to its party."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    names = dict(enumerate(game.votes, COORDINATOR_NODE + 1))
    kept = {node: Context(RUN_ID, node, {}, RecordDict(), {}) for node in names}

    def fitted(message: Message, context: Context) -> Message:
        votes = ndarrays_to_parameters([game.votes[names[context.node_id]].astype(np.float32)])
        return Message(fitres_to_recorddict(FitRes(Status(Code.OK, ""), votes, 1, {}), False), reply_to=message)

    def delivered(message: Message) -> Message:
        node, settings = message.metadata.dst_node_id, message.content.config_records[RECORD_KEY_CONFIGS]
        # the mod takes out of its message what the next party gets, too
        content = RecordDict({**message.content, RECORD_KEY_CONFIGS: ConfigRecord(dict(settings))})
        copy = Message(content, dst_node_id=node, message_type=message.metadata.message_type)
        assign_message_id(copy)
        if settings[Key.STAGE] == Stage.COLLECT_MASKED_VECTORS and names[node] not in game.stay:
            return Message(Error(code=2), reply_to=copy)
        answer = game.exchange(names[node], content, lambda _: secaggplus_mod(copy, kept[node], fitted).content)
        return Message(answer, reply_to=copy)

    means, start = list[Any](), ArrayRecord([np.zeros_like(game.sum, dtype=np.float32)])
    strategy: Any = SimpleNamespace(
        configure_fit=lambda _, start, __: [(SimpleNamespace(node_id=node), FitIns(start, {})) for node in names],
        aggregate_fit=lambda _, results, __: (means.append(results[0][1].parameters), {}),
    )
    state = RecordDict({"config": ConfigRecord({"current_round": 1}), "parameters": start})
    assume_identity(RUN_ID, COORDINATOR_NODE)
    grid: Any = SimpleNamespace(send_and_receive=lambda messages, timeout: list(map(delivered, messages)))
    workflow = SecAggPlusWorkflow(1.0, least_rebuilders(len(names), 0), max_weight=1.0, clipping_range=1.0)
    workflow(grid, LegacyContext(Context(RUN_ID, COORDINATOR_NODE, {}, state, {}), strategy=strategy))
    return np.rint(parameters_to_ndarrays(means[0])[0] * len(game.stay)).astype(np.int64)


PROTOCOLS = {"plain sum": plain, "secure": secure, "verified": verified, "SecAgg+": flower}


def costs(parties: int, queries: int, classes: int) -> list[Sequence[str | None]]:
    """For the lower limit and each protocol a cell of each table; None where it is not measured."""
    own, peer = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    zeros, begun = bytes(2 * queries * classes), time.process_time()
    for _ in range(parties - 1):
        Cipher(algorithms.AES(own.exchange(peer)), modes.CTR(bytes(16))).encryptor().update(zeros)
    limit = (time.process_time() - begun) * 1e3
    cells: list[Sequence[str | None]] = [(digits(limit), None, None)]
    for name, play in PROTOCOLS.items():
        game = None if play is flower and parties > MOST_SECAGG else Game(parties, queries, classes)
        if game and np.abs(play(game) - game.sum).max() > 18 * SIGMA:
            raise RuntimeError(f"{name} gives another sum than that of the votes")
        cells.append(game.cells(limit) if game else [None] * 3)
    return cells


def liar(seeds: Sequence[int], command: str) -> None:
    """What the student of `stroke-secure` is worth if one party sends a masked vector that is no vote."""
    cases = [make_case(load_scenario("stroke-secure"), seed, 0.0) for seed in seeds]
    played = [poisoned_students(AttackedRun(case), seed) for case, seed in zip(cases, seeds, strict=True)]
    honest, few, *_, unseen = zip(*played, strict=True)
    named = {"nobody lies": honest, f"{few[0].liars} liars with true votes": few, "one unseen liar under masks": unseen}
    columns = f"of {len(cases[0].parties)} hospitals", "student", "95 % interval"
    split = "AUC on patients of hospitals that took no part; nothing was chosen here"
    with table("liar", command, columns, split=split, seeds=seeds) as rows:
        for name, results in named.items():
            values = [result.value for result in results if result.value is not None]
            rows.add(name, spread(values), "{:.3f} to {:.3f}".format(*student_interval(values)))


def main(sizes: Sequence[str] = ()) -> None:
    """Measure, and print the tables."""
    command = command_of("benchmarks.hidden_sums", sizes)
    if not sizes:
        liar(range(3), command)
    measured = {size: costs(*map(int, size.split("x"))) for size in sizes or SUMS}
    for place, title in enumerate(("party", "coordinator", "bytes")):
        first = min(place, 1)  # the limit is one of a party's time
        columns = "parties x queries x classes", *["lower limit", *PROTOCOLS][first:]
        with table(f"hidden-sums-{title}", command, columns, split="made-up votes; nothing is judged") as rows:
            for size, cells in measured.items():
                rows.add(size, *(each[place] for each in cells[first:]))


if __name__ == "__main__":
    main(sys.argv[1:])

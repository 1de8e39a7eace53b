"""What a hidden sum costs each node, beside a plain sum and beside Flower's SecAgg+; and what one liar does to one.

    python -m benchmarks.hidden_sums [--sums 10x300x2 ...] [--flower 10x300x2 ...] [--liars 0 1 2]

A sum is parties x queries x classes, the votes of one teacher each. All nodes are in this process, one after the other,
and read each message from the record that Flower sends; sizes are those of the records. One party in ten is lost: after
it has dealt its shares, in `verified` before its upload. A party's milliseconds are the mean of three that stay, each
of which checks all signatures by itself. Noise is a simulation's, of little cost; the system's takes 15 microseconds a
count more. In brackets stands how many times that is the lower limit: one X25519 agreement and one AES-CTR keystream a
peer. SecAgg+ is Flower's own workflow and mod, with the threshold of `secure`, all parties neighbours.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation import secaggplus_constants as secaggplus
from flwr.common.serde import recorddict_to_proto
from flwr.compat.common import recorddict_compat as compat
from flwr.server.client_manager import SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow

from benchmarks.results import command_of, spread, student_interval, table
from consilium.party.store import Store
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import WireModel
from consilium.protocol.noise import SeededNoise
from consilium.protocol.queries import query_ids
from consilium.protocol.records import decode_array, encode_array, from_record, to_record
from consilium.simulations.attack.liars import poisoned_students
from consilium.simulations.attack.targets import AttackedRun
from consilium.simulations.divide import make_case
from consilium.simulations.engines.flower import COORDINATOR_NODE, RUN_ID, assign_message_id, assume_identity
from consilium.simulations.scenario import load_scenario
from consilium.sums.modes import ANSWERS
from consilium.sums.roster import AggregatorEntry, Roster, VerifiedRoster, least_rebuilders
from consilium.sums.secure import messages, pairs, party
from consilium.sums.secure.coordinator import SecureSession, drive
from consilium.sums.secure.terms import KeyTerms, MaskedTerms
from consilium.sums.verified.aggregators import Helper, Leader
from consilium.sums.verified.messages import UploadReply, UploadRequest
from consilium.sums.verified.sealing import sign_key
from consilium.sums.verified.terms import VerifiedTerms

SUMS = (
    "10x300x2",
    "50x300x2",
    "100x300x2",
    "200x300x2",
    "371x300x2",
    "1000x300x2",
    "10x10000x10",
    "50x10000x10",
    "200x10000x10",
)
FLOWER = ("10x300x2", "50x300x2", "100x300x2", "10x10000x10", "50x10000x10")
SAMPLE, FEATURES, SIGMA, BATCH, HELPER = 3, 10, 100.0, 64, "helper"
"""Parties that are measured; columns of the queries; noise; uploads that are checked at once; the node's name."""
NO_POOL = {"places": np.zeros(0, dtype=np.uint32), "proof": np.zeros((0, 32), dtype=np.uint8)}
CHECKED = [
    each for module in (messages, pairs, party) for each in vars(module).values() if hasattr(each, "cache_clear")
]
"""What remembers public keys and signatures of others."""
COLUMNS = "parties x queries x classes"
LIAR_SPLIT = "AUC on patients of hospitals that took no part; nothing was chosen here"
T = TypeVar("T")
Votes = Mapping[str, np.ndarray]
"""Of each party, uint16 (queries, classes)."""


class Meter:
    """Processor seconds of nodes, and bytes that parties send and get, in a session. stay: but for the first tenth."""

    def __init__(self, names: Sequence[str]) -> None:
        self.stay = names[len(names) // 10 :]
        self.seconds, self.up, self.down = (defaultdict[str, float](float) for _ in range(3))
        self.began = time.process_time()

    def timed(self, name: str, work: Callable[..., T], *arguments: object) -> T:
        """What a node does."""
        begun = time.process_time()
        result = work(*arguments)
        self.seconds[name] += time.process_time() - begun
        return result

    def asked(self, name: str, request: RecordDict, answer: Callable[[RecordDict], RecordDict]) -> RecordDict:
        """A party's answer."""
        if name in self.stay[:SAMPLE]:
            for each in CHECKED:
                each.cache_clear()
        reply = self.timed(name, answer, request)
        self.down[name] += recorddict_to_proto(request).ByteSize()
        self.up[name] += recorddict_to_proto(reply).ByteSize()
        return reply

    def cells(self, limit: float) -> tuple[str, str, str]:
        """Milliseconds of a party, and how many times the limit; of the coordinator, and of the helper; kB up and down
        of a party."""
        rest = time.process_time() - self.began - sum(self.seconds.values())
        alone = self.stay[:SAMPLE]
        own, up, down = (float(np.mean([each[name] for name in alone])) for each in (self.seconds, self.up, self.down))
        helper = f"+{digits(self.seconds[HELPER] * 1e3)}" if HELPER in self.seconds else ""
        first = f"{digits(own * 1e3)} ({own * 1e3 / limit:.1f})"
        return first, digits(rest * 1e3) + helper, f"{digits(up / 1e3)}/{digits(down / 1e3)}"


def digits(number: float) -> str:
    """Three of them.

    >>> digits(12345.6), digits(3.14159)
    ('12,300', '3.14')
    """
    return f"{float(f'{number:.3g}'):,.12g}"


def lower_limit(votes: Votes) -> float:
    """Processor milliseconds of one agreement and one keystream of 16-bit cells for each peer."""
    own, peer = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    zeros, begun = bytes(2 * next(iter(votes.values())).size), time.process_time()
    for _ in range(len(votes) - 1):
        Cipher(AES(own.exchange(peer)), CTR(bytes(16))).encryptor().update(zeros)
    return (time.process_time() - begun) * 1e3


def questions(votes: Votes) -> tuple[np.ndarray, int]:
    """Made-up rows, float32 (queries, features), and how many classes there are."""
    count, classes = next(iter(votes.values())).shape
    return np.random.default_rng(0).normal(size=(count, FEATURES)).astype(np.float32), classes


def plain(votes: Votes, meter: Meter) -> np.ndarray:
    """The sum of votes that the coordinator reads."""
    request = RecordDict({"sent": ArrayRecord({"sent": encode_array(questions(votes)[0])})})
    total = np.zeros_like(next(iter(votes.values())), dtype=np.int64)
    for name in meter.stay:

        def answer(record: RecordDict, given: np.ndarray = votes[name]) -> RecordDict:
            decode_array(record.array_records["sent"]["sent"])
            return RecordDict({"sent": ArrayRecord({"sent": encode_array(given)})})

        total += decode_array(meter.asked(name, request, answer).array_records["sent"]["sent"])
    return total


def voters(votes: Votes, build: Callable[[dict[str, str]], Any]) -> tuple[dict[str, Any], Any]:
    """For each party a `sums.voter.Voter` that refuses nothing, with new keys; and the roster that is built of them."""
    keys, noise = {name: Identity.generate() for name in votes}, SeededNoise(0)
    roster = build({name: key.public.hex() for name, key in keys.items()})
    common = {"roster": lambda _: roster, "check": lambda _: None, "noise": lambda _: noise}
    return {
        name: SimpleNamespace(
            **common, name=name, identity=key, store=Store.in_memory(), votes=lambda *_, given=votes[name], again: given
        )
        for name, key in keys.items()
    }, roster


def answered(voter: Any, kind: type[WireModel], record: RecordDict) -> RecordDict:
    """From bytes to bytes."""
    return to_record(ANSWERS[kind](voter, from_record(record, kind)))


def secure(votes: Votes, meter: Meter, sums: int = 1) -> np.ndarray:
    """The last sum of a session of so many."""
    signer, (queries, classes) = Identity.generate(), questions(votes)
    parties, roster = voters(votes, lambda keys: Roster.build(keys, signer.public.hex()))
    meter.began = time.process_time()
    terms = KeyTerms.create(roster, "f" * 64, rounds=tuple(range(1, sums + 1)))
    session = SecureSession.begin(roster, signer, terms, votes)

    def send(stage: messages.Stage, requests: Mapping[str, WireModel]) -> dict[str, Any]:
        replies, encoded = dict[str, Any](), dict[int, Array]()
        for name, request in requests.items():
            if stage is not messages.Stage.MASKED or name in meter.stay:
                answer = partial(answered, parties[name], type(request))
                reply = meter.asked(name, to_record(request, encoded), answer)
                replies[name] = from_record(reply, messages.REPLIES[stage])
        return replies

    for round_ in terms.rounds:
        same = {"sid": terms.sid, "round": round_, "sigma": SIGMA, "noise_shares": roster.sure}
        session.ask(MaskedTerms.of_queries(roster, "f" * 64, queries, classes, 1, **same), queries)
        result = drive(session, send)
    return result.sums


def verified(votes: Votes, meter: Meter) -> np.ndarray:
    """The sum by two aggregators."""
    signers, (queries, classes) = [Identity.generate() for _ in range(2)], questions(votes)
    own, other, fresh, other_fresh = (SealingKey.generate() for _ in range(4))
    second = AggregatorEntry(ed25519_pk=signers[1].public.hex(), x25519_pk=other.public.hex())
    pinned = {"coordinator": signers[0].public.hex(), "sealing": own.public.hex(), "second": second}
    parties, roster = voters(votes, lambda keys: VerifiedRoster.build(keys, **pinned))
    meter.began, same = time.process_time(), {"sigma": SIGMA, "leader_key": fresh.public.hex()}
    terms = VerifiedTerms.of_queries(roster, "f" * 64, queries, classes, 1, **same)
    key = {"helper_key": other_fresh.public, "helper_signature": sign_key(signers[1], terms.ctx, other_fresh.public)}
    signed = {"terms": terms.canonical(), "signature": terms.sign(signers[0])}
    request = to_record(UploadRequest(**signed, **key, queries=queries, **NO_POOL))
    leader = Leader(terms, roster, own, fresh, other_fresh.public)
    helper = meter.timed(HELPER, Helper, terms, roster, other, other_fresh)
    for start in range(0, len(meter.stay), BATCH):
        uploads = {}
        for name in meter.stay[start : start + BATCH]:
            reply = meter.asked(name, request, partial(answered, parties[name], UploadRequest))
            uploads[roster.place(name)] = from_record(reply, UploadReply).upload.tobytes()
        leader.settle(meter.timed(HELPER, helper.check, leader.batch(uploads)))
    question = leader.ask(SeededNoise(1))
    given, _ = meter.timed(HELPER, helper.give, question.sealed, query_ids(queries), SeededNoise(2))
    return leader.finish(question, given).sums


class FlowerParties:
    """Flower's grid, for its workflow. kept: what a party's app remembers between messages."""

    def __init__(self, votes: Votes, meter: Meter) -> None:
        self.votes, self.meter = votes, meter
        self.names = dict(enumerate(votes, COORDINATOR_NODE + 1))
        self.kept = {node: Context(RUN_ID, node, {}, RecordDict(), {}) for node in self.names}

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """See flwr.serverapp.Grid."""
        return list(map(self._delivered, messages))

    def _delivered(self, message: Message) -> Message:
        node, settings = message.metadata.dst_node_id, message.content.config_records[secaggplus.RECORD_KEY_CONFIGS]
        # the mod takes out of its message what the next party gets, too
        content = RecordDict({**message.content, secaggplus.RECORD_KEY_CONFIGS: ConfigRecord(dict(settings))})
        copy = Message(content, dst_node_id=node, message_type=message.metadata.message_type)
        assign_message_id(copy)
        assume_identity(RUN_ID, node)
        if (
            settings[secaggplus.Key.STAGE] == secaggplus.Stage.COLLECT_MASKED_VECTORS
            and self.names[node] not in self.meter.stay
        ):
            reply = Message(Error(code=2, reason="lost"), reply_to=copy)
        else:
            mod = partial(secaggplus_mod, copy, self.kept[node], self._fitted)
            reply = Message(self.meter.asked(self.names[node], content, lambda _: mod().content), reply_to=copy)
        assume_identity(RUN_ID, COORDINATOR_NODE)
        return reply

    def _fitted(self, message: Message, _: Context) -> Message:
        votes = self.votes[self.names[message.metadata.dst_node_id]].astype(np.float32)
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([votes]), 1, {})
        return Message(compat.fitres_to_recorddict(result, False), reply_to=message)


def flower(votes: Votes, meter: Meter) -> np.ndarray:
    """The sum by SecAgg+."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    assume_identity(RUN_ID, COORDINATOR_NODE)
    grid: Any = FlowerParties(votes, meter)
    manager = SimpleClientManager()
    for node in grid.names:
        manager.register(GridClientProxy(node, grid, RUN_ID))
    first = ndarrays_to_parameters([np.zeros_like(next(iter(votes.values())), dtype=np.float32)])
    state = RecordDict({"config": ConfigRecord({"current_round": 1})})
    state["parameters"] = compat.parameters_to_arrayrecord(first, True)
    context = Context(RUN_ID, COORDINATOR_NODE, {}, state, {})
    strategy = FedAvg(min_fit_clients=len(votes), min_available_clients=len(votes))
    workflow = SecAggPlusWorkflow(1.0, least_rebuilders(len(votes), 0), max_weight=1.0, clipping_range=1.0)
    workflow(grid, LegacyContext(context, strategy=strategy, client_manager=manager))
    (mean,) = parameters_to_ndarrays(compat.arrayrecord_to_parameters(state.array_records["parameters"], True))
    return np.rint(mean * len(meter.stay)).astype(np.int64)


def liar(seeds: Sequence[int], command: str) -> None:
    """What the student of `stroke-secure` is worth if one party sends a masked vector that is no vote."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        case = make_case(load_scenario("stroke-secure"), seed, 0.0)
        honest, few, *_, unseen = poisoned_students(AttackedRun(case), seed)
        names = "nobody lies", f"{few.liars} liars with true votes", "one unseen liar under masks"
        for name, result in zip(names, (honest, few, unseen), strict=True):
            found.setdefault(name, []).extend([] if result.value is None else [result.value])
    columns = f"of {len(case.parties)} hospitals", "student", "95 % interval"
    with table("liar", command, columns, split=LIAR_SPLIT, seeds=seeds) as rows:
        for name, values in found.items():
            rows.add(name, spread(values), "{:.3f} to {:.3f}".format(*student_interval(values)))


PROTOCOLS: dict[str, Callable[[Votes, Meter], np.ndarray]] = {
    "plain sum": plain,
    "secure, one sum": secure,
    "secure, two sums": partial(secure, sums=2),
    "verified": verified,
    "SecAgg+": flower,
}


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="What a hidden sum costs, and what a liar does to one.")
    parser.add_argument("--sums", nargs="*", default=list(SUMS))
    parser.add_argument("--flower", nargs="*", default=list(FLOWER))
    parser.add_argument("--liars", type=int, nargs="*", default=[0, 1, 2], help="seeds")
    chosen, command = parser.parse_args(arguments or []), command_of("benchmarks.hidden_sums", arguments or [])
    if chosen.liars:
        liar(chosen.liars, command)
    measured: dict[str, dict[str, tuple[str, str, str]]] = {}
    for size in dict.fromkeys([*chosen.sums, *chosen.flower]):
        parties, queries, classes = map(int, size.split("x"))
        choice = np.random.default_rng(0).integers(classes, size=(parties, queries))
        votes = {f"party-{place:04d}": np.eye(classes, dtype=np.uint16)[row] for place, row in enumerate(choice)}
        limit = lower_limit(votes)
        row = measured[size] = {"lower limit": (digits(limit), "", "")}
        for name, play in PROTOCOLS.items():
            if size in (chosen.flower if name == "SecAgg+" else chosen.sums):
                meter = Meter(list(votes))
                off = play(votes, meter) - np.sum([votes[each] for each in meter.stay], axis=0, dtype=np.int64)
                row[name] = meter.cells(limit)
                if np.abs(off).max() > 18 * SIGMA:
                    raise RuntimeError(f"{name} gives another sum than that of the votes")
    for place, title in enumerate(("party", "coordinator", "bytes")):
        columns = COLUMNS, *(["lower limit"] if title == "party" else []), *PROTOCOLS
        with table(f"hidden-sums-{title}", command, columns, split="made-up votes; nothing is judged") as rows:
            for size, row in measured.items():
                rows.add(size, *(row[name][place] if name in row else None for name in columns[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])

"""What a secure sum costs each party and the coordinator, beside plaintext votes and beside Flower's own primitives.

One process on one core, a tenth of the parties lost before the masked stage. Times are processor time: a party's of its
five answers with their durable writes, without its voting rule, mean over the survivors; bytes are those of the
messages' fields, down without the queries. CONSILIUM_SECAGG_PARTIES (default "10 50 250") chooses the numbers of
parties.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import encrypt, generate_shared_key
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

from benchmarks.cells import command_of
from consilium.protocol.messages import WireModel
from consilium.protocol.records import from_record, to_record
from consilium.sums.agreement import Agreement, new_private, public_of, seal, sealing_key
from consilium.sums.masks import shares as shamir
from consilium.sums.masks.machine import drive
from consilium.sums.masks.messages import REPLIES, REQUESTS, SecAggMessage, Stage
from consilium.sums.masks.ring import MaskAdder, pair_key
from docs.figures import figure
from tests.secagg.network import Federation, make_queries

FEATURES = 10
SHAPES = ((10_000, 10), (12_000, 150))


@dataclass(frozen=True)
class Cost:
    """Of one session: milliseconds and bytes of a party, seconds of the coordinator."""

    party_ms: float
    masked_ms: float
    up: int
    down: int
    coordinator: float
    clear: int


def size(message: WireModel) -> int:
    """Bytes of all fields but the queries."""
    total = 0
    for name in type(message).model_fields:
        value = getattr(message, name)
        if name != "queries":
            total += value.nbytes if isinstance(value, np.ndarray) else len(value) if isinstance(value, bytes) else 8
    return total


def session(n: int, queries: int, classes: int, folder: Path) -> Cost:
    """Run one session of n parties and check its sum."""
    federation = Federation(folder, n, classes, teachers=1, queries=make_queries(queries, FEATURES))
    gone = set(federation.names[::10])
    cpu: dict[str, float] = defaultdict(float)
    masked: list[float] = []
    up: dict[str, int] = defaultdict(int)
    down: dict[str, int] = defaultdict(int)
    parties = 0.0

    def send(stage: Stage, requests: Mapping[str, SecAggMessage]) -> dict[str, WireModel]:
        nonlocal parties
        begin = time.process_time()
        replies = {}
        for name, request in requests.items():
            if stage is Stage.MASKED and name in gone:
                continue
            received = from_record(to_record(request), REQUESTS[stage])
            start = time.process_time()
            reply = federation.serve(name, stage, received)
            spent = time.process_time() - start
            cpu[name] += spent
            if stage is Stage.MASKED:
                masked.append(spent)
            up[name] += size(reply)
            down[name] += size(received)
            replies[name] = from_record(to_record(reply), REPLIES[stage])
        parties += time.process_time() - begin
        return replies

    machine = federation.machine()
    start = time.process_time()
    result = drive(machine, send)
    coordinator = time.process_time() - start - parties
    assert np.array_equal(result.sums, federation.total(result.survivors)), "the sum is wrong"
    names = result.survivors
    return Cost(
        party_ms=1000 * float(np.mean([cpu[name] for name in names])),
        masked_ms=1000 * float(np.mean(masked)),
        up=max(up[name] for name in names),
        down=max(down[name] for name in names),
        coordinator=coordinator,
        clear=queries * classes * 2,
    )


def milliseconds(action: Callable[[], object], least: float = 0.3) -> float:
    """Processor time of one call, mean over as many as take `least` seconds."""
    action()
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < least:
        action()
        count += 1
    return 1000 * spent / count


def primitives(n: int, queries: int, classes: int) -> list[tuple[str, float, float, int]]:
    """Name, milliseconds here, milliseconds in Flower, and how often a party (or the coordinator) needs it."""
    ctx, threshold = bytes(32), 2 * n // 3 + 1
    adder, total = MaskAdder((queries, classes), 16), np.zeros((queries, classes), dtype=np.uint16)
    ours, theirs = Agreement(new_private()), public_of(new_private())
    one, other = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1()).public_key()
    fernet = generate_shared_key(one, other)
    secret, shared, points = os.urandom(32), shamir.random_scalar(), range(1, n + 1)
    shares = shamir.split(shared, threshold, points)
    weights = shamir.lagrange(list(points)[:threshold])
    flower_shares = create_shares(secret, threshold, n)
    plain = bytes(96)

    def flower_mask() -> None:
        np.add(total, pseudo_rand_gen(fernet[:32], 1 << 16, [(queries, classes)])[0])

    def rebuild() -> int:
        return shamir.combine(weights, shares[:threshold])

    key = sealing_key(secret, ctx, 0, 1)
    calls: list[tuple[str, Callable[[], object], Callable[[], object], int]] = [
        ("mask of one pair", lambda: adder.add(total, pair_key(secret, ctx, 0, 1)), flower_mask, n),
        ("key agreement", lambda: ours.with_peer(theirs, "p"), lambda: generate_shared_key(one, other), 2 * n),
        ("shares for a peer", lambda: seal(key, bytes(12), plain, ctx, 0, 1), lambda: encrypt(fernet, plain), n),
        (
            "sharing one secret",
            lambda: shamir.split(shared, threshold, points),
            lambda: create_shares(secret, threshold, n),
            3,
        ),
        ("rebuilding one secret", rebuild, lambda: combine_shares(flower_shares[:threshold]), 0),
    ]
    return [(name, milliseconds(mine), milliseconds(flower), times) for name, mine, flower, times in calls]


COLUMNS = (
    "parties", "queries x classes", "party, ms", "of them masked", "up, kB", "of the votes as a matrix", "down, kB",
    "coordinator, s",
)  # fmt: skip


TIMINGS = ("party, ms", "of them masked", "coordinator, s")


def rows() -> Iterator[list[str]]:
    """A session for each shape and number of parties."""
    for queries, classes in SHAPES:
        for n in map(int, os.environ.get("CONSILIUM_SECAGG_PARTIES", "10 50 250").split()):
            with tempfile.TemporaryDirectory() as folder:
                cost = session(n, queries, classes, Path(folder))
            party = [f"{cost.party_ms:.0f}", f"{cost.masked_ms:.0f}", f"{cost.up / 1000:,.0f}"]
            rest = [f"{cost.up / cost.clear:.2f}", f"{cost.down / 1000:.0f}", f"{cost.coordinator:.2f}"]
            yield [str(n), f"{queries:,} x {classes}", *party, *rest]


def main() -> None:
    """Print both tables."""
    command = command_of("benchmarks.secagg", variables=["CONSILIUM_SECAGG_PARTIES"])
    split = "made-up votes, sums checked cell by cell"
    with figure("results/secagg", command, COLUMNS, split=split, timings=TIMINGS) as table:
        for row in rows():
            table.add(*row)
    n, (queries, classes) = 250, SHAPES[0]
    print(f"\nprimitives at {n} parties, {queries} x {classes}, milliseconds")
    print(f"{'':36}" + "".join(f"{head:>12}" for head in ("here", "Flower", "ratio", "needed")))
    here = flower = 0.0
    for name, mine, theirs, times in primitives(n, queries, classes):
        here, flower = here + times * mine, flower + times * theirs
        print(f"{name:36}{mine:12.3f}{theirs:12.3f}{theirs / mine:12.1f}{times or '':>12}", flush=True)
    print(f"{'a party in all, as often as needed':36}{here:12.0f}{flower:12.0f}{flower / here:12.1f}")


if __name__ == "__main__":
    main()

"""The model of cost: what votes cost each node in bytes, seconds and memory, and what is out of reach at a size.

Terms are what the theory of each way to collect votes says that seconds and memory grow with; a constant belongs to
each, as `python -m benchmarks cost` fitted them. Those of verified votes' aggregators come with two more measurements,
1,000 and 5,000 parties of `benchmarks.scale.verified` (noise and reading of the questions added), without which noise
hides what an upload takes. Bytes are counted message by message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Literal

from consilium.protocol.choices import choice_dtype
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import SIGNATURE_BYTES
from consilium.protocol.records import MOST_CELLS
from consilium.report.before_run import MANY_PAIRED
from consilium.sums.aggregators.field import FIELD_16, FIELD_21
from consilium.sums.aggregators.leader import BATCH_SIZE
from consilium.sums.aggregators.proof import DIGEST_BYTES, MOST_ROWS, VoteGrid, opening_elements
from consilium.sums.aggregators.proof import NONCE_BYTES as NONCE_BYTES_OF_TOTAL
from consilium.sums.aggregators.sealing import SIGNED_KEY_BYTES
from consilium.sums.aggregators.terms import MOST_CELLS as MOST_SHARE
from consilium.sums.aggregators.terms import MOST_REACH
from consilium.sums.aggregators.uploads import PART_BYTES, upload_bytes
from consilium.sums.agreement import NONCE_BYTES, TAG_BYTES
from consilium.sums.masks.messages import CIPHERTEXT_BYTES, KEY_BYTES, KEYS_BYTES
from consilium.sums.masks.ring import sigma_total
from consilium.sums.masks.shares import SHARE_BYTES
from consilium.sums.roster import MOST_PARTIES, MOST_VOTERS, least_sum
from consilium.sums.terms import SID_BYTES

CostedMode = Literal["plaintext", "secure", "distributed", "verified"]
COSTED_MODES: tuple[CostedMode, ...] = ("plaintext", "secure", "distributed", "verified")
"""The ways to collect votes whose cost is known."""
NOISY: frozenset[CostedMode] = frozenset({"distributed"})
"""Those in which parties add noise."""

LOST = 0.1
"""Share of the parties that are lost in the midst of a sum, as `benchmarks.secagg` loses them."""


@dataclass(frozen=True)
class Load:
    """One exchange of votes: all queries of a federation in one set.

    parties: that are asked. queries, classes: shape of the sum. features: of a query. teachers: of each party, each of
    which gives one vote. pool: rows that the queries are proved to be among; 0 where there is no pool. lost: share of
    the parties that are gone before their masked votes: those of a secure sum have to be unmasked one by one.
    sigma: noise on one count that parties add in shares, where they do.

    Raises
    ------
    ConfigError : a number below what a federation has.
    """

    parties: int
    queries: int
    classes: int
    features: int = 10
    teachers: int = 1
    pool: int = 0
    lost: float = LOST
    sigma: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("parties", 2), ("queries", 1), ("classes", 2), ("features", 1), ("teachers", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}, the least is {least}", f"Give {least} or more")
        if not 0 <= self.lost < 1:
            raise ConfigError(f"lost is {self.lost}, it must be a share from 0 to below 1", "Give, for example, 0.1")

    def of(self, parties: int) -> Load:
        """The same with another number of parties."""
        return replace(self, parties=parties)

    @property
    def gone(self) -> int:
        """Parties that are lost.

        >>> Load(250, 10_000, 10).gone
        25
        """
        return math.floor(self.lost * self.parties)

    @property
    def cells(self) -> int:
        """Counts of the sum."""
        return self.queries * self.classes

    @property
    def votes(self) -> int:
        """Votes of one party."""
        return self.queries * self.teachers

    @property
    def grid(self) -> VoteGrid:
        """As verified votes are proved, in the field that exact sums of so many votes need."""
        numbers = FIELD_16 if self.parties * self.teachers <= FIELD_16.most_reach else FIELD_21
        return VoteGrid(self.queries, self.classes, self.teachers, numbers)

    def ring_bytes(self, sigma: float = 0.0) -> int:
        """Of one masked count. sigma: as `Load.sigma`, in as many shares as parties are sure to be; 0.0 for none."""
        noise = sigma_total(sigma, least_sum(self.parties, 0), self.parties)
        return 2 if self.teachers * self.parties + 9 * noise < 2**15 else 4


class NodeKind(StrEnum):
    """Who works: each party, the coordinator, the second aggregator."""

    PARTY = "party"
    COORDINATOR = "coordinator"
    SECOND = "second aggregator"


@dataclass(frozen=True)
class Term:
    """One summand without its constant. unit: what the constant is for one of."""

    unit: str
    of: Callable[[Load], float]


ONCE = Term("", lambda load: 1.0)
QUERY = Term("query", lambda load: float(load.queries))
NUMBER = Term("number of the queries", lambda load: float(load.queries * load.features))
VOTE = Term("vote of a party", lambda load: float(load.votes))
CELL = Term("count", lambda load: float(load.cells))
PARTY = Term("party", lambda load: float(load.parties))
PAIR = Term("pair of parties", lambda load: float(load.parties) ** 2)
MASK_BYTE = Term(
    "byte of a mask for each party", lambda load: float(load.parties) * load.cells * load.ring_bytes(load.sigma)
)
LOST_BYTE = Term(
    "byte of a mask for each party and each that is lost",
    lambda load: float(load.gone * load.parties) * load.cells * load.ring_bytes(load.sigma),
)
OWN_NOISE = Term("count to which the coordinator adds noise", lambda load: 0.0 if load.sigma else float(load.cells))
SHARED_NOISE = Term("count to which parties add noise", lambda load: float(load.cells) if load.sigma else 0.0)
PARTY_VOTE = Term("vote of any party", lambda load: float(load.parties) * load.votes)
PROVED = Term("element of a party's share", lambda load: float(load.votes) * load.classes)
PARTY_PROVED = Term("element of any party's share", lambda load: float(load.parties) * load.votes * load.classes)
WAITING = Term(
    "element of a share that waits", lambda load: float(min(load.parties, BATCH_SIZE) * load.votes) * load.classes
)
WAITING_LINE = Term("line of a proof that waits", lambda load: float(min(load.parties, BATCH_SIZE) * load.grid.lines))
KEPT_PART = Term("signed part that the coordinator keeps of each upload", lambda load: float(load.parties))

Costed = tuple[CostedMode, NodeKind]

_MASKED_PARTY = (ONCE, QUERY, PARTY, PAIR, MASK_BYTE, SHARED_NOISE)
_MASKED_COORDINATOR = (ONCE, PARTY, PAIR, MASK_BYTE, LOST_BYTE, OWN_NOISE)

SECONDS_TERMS: dict[Costed, tuple[Term, ...]] = {
    ("plaintext", NodeKind.PARTY): (ONCE, QUERY, VOTE),
    ("plaintext", NodeKind.COORDINATOR): (ONCE, QUERY, CELL, PARTY, PARTY_VOTE),
    ("secure", NodeKind.PARTY): _MASKED_PARTY,
    ("secure", NodeKind.COORDINATOR): _MASKED_COORDINATOR,
    ("distributed", NodeKind.PARTY): _MASKED_PARTY,
    ("distributed", NodeKind.COORDINATOR): _MASKED_COORDINATOR,
    ("verified", NodeKind.PARTY): (ONCE, QUERY, VOTE, PROVED),
    ("verified", NodeKind.COORDINATOR): (ONCE, QUERY, CELL, PARTY, PARTY_VOTE, PARTY_PROVED),
    ("verified", NodeKind.SECOND): (ONCE, QUERY, CELL, PARTY, PARTY_VOTE, PARTY_PROVED),
}
"""Of one core, for one exchange."""

MEMORY_TERMS: dict[Costed, tuple[Term, ...]] = {
    ("plaintext", NodeKind.PARTY): (ONCE, QUERY, NUMBER, VOTE),
    ("plaintext", NodeKind.COORDINATOR): (ONCE, NUMBER, CELL, PARTY),
    ("secure", NodeKind.PARTY): (ONCE, NUMBER, CELL, PARTY, SHARED_NOISE),
    ("secure", NodeKind.COORDINATOR): (ONCE, NUMBER, CELL, PAIR, MASK_BYTE),
    ("distributed", NodeKind.PARTY): (ONCE, NUMBER, CELL, PARTY, SHARED_NOISE),
    ("distributed", NodeKind.COORDINATOR): (ONCE, NUMBER, CELL, PAIR, MASK_BYTE),
    ("verified", NodeKind.PARTY): (ONCE, NUMBER, PROVED),
    ("verified", NodeKind.COORDINATOR): (ONCE, NUMBER, CELL, PROVED, WAITING, WAITING_LINE, KEPT_PART),
    ("verified", NodeKind.SECOND): (ONCE, NUMBER, CELL, PROVED, WAITING_LINE, PARTY),
}
"""Bytes at the peak, beyond what the program takes before it starts."""


MACHINE = "an AMD EPYC (2 virtual cores, shared), Python 3.11, one thread"
"""Where they were measured."""

SECONDS: dict[Costed, tuple[float, ...]] = {
    ("plaintext", NodeKind.PARTY): (0.000125, 2.56e-06, 0.0),
    ("plaintext", NodeKind.COORDINATOR): (1.14, 4.36e-05, 1.38e-05, 0.000947, 0.0),
    ("secure", NodeKind.PARTY): (0.0133, 9.52e-06, 0.000423, 0.0, 2.51e-10, 1.26e-05),
    ("secure", NodeKind.COORDINATOR): (0.0128, 0.00229, 8.99e-06, 2.51e-10, 2.51e-10, 1.35e-05),
    ("distributed", NodeKind.PARTY): (0.0133, 9.52e-06, 0.000423, 0.0, 2.51e-10, 1.26e-05),
    ("distributed", NodeKind.COORDINATOR): (0.0128, 0.00229, 8.99e-06, 2.51e-10, 2.51e-10, 1.35e-05),
    ("verified", NodeKind.PARTY): (0.0014, 3.32e-06, 0.0, 2.74e-08),
    ("verified", NodeKind.COORDINATOR): (0.00573, 0.0, 1.49e-05, 0.000783, 0.0, 3.35e-09),
    ("verified", NodeKind.SECOND): (0.00105, 5.45e-06, 2.67e-08, 0.000882, 1.6e-08, 0.0),
}

# Of plaintext votes a whole federation was measured, with the accountant's promise at its start: a second, and 120 MB.
MEMORY: dict[Costed, tuple[float, ...]] = {
    ("plaintext", NodeKind.PARTY): (0.0, 256.0, 5.44, 0.26),
    ("plaintext", NodeKind.COORDINATOR): (126000000.0, 144.0, 10.1, 10700.0),
    ("secure", NodeKind.PARTY): (16300.0, 23.5, 5.11, 409.0, 28.1),
    ("secure", NodeKind.COORDINATOR): (0.0, 33.5, 25.3, 499.0, 0.758),
    ("distributed", NodeKind.PARTY): (16300.0, 23.5, 5.11, 409.0, 28.1),
    ("distributed", NodeKind.COORDINATOR): (0.0, 33.5, 25.3, 499.0, 0.758),
    ("verified", NodeKind.PARTY): (23400.0, 25.7, 7.12),
    ("verified", NodeKind.COORDINATOR): (46400.0, 0.0, 31.5, 18.2, 0.941, 168.0, 430.0),
    ("verified", NodeKind.SECOND): (33900.0, 14.5, 28.2, 0.0, 9.75, 581.0),
}

MEASURED: dict[CostedMode, tuple[int, int, int]] = {
    "plaintext": (800, 12_000, 240_000),
    "secure": (120, 10_000, 100_000),
    "distributed": (60, 1000, 10_000),
    "verified": (5000, 12_000, 720_000),
}
"""Most parties, votes of a party, and votes times classes of what was measured; more is extrapolated."""


MESSAGE, ARRAYS, ARRAY, EMPTY, FIELD = 280, 155, 311, 240, 17
"""Of Flower's form: a message, its record of arrays, each array with its name (and one that is empty), each field."""
HASH = 64
NAME = 12
TERMS = 550
"""Of the terms of a session, as JSON: to some tens of bytes."""
LEADER_KEY = 80
"""Of the leader's key of the session, in terms of verified votes."""
PLACE = 2
FLOAT = 4


def form(fields: tuple[int, ...], arrays: tuple[int, ...] = ()) -> int:
    """Bytes of a message with values of so many bytes.

    fields: of each text or number. arrays: of each array.
    """
    held = MESSAGE + sum(FIELD + each for each in fields)
    return held + (ARRAYS + sum(ARRAY + each if each else EMPTY for each in arrays) if arrays else 0)


def proof_bytes(load: Load) -> int:
    """Most bytes of the proof that the queries are rows of the pool: none where all are asked, or there is no pool.

    A level of the tree with s nodes lacks at most as many siblings as rows are asked, and as there are others.

    >>> proof_bytes(Load(10, 100, 2, pool=100)), proof_bytes(Load(10, 1, 2, pool=1024))
    (0, 320)
    """
    hashes, size, known = 0, load.pool, min(load.queries, load.pool)
    while size > 1:
        hashes += min(known, size - known)
        size = (size + 1) // 2
        known = min(known, size)
    return hashes * DIGEST_BYTES


def question_arrays(load: Load) -> tuple[int, int, int]:
    """Queries, their places in the pool, the proof."""
    places = load.queries * 4 if load.pool else 0
    return load.queries * load.features * FLOAT, places, proof_bytes(load)


@dataclass(frozen=True)
class Sent:
    """Bytes by one party up and down, and between the two aggregators. A party that stays to the end."""

    up: int
    down: int
    to_second: int = 0
    from_second: int = 0


def clear(load: Load) -> Sent:
    """`VoteRequest`, `VoteReply`."""
    choices = load.votes * choice_dtype(load.classes).itemsize
    down = form((HASH, HASH, HASH, 8, HASH), question_arrays(load))
    return Sent(up=form((NAME, HASH), (choices,)), down=down)


def _masked(load: Load, sigma: float) -> Sent:
    n, left, me = load.parties, load.parties - load.gone, 8
    peers = n - 1
    ups = (
        form((SID_BYTES, me, *[KEY_BYTES] * 4, SIGNATURE_BYTES)),
        form((SID_BYTES, me, NONCE_BYTES), (peers * CIPHERTEXT_BYTES, n * SHARE_BYTES)),
        form((SID_BYTES, me, SIGNATURE_BYTES), (load.cells * load.ring_bytes(sigma), 0)),
        form((SID_BYTES, me, SIGNATURE_BYTES)),
        form((SID_BYTES, me), (n * SHARE_BYTES,)),
    )
    dealt = (PLACE * n, *(peers * each for each in (NONCE_BYTES, CIPHERTEXT_BYTES, SHARE_BYTES, SHARE_BYTES)))
    downs = (
        form((TERMS, SIGNATURE_BYTES)),
        form((SID_BYTES,), (PLACE * n, n * KEYS_BYTES, n * SIGNATURE_BYTES)),
        form((SID_BYTES,), (*dealt, *question_arrays(load))),
        form((SID_BYTES,), (PLACE * left,)),
        form((SID_BYTES,), (PLACE * left, PLACE * load.gone, PLACE * left, left * SIGNATURE_BYTES)),
    )
    return Sent(up=sum(ups), down=sum(downs))


def secure(load: Load) -> Sent:
    """The ten messages of `protocol.secagg.messages`."""
    return _masked(load, 0.0)


def distributed(load: Load) -> Sent:
    """The same; counts with noise may need a larger ring."""
    return _masked(load, load.sigma)


def verified(load: Load) -> Sent:
    """Terms, queries and a key down, one upload up; between the aggregators the keys of all parties, all batches, the
    question and the half."""
    grid, n = load.grid, load.parties
    opened, sealed = grid.field.wire_bytes * opening_elements(grid), 2 + NONCE_BYTES + TAG_BYTES
    batches = math.ceil(n / BATCH_SIZE)
    carried = form((SID_BYTES,), (sealed,))
    answered = form((SID_BYTES, 0, 0), (sealed,))
    terms, questions = TERMS + LEADER_KEY, question_arrays(load)
    session, keys = form((terms, SIGNATURE_BYTES), questions), form((SID_BYTES, 8), ((n + 1) * SIGNED_KEY_BYTES,))
    half = NONCE_BYTES_OF_TOTAL + grid.field.wire_bytes * load.cells
    return Sent(
        up=form((SID_BYTES, NAME), (upload_bytes(grid),)),
        down=form((terms, SIGNATURE_BYTES, SIGNED_KEY_BYTES, 0), questions),
        to_second=session + batches * (carried + 4) + n * (PART_BYTES + opened) + carried + 4 + 4 * n + DIGEST_BYTES,
        from_second=keys + (batches + 1) * (answered + DIGEST_BYTES) + 4 * batches + n * (1 + opened) + half,
    )


SENT: dict[CostedMode, Callable[[Load], Sent]] = {
    "plaintext": clear,
    "secure": secure,
    "distributed": distributed,
    "verified": verified,
}


@dataclass(frozen=True)
class NodeCost:
    """Of one node, for one exchange of votes: bytes that it sends and gets, seconds of one core, bytes of memory at the
    peak beyond what the program takes before it starts."""

    up: int
    down: int
    seconds: float
    memory: float


@dataclass(frozen=True)
class Costs:
    """Of one mode: each kind of node that it has, one party for all. measured: within the sizes that were measured."""

    mode: CostedMode
    nodes: Mapping[NodeKind, NodeCost]
    measured: bool

    def to_json(self) -> dict[str, object]:
        """As it is printed."""
        nodes = {str(kind): asdict(node) for kind, node in self.nodes.items()}
        return {"mode": self.mode, "nodes": nodes, "extrapolated": not self.measured}


def costs(mode: CostedMode, load: Load) -> Costs:
    """What one exchange of votes costs.

    >>> found = costs("verified", Load(5000, 10_000, 10))
    >>> found.nodes[NodeKind.PARTY].up, NodeKind.SECOND in found.nodes
    (205933, True)
    """
    if mode not in NOISY:
        load = replace(load, sigma=0.0)
    sent, n = SENT[mode](load), load.parties
    # a party that is lost takes its questions and sends less: as those that stay, so a bound
    bytes_of = {
        NodeKind.PARTY: (sent.up, sent.down),
        NodeKind.COORDINATOR: (n * sent.down + sent.to_second, n * sent.up + sent.from_second),
        NodeKind.SECOND: (sent.from_second, sent.to_second),
    }
    nodes = {
        kind: NodeCost(
            *bytes_of[kind],
            seconds=_sum(SECONDS_TERMS[mode, kind], SECONDS[mode, kind], load),
            memory=_sum(MEMORY_TERMS[mode, kind], MEMORY[mode, kind], load),
        )
        for kind in NodeKind
        if (mode, kind) in SECONDS_TERMS
    }
    return Costs(mode, nodes, _within(mode, load))


def all_costs(load: Load) -> dict[CostedMode, Costs]:
    """Of every mode, side by side."""
    return {mode: costs(mode, load) for mode in COSTED_MODES}


def _sum(terms: tuple[Term, ...], constants: tuple[float, ...], load: Load) -> float:
    return sum(constant * term.of(load) for term, constant in zip(terms, constants, strict=True))


def _within(mode: CostedMode, load: Load) -> bool:
    parties, votes, cells = MEASURED[mode]
    return load.parties <= parties and load.votes <= votes and load.votes * load.classes <= cells


MOST_MESSAGE = 2**31 - 1
"""Bytes of one message of gRPC, as Flower sets it; Flower cuts arrays into pieces of 5 MiB, the tables of a message
not."""


@dataclass(frozen=True)
class CostCaution:
    """mode: which way to collect votes. reached: whether it can be done at all. text: what, value, limit, next."""

    mode: CostedMode
    reached: bool
    text: str

    def to_json(self) -> dict[str, object]:
        """As it is printed."""
        return {"mode": self.mode, "possible": self.reached, "text": self.text}


Found = Iterator[tuple[bool, str]]


def _of_masked(mode: CostedMode, load: Load, costs: Mapping[CostedMode, Costs]) -> Found:
    if load.parties > MOST_PARTIES:
        yield (
            False,
            f'{load.parties} parties are above {MOST_PARTIES}, the most of a roster: use collection = "verified", or'
            " ask"
            " fewer parties",
        )
    if load.parties > MANY_PAIRED:
        mine, other = costs[mode].nodes, costs["verified"].nodes
        party, coordinator = mine[NodeKind.PARTY].seconds, mine[NodeKind.COORDINATOR].seconds
        yield (
            True,
            f"{load.parties} parties are above {MANY_PAIRED}: work grows with their square, to {party:.3g} s for each"
            f" party and {coordinator:.3g} s for the coordinator (verified: {other[NodeKind.PARTY].seconds:.2g} s and"
            f' {other[NodeKind.COORDINATOR].seconds:.3g} s). Use collection = "verified"',
        )
    if load.cells > MOST_CELLS:
        yield False, f"{load.cells} counts are above {MOST_CELLS}, the most of a message: ask fewer queries"


def _clear(mode: CostedMode, load: Load, costs: Mapping[CostedMode, Costs]) -> Found:
    if load.votes > MOST_CELLS:
        yield False, f"{load.votes} votes of a party are above {MOST_CELLS}, the most of a message: ask fewer queries"


def _verified(mode: CostedMode, load: Load, costs: Mapping[CostedMode, Costs]) -> Found:
    if load.parties > MOST_VOTERS:
        yield (
            False,
            f"{load.parties} parties are above {MOST_VOTERS}, the most of a roster of verified votes: divide them into"
            " federations, or draw as many by lot",
        )
    if load.teachers * load.parties > MOST_REACH:
        yield (
            False,
            f"{load.teachers * load.parties} votes on a query are above {MOST_REACH}, half of the larger field: ask"
            " fewer parties, or fewer teachers of each",
        )
    if load.votes > MOST_ROWS or load.votes * load.classes > MOST_SHARE:
        yield (
            False,
            f"{load.votes} votes of a party for {load.classes} classes are above {MOST_ROWS} rows or {MOST_SHARE}"
            " elements: ask fewer queries",
        )


def _messages(mode: CostedMode, load: Load, costs: Mapping[CostedMode, Costs]) -> Found:
    numbers = load.queries * load.features
    if numbers > MOST_CELLS:
        yield (
            False,
            f"{numbers} numbers of the queries are above {MOST_CELLS}, the most of a message: ask fewer queries",
        )
    largest = max(costs[mode].nodes[NodeKind.PARTY].up, costs[mode].nodes[NodeKind.PARTY].down)
    if largest > MOST_MESSAGE:
        yield (
            True,
            f"a party's messages have {largest / 1e9:.3g} GB, above {MOST_MESSAGE / 1e9:.3g} GB, the most of one of"
            " gRPC: Flower cuts them, which nobody has measured at this size. Ask fewer queries",
        )


_KINDS: dict[CostedMode, tuple[Callable[[CostedMode, Load, Mapping[CostedMode, Costs]], Found], ...]] = {
    "plaintext": (_clear, _messages),
    "secure": (_of_masked, _messages),
    "distributed": (_of_masked, _messages),
    "verified": (_verified, _messages),
}


def cautions_of(mode: CostedMode, load: Load, costs: Mapping[CostedMode, Costs]) -> list[CostCaution]:
    """All that there is to say of one mode. costs: of all modes at this size."""
    return [CostCaution(mode, reached, text) for kind in _KINDS[mode] for reached, text in kind(mode, load, costs)]

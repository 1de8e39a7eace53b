"""What the two aggregators have in common: who is accepted, the total so far, and the sum of both totals."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.noise import NoiseSource
from consilium.sums.agreement import public_of
from consilium.sums.errors import RosterMismatch, StageOrder, ThresholdNotMet, VoteFault
from consilium.sums.field import FIELD
from consilium.sums.packing import Value, unpack
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.proof import NONCE_BYTES, Challenge, Opener, challenge_of, commit_total, reading_point
from consilium.sums.verified.sealing import Link
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.uploads import HelperPart


@dataclass(frozen=True)
class Half:
    """What one aggregator gives: total, numbers below the prime (queries, classes), with its noise, and the nonce by
    which it is bound to it."""

    nonce: bytes = field(repr=False)
    total: np.ndarray = field(repr=False)

    def commitment(self, ctx: bytes, leads: bool) -> bytes:
        """See `proof.commit_total`."""
        return commit_total(ctx, leads, self.nonce, self.total.tobytes())


@dataclass(frozen=True)
class VerifiedSum:
    """sums: int64 (queries, classes), with both aggregators' noise. accepted: names of those whose votes are in it.
    left_out: why, by name; who sent nothing is in neither. leader, helper: the halves that it is of."""

    sums: np.ndarray = field(repr=False)
    accepted: tuple[str, ...]
    left_out: dict[str, VoteFault]
    leader: Half
    helper: Half


def add_up(one: np.ndarray, other: np.ndarray, votes: int, tail: int) -> np.ndarray:
    """Totals modulo the prime, (queries, classes) each -> what so many votes on a query and the noise can give, int64.

    tail: how far noise may carry a count.

    An aggregator can move a count to wherever it likes, also to the edge of what is possible. If that were an error, it
    would tell whether the honest count was below a number of its choice. So nothing is raised: the map goes round the
    field, is the identity where counts can be, and is nowhere steeper than one for one. One vote moved then moves each
    count by one at most, which is what the mechanisms' noise is sized for.
    """
    around, width = (one.astype(np.int64) + other + tail) % FIELD.prime, votes + 2 * tail
    half = FIELD.most_reach
    return np.where(around <= half, np.minimum(around, width), np.maximum(width - (around - half), 0)) - tail


BATCH, CHECKED, ASKED, GIVEN = 1, 2, 3, 4
"""Kinds of messages between them, in order."""
FAULT_CODES: tuple[VoteFault, ...] = tuple(VoteFault)


def fault_code(fault: VoteFault | None) -> int:
    """0, or the number of the fault from 1: how it travels."""
    return 0 if fault is None else FAULT_CODES.index(fault) + 1


def fault_of(code: int) -> VoteFault | None:
    """The inverse."""
    return FAULT_CODES[code - 1] if code else None


class VoteAggregator:
    """One of the two, in one session. It holds one total, and one byte for each party.

    Parameters
    ----------
    terms : of the session, from `VerifiedTerms.open`.
    roster : its own copy.
    private : its X25519 key, 32 bytes.
    fresh : its own private X25519 key of this session and the other one's public key; None where they are deleted, so
        that nothing is opened any more.
    noise : where its noise comes from.
    leads : whether it is the leader.

    Raises
    ------
    RosterMismatch : the key is not the one in the roster, or the session is of another roster.
    BadKey : a key is of low order.
    """

    def __init__(
        self,
        terms: VerifiedTerms,
        roster: VerifiedRoster,
        private: bytes,
        fresh: tuple[bytes, bytes] | None,
        noise: NoiseSource,
        leads: bool,
    ) -> None:
        terms.check(roster)
        mine, other = (roster.leader, roster.helper) if leads else (roster.helper, roster.leader)
        if public_of(private).hex() != mine.x25519_pk:
            raise RosterMismatch("the roster has another X25519 key for this aggregator than this node")
        self.terms, self.roster, self._noise = terms, roster, noise
        self._secrets: tuple[Link, Opener] | None = None
        if fresh is not None:
            link = Link(private, bytes.fromhex(other.x25519_pk), *fresh, terms.ctx)
            self._secrets = link, Opener(terms.grid, reading_point(link.secret(), terms.ctx), leads)
        self._total = np.zeros(terms.shape, dtype=FIELD.total_dtype)
        self._accepted = np.zeros(roster.n, dtype=np.uint8)
        self._half: Half | None = None
        self.left_out: dict[str, VoteFault] = {}

    @property
    def accepted(self) -> tuple[str, ...]:
        """Names of those whose votes are in the total, in the order of the roster."""
        return tuple(map(self.roster.name, self._places()))

    @property
    def closed(self) -> bool:
        """Whether the total has been made ready to be given: nobody is accepted any more."""
        return self._half is not None

    def _link(self) -> Link:
        return self._kept_secrets()[0]

    def _opened(self, part: HelperPart, share: np.ndarray, proof: np.ndarray) -> np.ndarray:
        """What this aggregator opens of an upload. share, proof: its own, numbers below the prime."""
        return self._kept_secrets()[1](share, proof, self._challenge(part))

    def _kept_secrets(self) -> tuple[Link, Opener]:
        if self._secrets is None:
            raise StageOrder("this session is over: its keys are deleted")
        return self._secrets

    def _places(self) -> list[int]:
        return np.flatnonzero(self._accepted).tolist()

    def _challenge(self, part: HelperPart) -> Challenge:
        return challenge_of(self.terms.grid, part.ctx, part.place, part.to_leader, part.to_helper)

    def _add(self, place: int, share: np.ndarray) -> None:
        """A share, numbers below the prime (cells,), into the total. It never overflows: all votes of a session are at
        most half of the prime, and the square of the prime fits into the type of a total."""
        self._still_open()
        np.add(self._total, self.terms.grid.summed(share), out=self._total)
        self._accepted[place] = 1
        self.left_out.pop(self.roster.name(place), None)

    def _still_open(self) -> None:
        if self.closed:
            raise StageOrder("the total of this session is made: no upload is taken any more")

    def _check_enough(self) -> None:
        """Raise ThresholdNotMet where too few parties are accepted."""
        places = frozenset(self._places())
        if len(places) < self.roster.least:
            missing = (entry.id for place, entry in enumerate(self.roster.parties) if place not in places)
            raise ThresholdNotMet("sum", len(places), self.roster.least, missing)

    def _close(self) -> Half:
        """The total as it is given, with this aggregator's noise; the same each time."""
        if self._half is None:
            total = self._total.astype(np.int64)
            total += self._noise.gaussian(self.terms.sigma, total.shape)
            self._half = Half(secrets.token_bytes(NONCE_BYTES), FIELD.to_wire(total))
        return self._half

    def _common_state(self) -> dict[str, Value]:
        half = self._half or Half(b"", np.zeros((0, 0), dtype=FIELD.dtype))
        return {
            "ctx": self.terms.ctx,
            "total": self._total,
            "accepted": self._accepted,
            "noisy": half.total,
            "nonce": half.nonce,
            "left_out": json.dumps(self.left_out),
        }

    def _restore_common(self, state: dict[str, Value]) -> None:
        self._total = restored(state, "total", self._total.shape, FIELD.total_dtype)
        self._accepted = restored(state, "accepted", self._accepted.shape, "uint8")
        noisy = restored(state, "noisy", (-1, -1), FIELD.dtype)
        if noisy.size:
            self._half = Half(restored_bytes(state, "nonce"), noisy)
        self.left_out = {name: VoteFault(fault) for name, fault in json.loads(str(state["left_out"])).items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(session={self.terms.sid}, accepted={int(self._accepted.sum())})"


_DAMAGED = "saved state is damaged or of another version"


def opened_state(content: bytes, terms: VerifiedTerms) -> dict[str, Value]:
    """Bytes of an aggregator's state -> its fields. Raises MalformedMessage: damaged, or of another session."""
    state = unpack(content)
    if state.get("ctx") != terms.ctx:
        raise MalformedMessage("saved state is of another session, or of another version")
    return state


def restored(state: dict[str, Value], name: str, shape: tuple[int, ...], dtype: np.dtype | str) -> np.ndarray:
    """A copy of an array of a state. -1 in the shape stands for any number.

    Raises
    ------
    MalformedMessage : it is missing, or of another shape or type.
    """
    value = state.get(name)
    if not isinstance(value, np.ndarray) or value.dtype != np.dtype(dtype) or len(value.shape) != len(shape):
        raise MalformedMessage(_DAMAGED)
    if any(want not in (-1, have) for want, have in zip(shape, value.shape, strict=True)):
        raise MalformedMessage(_DAMAGED)
    return value.astype(dtype)


def restored_bytes(state: dict[str, Value], name: str) -> bytes:
    """Bytes of a state. Raises MalformedMessage where there are none of this name."""
    value = state.get(name)
    if not isinstance(value, bytes):
        raise MalformedMessage(_DAMAGED)
    return value

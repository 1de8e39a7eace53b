"""One session at the coordinator: requests out, replies in, stage by stage; no transport.

Whatever a party sends, it can at most be left out by name. A stage that too few have answered is not lost: it may be
sent again, parties answer a repeated request with the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.coordinator.secagg import intake, requests
from consilium.coordinator.secagg.dealings import false_dealers
from consilium.coordinator.secagg.disputes import check_vouched, gather
from consilium.coordinator.secagg.state import SessionState
from consilium.coordinator.secagg.unmasking import SecretRebuilder, check_sum, clip, remove_masks
from consilium.protocol.errors import ConfigError
from consilium.protocol.parties.messages import WireModel
from consilium.protocol.rows.queries import query_set_hash
from consilium.protocol.secagg.blocks import whole
from consilium.protocol.secagg.errors import RosterMismatch, StageOrder, ThresholdNotMet, named
from consilium.protocol.secagg.identity import Identity
from consilium.protocol.secagg.messages import (
    REPLIES,
    AdvertiseReply,
    ConsistencyReply,
    MaskedReply,
    SecAggMessage,
    ShareReply,
    UnmaskReply,
)
from consilium.protocol.secagg.ring import sigma_total
from consilium.protocol.secagg.roster import Blocked, Roster
from consilium.protocol.secagg.session import SessionDescriptor
from consilium.protocol.secagg.stages import STAGES, Stage
from consilium.protocol.secagg.statements import ring_digest


@dataclass(frozen=True)
class StageReport:
    """Who is in after a stage, and who is not, by reason."""

    stage: Stage
    present: tuple[str, ...]
    dropped: dict[str, str]


@dataclass(frozen=True)
class SecureSum:
    """The sum of the survivors' votes (and of all their noise): int64 (queries, classes), never printed.

    clipped: bool (queries,), rows that honest votes do not give, brought into range (`unmasking.clip`).
    dropped: reason by party, by stage. Who dropped after `masked` is counted all the same.
    """

    sums: np.ndarray = field(repr=False)
    clipped: np.ndarray = field(repr=False)
    survivors: tuple[str, ...]
    dropped: dict[Stage, dict[str, str]]


Choose = Callable[[Collection[int]], Collection[int]]
"""Places whose masked votes are there -> those that are summed. Raises ThresholdNotMet."""


def everybody(answered: Collection[int]) -> Collection[int]:
    """The choice for sums with noise: what they tell together is charged, whoever is in them."""
    return answered


def whole_blocks(roster: Blocked, least: int, without: Collection[int] = ()) -> Choose:
    """The choice for exact sums: all blocks that are there whole, of parties that are not in `without`.

    least: parties that must be in a sum.
    """

    def choose(answered: Collection[int]) -> Collection[int]:
        summed = whole(roster.blocks, {*answered} - {*without})
        if len(summed) < least:
            missing = (entry.id for at, entry in enumerate(roster.parties) if at not in summed)
            raise ThresholdNotMet("whole blocks", len(summed), least, missing)
        return summed

    return choose


class Aggregation:
    """The coordinator's state machine.

    Parameters
    ----------
    roster, signer : the pinned roster, and the key of its coordinator.
    terms : the session descriptor (`SessionDescriptor.create`).
    queries : canonical float32 (queries, features), those of the descriptor.
    invited : names of the parties that are asked; None: all of the roster.
    proof : places in the pool and proof, as `protocol.parties.messages.VoteRequest` has them.
    choose : who is summed of those whose masked votes are there.

    Raises
    ------
    RosterMismatch, UnsafeSession, OverflowRisk : roster, signer and terms do not belong together.
    ConfigError : the queries are not those of the descriptor.
    """

    def __init__(
        self,
        roster: Roster,
        signer: Identity,
        terms: SessionDescriptor,
        queries: np.ndarray,
        invited: Collection[str] | None = None,
        proof: requests.PoolProof = requests.NO_POOL,
        choose: Choose = everybody,
    ) -> None:
        places = range(roster.n) if invited is None else sorted({roster.index(name) for name in invited})
        question = requests.Question(queries, *proof)
        self._set_up(roster, signer, question, SessionState.begin(terms, tuple(places)), choose)

    def _set_up(
        self, roster: Roster, signer: Identity, question: requests.Question, state: SessionState, choose: Choose
    ) -> None:
        queries = question.queries
        state.terms.check(roster)
        if signer.public.hex() != roster.coordinator_pk:
            raise RosterMismatch("the roster lists the coordinator with another key than this one")
        if len(queries) != state.terms.queries or query_set_hash(queries) != state.terms.query_set:
            raise ConfigError("the queries are not those of the session", "Pass the queries that it was made for")
        self._roster, self._signer, self._question, self._state = roster, signer, question, state
        self._choose = choose
        self._ctx = state.terms.ctx()
        self._sid = state.terms.sid_bytes()

    def save(self, path: Path) -> None:
        """Write the state durably, mode 0600. Call it before the requests of a stage leave."""
        self._state.save(path)

    @classmethod
    def load(
        cls,
        path: Path,
        roster: Roster,
        signer: Identity,
        queries: np.ndarray,
        proof: requests.PoolProof = requests.NO_POOL,
        choose: Choose = everybody,
    ) -> Aggregation:
        """Go on from a saved state with the same U1, U2 and U3. Raises as `__init__`, and ConfigError for the file."""
        machine = cls.__new__(cls)
        machine._set_up(roster, signer, requests.Question(queries, *proof), SessionState.load(path), choose)
        return machine

    @property
    def stage(self) -> Stage | None:
        """The stage that is due; None when the sum is there."""
        return self._state.stage

    @property
    def terms(self) -> SessionDescriptor:
        """The session's descriptor."""
        return self._state.terms

    @property
    def summed(self) -> tuple[int, ...]:
        """Places of the parties in the sum, U3, once the masked stage is closed."""
        return tuple(sorted(self._state.evidence))

    @property
    def dropped(self) -> dict[Stage, dict[str, str]]:
        """Reasons by party, by stage, so far; stages that lost none are not named."""
        return {stage: dict(reasons) for stage, reasons in self._state.dropped.items() if reasons}

    def requests(self) -> dict[str, SecAggMessage]:
        """The request of the stage that is due, for each party that is in and has not answered it.

        Raises
        ------
        StageOrder : the session is done.
        """
        made = requests.of_stage(
            self._due(), self._state, self._signer, self._question, self._roster.t, self._waiting()
        )
        return {self._roster.name(index): request for index, request in made.items()}

    def take(self, replies: Mapping[str, WireModel | str]) -> StageReport:
        """Check the replies of the stage that is due and close it, if enough are in.

        Parameters
        ----------
        replies : by party: its reply, or why there is none; a party that is not named gave none.

        Raises
        ------
        ThresholdNotMet : too few valid replies. Those that came are kept, and the stage can be sent again.
        From `choose`, at the masked stage: as above, and nothing is used up.
        BadShare : too few vouch for a party's shares, and nothing is unmasked; or a secret cannot be rebuilt. More
            replies may still help.
        BadSum : an exact sum with another number of votes; the session ends without a result.
        StageOrder : the session is done.
        """
        stage, state = self._due(), self._state
        reasons = state.dropped.setdefault(stage, {})
        view = requests.view(state) if stage not in (Stage.ADVERTISE, Stage.SHARE) else None
        waiting = self._waiting()
        for index in waiting:
            name = self._roster.name(index)
            reply = replies.get(name, "no answer")
            fault = reply if isinstance(reply, str) else self._fault(stage, index, reply, view)
            if fault is None:
                reasons.pop(name, None)
            else:
                reasons[name] = fault
        if stage is Stage.ADVERTISE:
            for index in sorted(intake.twice(state.adverts)):
                del state.adverts[index]
                reasons[self._roster.name(index)] = "session key is used twice"
        if stage is Stage.SHARE:
            self._leave_out_false_dealers(set(waiting) & set(state.nonces), reasons)
        present = self._accepted(stage)
        need = self._roster.t if stage in (Stage.CONSISTENCY, Stage.UNMASK) else self._roster.u_min
        if len(present) < need:
            raise ThresholdNotMet(stage, len(present), need, reasons)
        if stage is Stage.UNMASK:
            self._finish(reasons)
        if stage is Stage.MASKED:
            self._close_set(reasons)
            present = self._accepted(stage)
        following = STAGES.index(stage) + 1
        state.stage = STAGES[following] if following < len(STAGES) else None
        return StageReport(stage, tuple(self._roster.name(index) for index in present), dict(reasons))

    def result(self) -> SecureSum:
        """The sum.

        Raises
        ------
        StageOrder : stages are left.
        """
        if self._state.sums is None:
            raise StageOrder(f"there is no sum yet: stage {self._state.stage} is due")
        survivors = tuple(self._roster.name(index) for index in self.summed)
        terms = self.terms
        deviation = sigma_total(terms.sigma, max(terms.noise_shares, 1), len(survivors))
        sums, clipped = clip(self._state.sums, terms.ring, self._votes(), deviation)
        return SecureSum(sums, clipped, survivors, self.dropped)

    def _votes(self) -> int:
        """Votes on a query of all who are summed, each counted by its weight."""
        return self._state.terms.teachers * sum(self._roster.weights[index] for index in self.summed)

    def _due(self) -> Stage:
        if self._state.stage is None:
            raise StageOrder("the session is done")
        return self._state.stage

    def _accepted(self, stage: Stage) -> list[int]:
        """Places of those whose reply of this stage was accepted, in order."""
        state = self._state
        held = {
            Stage.ADVERTISE: state.adverts,
            Stage.SHARE: state.nonces,
            Stage.MASKED: state.evidence,
            Stage.CONSISTENCY: state.views,
            Stage.UNMASK: state.shares,
        }
        return sorted(held[stage])

    def _waiting(self) -> list[int]:
        stage = self._due()
        before = self._state.invited if stage is STAGES[0] else self._accepted(STAGES[STAGES.index(stage) - 1])
        return sorted(set(before) - set(self._accepted(stage)))

    def _fault(self, stage: Stage, index: int, reply: WireModel, view: requests.View | None) -> str | None:
        """Accept the reply and return None, or say what is wrong with it."""
        state, roster, ctx = self._state, self._roster, self._ctx
        fault = intake.fault_of_address(reply, REPLIES[stage], self._sid, index)
        if fault is not None:
            return fault
        if isinstance(reply, AdvertiseReply):
            fault = intake.fault_of_advert(reply, roster, ctx)
            if fault is None:
                state.adverts[index] = _row(intake.advert_keys(reply) + reply.signature)
        elif isinstance(reply, ShareReply):
            fault = intake.fault_of_shares(reply, len(state.adverts) - 1)
            if fault is None:
                state.nonces[index] = _row(reply.nonce)
                state.ciphertexts[index], state.values[index] = reply.ciphertexts, reply.values
        elif isinstance(reply, MaskedReply) and view is not None:
            fault = intake.fault_of_masked(reply, roster, state.terms, ctx, view.u1, view.u2, state.nonces)
            if fault is None:
                state.masked[index] = _row(reply.y.tobytes())
                state.evidence[index] = _row(ring_digest(reply.y) + reply.signature)
                sharers = np.array(sorted(state.nonces), dtype=np.uint16)
                state.complaints[index] = np.isin(sharers, reply.complaints).astype(np.uint8)
        elif isinstance(reply, ConsistencyReply) and view is not None:
            fault = intake.fault_of_view(reply, roster, ctx, view.u1, view.u2, view.u3)
            if fault is None:
                state.views[index] = _row(reply.signature)
        elif isinstance(reply, UnmaskReply):
            fault = intake.fault_of_unmask(reply, len(state.nonces))
            if fault is None:
                state.shares[index] = reply.shares
        return fault

    def _leave_out_false_dealers(self, dealers: set[int], reasons: dict[str, str]) -> None:
        """Forget what dealers sent whose values are no shares of what they are committed to."""
        state = self._state
        drawn = requests.challenges(state, requests.view(state).u1)
        for index in sorted(false_dealers(dealers, state.adverts, state.values, drawn, self._roster.t)):
            for held in (state.nonces, state.ciphertexts, state.values):
                del held[index]
            reasons[self._roster.name(index)] = "its shares are not shares of what its advert is committed to"

    def _close_set(self, reasons: dict[str, str]) -> None:
        state = self._state
        chosen = set(self._choose(tuple(state.evidence)))
        complaints = {index: row for index, row in state.complaints.items() if index in chosen}
        check_vouched(self._roster, sorted(chosen), gather(sorted(state.nonces), complaints))
        for index in sorted(set(state.evidence) - chosen):
            del state.evidence[index], state.complaints[index]
            reasons[self._roster.name(index)] = "of its block not all are there: an exact sum has all of it, or nobody"
        state.add_up()
        state.ciphertexts.clear()
        state.values.clear()

    def _finish(self, reasons: dict[str, str]) -> None:
        state = self._state
        sharers, survivors = sorted(state.nonces), sorted(state.evidence)
        gone = [index for index in sharers if index not in state.evidence]
        disputes = gather(sharers, state.complaints)
        rebuilder = SecretRebuilder(self._roster, sharers, state.shares, disputes)
        sums = remove_masks(state.total, state.terms, state.adverts, survivors, gone, rebuilder)
        check_sum(sums, state.terms, self._votes())
        for dealer, against in disputes.items():
            reasons[self._roster.name(dealer)] = (
                f"gave no good share, say {named(map(self._roster.name, sorted(against)))}"
            )
        for index in rebuilder.liars:
            reasons[self._roster.name(index)] = "gave a share that does not fit the others"
        state.shares.clear()
        state.sums = sums


def _row(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype=np.uint8)

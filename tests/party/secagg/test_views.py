"""Who is in the sum, stages 3 and 4, and the order of the stages, under a lying coordinator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from consilium.party.sum_store import SessionStatus
from consilium.protocol.messages import WireModel
from consilium.sums.errors import BadSignature, InconsistentView, StageOrder, ThresholdNotMet
from consilium.sums.masks.machine import view_of
from consilium.sums.masks.messages import CONSISTENCY, STAGES, Stage, consistency_parts
from consilium.sums.masks.terms import MaskedTerms
from tests.party.secagg.victim import VICTIM, refused, still_honest
from tests.secagg.network import OTHER_FEDERATION, Federation, Network, altered, flipped_cell, run_until

pytestmark = pytest.mark.usefixtures("any_set")


class TestViews:
    """Stages 3 and 4: who is in the sum."""

    @pytest.fixture
    def machine(self, federation: Federation):
        return run_until(federation, Stage.CONSISTENCY)

    @pytest.mark.parametrize(
        ("survivors", "match"),
        [
            ([0, 1, 2], "U3 has 3 parties, u_min is 4"),
            ([1, 2, 3, 4], "lacks the party"),
            ([0, 1, 2, 3, 9], "not in U2"),
        ],
    )
    def test_survivors_that_cannot_be(self, federation: Federation, machine, survivors: list[int], match: str) -> None:
        changed = altered(machine.requests()[VICTIM], survivors=np.array(survivors, dtype=np.uint16))
        refused(federation, Stage.CONSISTENCY, changed, InconsistentView, match)
        still_honest(federation, machine)

    def test_survivors_that_sent_no_shares(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.CONSISTENCY, Network(federation, lost={Stage.SHARE: ["party-002"]}))
        changed = altered(machine.requests()[VICTIM], survivors=np.arange(5, dtype=np.uint16))
        refused(federation, Stage.CONSISTENCY, changed, InconsistentView, "not in U2")

    def test_two_honest_survivors_at_least(self, federation: Federation, machine, monkeypatch) -> None:
        """Held even against a roster that never passed its own checks."""
        request = machine.requests()[VICTIM]
        loose = federation.roster.model_copy(update={"c": 4})
        monkeypatch.setattr(MaskedTerms, "check", lambda terms, roster: None)
        with pytest.raises(InconsistentView, match="two more than c = 4"):
            federation.party(VICTIM, roster=loose).consistency(request)

    def test_fewer_than_t_signatures(self, federation: Federation, machine) -> None:
        network = Network(federation)
        machine.take(network.send(Stage.CONSISTENCY, machine.requests()))
        request = machine.requests()[VICTIM]
        few = altered(request, signers=request.signers[:3], signatures=request.signatures[:3])
        refused(federation, Stage.UNMASK, few, ThresholdNotMet, "3 parties are left, 4 are needed")
        still_honest(federation, machine)

    @pytest.mark.parametrize("other", ["u1", "u2", "u3"])
    def test_signatures_on_another_view(self, federation: Federation, machine, other: str) -> None:
        """Colluders sign another set for the coordinator; an honest party sees that it is not its own."""
        network = Network(federation)
        machine.take(network.send(Stage.CONSISTENCY, machine.requests()))
        request = machine.requests()[VICTIM]
        seen = dataclasses.replace(view_of(machine._state), **{other: bytes(32)})
        parts = consistency_parts(machine.terms.ctx, 1, seen.u1, seen.u2, seen.u3)
        signatures = request.signatures.copy()
        signatures[1] = np.frombuffer(federation.identities["party-001"].sign(CONSISTENCY, *parts), np.uint8)
        refused(federation, Stage.UNMASK, altered(request, signatures=signatures), BadSignature, "party-001")
        still_honest(federation, machine)

    def test_one_signature_under_two_names(self, federation: Federation, machine) -> None:
        machine.take(Network(federation).send(Stage.CONSISTENCY, machine.requests()))
        request = machine.requests()[VICTIM]
        signatures = request.signatures.copy()
        signatures[2] = signatures[1]
        refused(federation, Stage.UNMASK, altered(request, signatures=signatures), BadSignature, "party-002")

    def test_signers_that_are_no_survivors(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.UNMASK, Network(federation, lost={Stage.MASKED: ["party-002"]}))
        request = machine.requests()[VICTIM]
        changed = altered(request, signers=np.array([0, 1, 2, 3], dtype=np.uint16))
        refused(federation, Stage.UNMASK, changed, InconsistentView, "not among the survivors")

    @pytest.mark.parametrize(
        ("survivors", "dropped"),
        [
            ([0, 1, 3, 4], [1, 2]),
            ([0, 1, 2, 3, 4], [2]),
            ([0, 1, 3], [2, 4]),
            ([0, 1, 2, 3, 4], []),
            ([0, 1, 3, 4], []),
        ],
        ids=["both kinds, alive", "both kinds, dropped", "alive as dropped", "dropped as alive", "one left out"],
    )
    def test_both_kinds_of_share_of_one_party(
        self, federation: Federation, survivors: list[int], dropped: list[int]
    ) -> None:
        """b and the mask key of one party together would bare its votes."""
        network = Network(federation, lost={Stage.MASKED: ["party-002"]})
        machine = run_until(federation, Stage.UNMASK, network)
        changed = altered(
            machine.requests()[VICTIM],
            survivors=np.array(survivors, dtype=np.uint16),
            dropped=np.array(dropped, dtype=np.uint16),
        )
        refused(federation, Stage.UNMASK, changed, InconsistentView, "other sets")
        still_honest(federation, machine, network)


class TestOrder:
    """Each stage once, in its turn."""

    @pytest.mark.parametrize("stage", STAGES[1:])
    def test_an_unknown_session(self, federation: Federation, stage: Stage) -> None:
        machine = run_until(federation, stage)
        request = altered(machine.requests()[VICTIM], sid=bytes(16))
        refused(federation, stage, request, StageOrder, "never begun")

    def test_stages_skipped(self, federation: Federation) -> None:
        """Later requests, made by the others, reach a party that has not done the earlier stages."""
        machine = federation.machine()
        network = Network(federation, lost={stage: [VICTIM] for stage in STAGES[1:]})
        machine.take(network.send(Stage.ADVERTISE, machine.requests()))
        for stage in STAGES[1:]:
            request = next(iter(machine.requests().values()))
            if stage is not Stage.SHARE:
                refused(federation, stage, request, StageOrder, f"stage {stage} is not due")
            machine.take(network.send(stage, machine.requests()))

    @pytest.mark.parametrize("stage", STAGES[1:])
    def test_a_second_different_request_aborts(self, federation: Federation, stage: Stage) -> None:
        change: dict[Stage, Callable[[WireModel], WireModel]] = {
            Stage.SHARE: lambda r: altered(r, keys=flipped_cell(r.keys, 1, 1)),  # type: ignore[attr-defined]
            Stage.MASKED: lambda r: altered(r, queries=r.queries + np.float32(1)),  # type: ignore[attr-defined]
            Stage.CONSISTENCY: lambda r: altered(r, survivors=r.survivors[:4]),  # type: ignore[attr-defined]
            Stage.UNMASK: lambda r: altered(r, signers=r.signers[:3], signatures=r.signatures[:3]),  # type: ignore[attr-defined]
        }
        machine = run_until(federation, stage)
        request = machine.requests()[VICTIM]
        federation.serve(VICTIM, stage, request)
        federation.balloted.clear()
        refused(federation, stage, change[stage](request), InconsistentView, "done with another request")
        refused(federation, stage, request, StageOrder)
        assert federation.balloted == [], "never a second y"

    def test_a_session_that_took_too_long(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.SHARE, terms=federation.terms(lifetime=60))
        now = [0.0]
        party = federation.party(VICTIM, clock=lambda: now[0])
        late = federation.party(VICTIM, clock=lambda: 4e12)
        with pytest.raises(StageOrder, match="lifetime"):
            late.share(machine.requests()[VICTIM])
        assert party.state(machine.terms.sid_bytes) is SessionStatus.ABORTED
        with pytest.raises(StageOrder):
            party.share(machine.requests()[VICTIM])

    def test_a_new_session_supersedes_the_old_one_of_its_federation_only(self, federation: Federation) -> None:
        old = run_until(federation, Stage.SHARE)
        other = run_until(federation, Stage.SHARE, terms=federation.terms(federation=OTHER_FEDERATION))
        new = run_until(federation, Stage.SHARE)
        states = [federation.party(VICTIM).state(machine.terms.sid_bytes) for machine in (old, other, new)]
        assert states == [SessionStatus.ABORTED, SessionStatus.ADVERTISED, SessionStatus.ADVERTISED]
        refused(federation, Stage.SHARE, old.requests()[VICTIM], StageOrder)

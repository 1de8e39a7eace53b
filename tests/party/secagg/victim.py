"""The party that a lying coordinator asks, what it refuses, and that an attack leaves no trace in it."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.protocol.identity import Identity
from consilium.protocol.messages import WireModel
from consilium.sums.masks.messages import AdvertiseRequest, Stage
from consilium.sums.masks.terms import MaskedTerms
from tests.secagg.network import Federation, Network

VICTIM = "party-000"


def advertise(federation: Federation, terms: MaskedTerms, signer: Identity | None = None) -> AdvertiseRequest:
    return AdvertiseRequest(descriptor=terms.canonical(), signature=terms.sign(signer or federation.coordinator))


def refused(
    federation: Federation, stage: Stage, request: WireModel, error: type[Exception], match: str | None = None
) -> None:
    """The victim gives the error."""
    with pytest.raises(error, match=match):
        federation.serve(VICTIM, stage, request)


def still_honest(federation: Federation, machine, network: Network | None = None) -> None:
    """The attack has left no trace: the honest session runs to its end with the victim in it."""
    network = network or Network(federation)
    while machine.stage is not None:
        machine.take(network.send(machine.stage, machine.requests()))
    assert VICTIM in machine.result().survivors
    assert not any(name == VICTIM for _, name in network.errors)
    assert np.array_equal(machine.result().sums, federation.total(machine.result().survivors))

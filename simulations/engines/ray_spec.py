"""The cluster of the engine `ray`: its address, what a party is given there, and whether somebody answers."""

from __future__ import annotations

import socket

from pydantic import Field

from consilium.protocol.errors import EngineError
from consilium.protocol.models import Frozen

PATIENCE = 10.0
"""Seconds for a connection."""


def check_answers(address: str) -> None:
    """Raise EngineError at once where nobody listens: Ray itself tries for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise no_cluster(address, "it is not HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except OSError as error:
        raise no_cluster(address, error.strerror or type(error).__name__) from None


def no_cluster(address: str, why: str) -> EngineError:
    """Nobody there, or nobody that this machine can join."""
    return EngineError(
        f"no Ray cluster answers at {address} ({why})",
        "Start one (ray start --head), and give its HOST:PORT, or auto for one on this machine",
    )


class RaySpec(Frozen):
    """Of one run.

    address: HOST:PORT of a Ray cluster that is there already, or "auto", all of whose machines see the run's folder
    under its own path; empty: a Ray of the run's own, on this machine. party_cpus, party_gpus: what Ray sets aside for
    a party while it computes; part of a GPU is shared.
    """

    address: str = ""
    party_cpus: int = Field(default=1, ge=1)
    party_gpus: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def federation_config(self, parties: int) -> str:
        """As `flwr run --federation-config` takes it."""
        words = [f"num-supernodes={parties}", f"client-resources-num-cpus={self.party_cpus}"]
        if self.party_gpus:
            words.append(f"client-resources-num-gpus={self.party_gpus}")
        return " ".join(words)

"""Where the engine `ray` computes, and what each party's ClientApp is given there. Nothing here changes a result."""

from __future__ import annotations

from pydantic import Field

from consilium.protocol.models import Frozen


class RaySpec(Frozen):
    """Of one run.

    address: HOST:PORT of a Ray cluster that is there already, or "auto"; empty: a Ray of the run's own, on this
    machine. party_cpus, party_gpus: what Ray sets aside for a party while it computes; part of a GPU is shared.
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

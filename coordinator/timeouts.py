"""How long a coordinator waits: the table `[federation.timeouts]`."""

from __future__ import annotations

from pydantic import Field

from consilium.protocol.models import Frozen


class Timeouts(Frozen):
    """Seconds to wait, by stage; a party that is late is left out of that stage."""

    enrol: float = Field(default=60, gt=0, description="for parties to answer the first request")
    join: float = Field(
        default=300,
        gt=0,
        description="for all other parties, once enough of them are there; those that come later take part from the"
        " next questions on. Of deployments: in a simulation all are there",
    )
    train: float = Field(default=600, gt=0, description="for the teachers")
    vote: float = Field(default=300, gt=0, description="for the votes")
    secure: float = Field(default=120, gt=0, description="for each stage of a secure sum but that of the votes")
    student: float = Field(default=3600, gt=0, description="for which students may ask")

"""The party that changes what it sends."""

from __future__ import annotations

from collections.abc import Callable

from consilium.protocol.messages import WireModel
from consilium.sums.masks.messages import Stage

BAD = "party-002"


def from_bad(stage: Stage, change: Callable[[WireModel], WireModel | str | None]):
    """`on_reply` that changes what BAD sends in one stage."""
    return lambda at, name, reply: change(reply) if (at, name) == (stage, BAD) else reply

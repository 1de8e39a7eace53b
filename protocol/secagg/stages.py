"""The five exchanges of a session, in order."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """One exchange: a request to each party that is still in, a reply from each."""

    ADVERTISE = "advertise"
    SHARE = "share"
    MASKED = "masked"
    CONSISTENCY = "consistency"
    UNMASK = "unmask"


STAGES = tuple(Stage)

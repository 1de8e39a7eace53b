"""How a label follows from votes: what the student may know of the mechanism's noise. All of it is public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field

Deviation = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class LabelLaw:
    """Of votes n (classes,), `votes` at most, a label is argmax_j(n_j + Z_j), Z_j of standard deviation `deviation`,
    0 where it is the exact winner.

    threshold: of a check, None where every query is answered. A query is answered where
    max_j(n_j - m_j + C_j) + Z >= threshold: C_j of deviation `cell_deviation` (of sums that hold noise), Z of
    `check_deviation`, all noise independent; m_j is 0, or votes times the student's own probability where it is
    `predicted`.
    """

    votes: Annotated[int, Field(ge=1)]
    deviation: Deviation
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    check_deviation: Deviation = 0.0
    cell_deviation: Deviation = 0.0
    predicted: bool = False
    __pydantic_config__ = ConfigDict(extra="forbid")

"""What a plan is made from: facts that everybody may know before anything is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from consilium.coordinator.config import Federation
from consilium.protocol.errors import ConfigError
from consilium.protocol.queries import QUERY_DTYPE, query_ids

PlannedRule = Literal["likeliest", "balanced", "relative", "class_shares"]
"""How teachers vote: for the class that they find likeliest; as though all classes were equally frequent; relative to
their own scores of the public rows, by the median, or by it and the shares of classes among their own rows."""

MOST_ROWS = 2000
"""Public rows that a plan looks at, and so most queries that it plans: at one epsilon more of them make a share of the
votes known no better, and each is work for every party."""

_LOT = 0x706C616E


def planned_rule_of(federation: Federation) -> PlannedRule:
    """How the teachers of a federation vote, as far as a plan can tell."""
    if federation.voting_rule.relative:
        return "class_shares" if federation.voting_rule.by_class_shares else "relative"
    return "balanced" if getattr(federation.teacher, "class_weight", "none") == "balanced" else "likeliest"


@dataclass(frozen=True)
class PublicFacts:
    """What is known of a federation before it runs.

    parties, teachers_per_party: who votes. classes: how many. voting_rule: see `PlannedRule`.
    rows: float64 (n, inputs), the different rows of the pool as models see them, in the order of a public lot; at most
    `MOST_ROWS`. Equal rows are one query, and are charged once. available: rows of the pool altogether. different: of
    these, as many as can be asked. label_cost: what one label by hand takes; empty where nobody says so.
    """

    parties: int
    teachers_per_party: int
    classes: int
    voting_rule: PlannedRule
    rows: np.ndarray = field(repr=False)
    available: int
    different: int
    label_cost: str = ""

    @classmethod
    def of(
        cls,
        parties: int,
        teachers_per_party: int,
        classes: int,
        voting_rule: PlannedRule,
        pool: np.ndarray,
        represent: Callable[[np.ndarray], np.ndarray] = np.asarray,
        label_cost: str = "",
    ) -> PublicFacts:
        """Facts with the rows `pool` (n, features); `represent` makes of them what models see (`Schema.inputs`).

        Raises
        ------
        ConfigError : nothing can be planned from this.
        """
        ids = query_ids(pool.astype(QUERY_DTYPE) + QUERY_DTYPE.type(0))
        for name, value, least in (
            ("parties", parties, 2),
            ("teachers per party", teachers_per_party, 1),
            ("classes", classes, 2),
            ("different public rows", len(set(ids)), 2),
        ):
            if value < least:
                raise ConfigError(f"a plan needs at least {least} {name}, not {value}", f"Give more {name}")
        lot = np.random.default_rng(_LOT).permutation(len(pool))
        _, first = np.unique(np.array(ids)[lot], return_index=True)
        lot = lot[np.sort(first)]
        rows = represent(pool[lot[:MOST_ROWS]]).astype(np.float64)
        if rows.ndim != 2 or not np.isfinite(rows).all():
            raise ConfigError(
                f"the public rows have shape {rows.shape} or missing values, so nothing can be planned on them",
                "Give a table of complete rows",
            )
        return cls(parties, teachers_per_party, classes, voting_rule, rows, len(pool), len(lot), label_cost)

    @property
    def public_rows(self) -> str:
        """How many there are, for people."""
        equal = "" if self.different == self.available else f", {self.different} of them different"
        return f"{self.available} public rows{equal}"

    @property
    def votes(self) -> int:
        """Votes on each query."""
        return self.parties * self.teachers_per_party

"""What could be run within one epsilon: mechanisms with their noise, and how many queries they are asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from consilium.accounting.target import as_histograms
from consilium.coordinator.config import Federation, QueryBudget, sum_noises
from consilium.coordinator.mechanisms import AnyMechanism
from consilium.coordinator.mechanisms.calibration import KINDS, WIDE, noise_scales, with_noise
from consilium.coordinator.planning.facts import PublicFacts
from consilium.protocol.releases import ReleaseKind
from consilium.report.words import many
from consilium.sums.roster import least_sum

QUERIES = (10, 20, 40, 80, 160, 320, 640, 1280)
"""Numbers of queries that are tried, beside all rows of the pool."""
FEW = 80
"""Queries for which noise is calibrated while candidates are compared: it grows as the root of the number of queries,
and exact composition of thousands takes seconds."""
OF_HISTOGRAMS, OF_LABELS = 0.93, 0.78
"""About what share of the noise is needed that Renyi curves of histograms ask for: by exact composition, and where a
label is charged as a label. Both within three per cent of what calibration finds for tens of queries and more."""
ANSWERED = 0.25
"""Share of the queries that a mechanism with a threshold may answer."""
THRESHOLDS = (0.6, 0.75, 0.9)
"""Thresholds that are tried, as shares of all votes."""


@dataclass(frozen=True)
class Candidate:
    """One way to run. table: of the mechanism, without its noise. mechanism: with noise for this query budget."""

    table: dict[str, Any]
    mechanism: AnyMechanism
    query_budget: QueryBudget

    def described(self) -> str:
        """For people."""
        answers = (
            ""
            if self.query_budget.answers == self.query_budget.queries
            else f", at most {many(self.query_budget.answers, 'answer')}"
        )
        return f"{self.mechanism.describe()}, {many(self.query_budget.queries, 'query')}{answers}"


def candidates(federation: Mapping[str, Any], facts: PublicFacts, most: int) -> list[Candidate]:
    """All that are worth a try: `federation` is its table, without mechanism and query budget; at most `most` queries.

    Of noise in the parties' sums, none that is too fine to be shared among them.
    """
    results = []
    votes, colluders = federation.get("collection", "distributed"), int(federation.get("colluders", 0))
    sure = (federation.get("least_survivors") or least_sum(facts.parties, colluders)) - colluders
    for table, share in _tables(facts):
        small = _roughly(federation, table, QueryBudget(queries=FEW, answers=round(share * FEW)))
        numbers = sorted({queries for queries in QUERIES if queries < most} | {most})
        for queries in numbers:
            if share * queries < 1:
                continue
            query_budget = QueryBudget(queries=queries, answers=round(share * queries))
            mechanism = _wider(small, math.sqrt(queries / FEW))
            if votes != "distributed" or not any(n.is_too_fine for n in sum_noises(mechanism, votes, sure, colluders)):
                results.append(Candidate(table, mechanism, query_budget))
    return results


def _roughly(federation: Mapping[str, Any], table: dict[str, Any], query_budget: QueryBudget) -> AnyMechanism:
    """The mechanism with about the noise that keeps the epsilon; what is chosen at last is calibrated for itself.

    Raises
    ------
    ValidationError : the table of the federation is wrong. CalibrationError : no noise is enough.
    """
    privacy = dict(federation["privacy"])
    wide = {name: scale.of(WIDE) for name, scale in noise_scales(KINDS[table["name"]]).items()}
    base = Federation.model_validate(
        {
            **federation,
            "privacy": {**privacy, "epsilon": None},
            "mechanism": {**table, **wide},
            "query_budget": query_budget.model_dump(),
        }
    )

    def rough(mechanism: AnyMechanism) -> float:
        return as_histograms(base.model_copy(update={"mechanism": mechanism}).promised_events(), base.privacy.delta)

    scales = with_noise(table, query_budget.queries, query_budget.answers, float(privacy["epsilon"]), rough, rough)
    mechanism = base.model_validate({**base.model_dump(), "mechanism": {**table, **scales}}).mechanism
    seen = base.disclosure.release is ReleaseKind.COUNTS
    return _wider(mechanism, OF_HISTOGRAMS if seen else OF_LABELS)


def _tables(facts: PublicFacts) -> Iterator[tuple[dict[str, Any], float]]:
    """Tables of mechanisms without noise, and the share of the queries that they answer."""
    for name in ("gnmax", "histogram"):
        yield {"name": name}, 1.0
    for threshold in THRESHOLDS:
        yield {"name": "confident", "threshold": round(threshold * facts.votes)}, ANSWERED


def _wider(mechanism: AnyMechanism, factor: float) -> AnyMechanism:
    scales = noise_scales(KINDS[mechanism.name])
    return mechanism.model_copy(update={name: getattr(mechanism, name) * factor for name in scales})

"""What votes cost, as one object that shows nothing secret by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from consilium.accounting.guarantee import Guarantee
from consilium.accounting.research.chart import epsilon_chart
from consilium.accounting.research.growth import Growth
from consilium.accounting.research.mechanisms import Aggregator
from consilium.accounting.sanitise.release import SanitisedRelease

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EpsilonResult:
    """Bounds on what it costs to release labels for some votes. What votes decide is marked as secret.

    Fields
    ------
    mechanism, queries, classes, teachers : what was asked. answers : most labels that may leave, fixed before.
    guarantee : the worst case of what leaves, with everything that it means; the number that may be published.
    worst_case_as_histogram : the same if the whole noisy histogram left, as the papers charge it.
    exact : secret; of the votes, the larger of both directions. Where the unit moves several votes no exact value is
        known, and it is the published bound; where votes decide nothing, the worst case.
    order : secret; the Renyi order of ``exact``.
    published, published_classic : secret; the bound of the PATE papers, which covers one direction, and the same
        converted as they did. None where there is none.
    sanitised : a release of the published bound with noise, which may be published; None unless it was asked for.
    sanitised_refusal : why there is none although it was asked for.
    per_query : secret; float64 (queries,), each query's part of the exact Renyi cost at ``order``.
    answered : secret; labels that leave, in expectation unless they were told.
    growth : computes epsilon after so many queries. show_secret : whether secrets are shown when it is printed.
    """

    mechanism: Aggregator
    queries: int
    classes: int
    teachers: int
    answers: int
    guarantee: Guarantee
    worst_case_as_histogram: float
    exact: float
    order: float
    published: float | None
    published_classic: float | None
    sanitised: SanitisedRelease | None
    sanitised_refusal: str | None
    per_query: np.ndarray
    answered: float
    growth: Callable[[], Growth] = field(compare=False)
    show_secret: bool

    @property
    def worst_case(self) -> float:
        """Epsilon that may be published: of what leaves, whatever the votes are, at counts that were fixed before."""
        return self.guarantee.epsilon

    @property
    def delta(self) -> float:
        """Probability that the guarantee may fail."""
        return self.guarantee.delta

    def rows(self) -> list[tuple[str, float | None, bool]]:
        """(name, epsilon or None where there is none, whether it may be published) in reading order."""
        cap = f"{self.answers} labels for {self.queries} queries"
        rows: list[tuple[str, float | None, bool]] = [
            (f"worst case, at most {cap}", self.worst_case, True),
            ("worst case, as if the histogram left", self.worst_case_as_histogram, True),
            ("exact, both directions", self.exact, False),
            ("published bound, one direction", self.published, False),
            ("published bound, classic conversion", self.published_classic, False),
        ]
        if self.sanitised is not None:
            rows.append(("published bound, sanitised", self.sanitised.guarantee.epsilon, True))
        return rows

    def _shown(self, value: float | None, publishable: bool) -> str:
        if value is None:
            return "none"
        return f"{value:.4f}" if publishable or self.show_secret else "secret"

    def __repr__(self) -> str:
        secret = "; exact, published: secret"
        if self.show_secret:
            secret = f"; SECRET: exact {self.exact:.4f}, published {self._shown(self.published, False)}"
        return (
            f"EpsilonResult({self.mechanism}, {self.queries} queries, delta {self.delta:g}, "
            f"worst case {self.worst_case:.4f}{secret})"
        )

    def _repr_html_(self) -> str:
        lines = [
            f"<tr><td>{escape(name)}</td><td>{self._shown(value, publishable)}</td>"
            f"<td>{'may be published' if publishable else 'secret'}</td></tr>"
            for name, value, publishable in self.rows()
        ]
        title = f"{self.mechanism}, epsilon at delta {self.delta:g}"
        return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"

    def plot(self, show_secret: bool = True) -> alt.LayerChart | alt.Chart:
        """Epsilon by number of queries asked: worst case, published, exact. The latter two are secret, the chart too.

        show_secret : False for a chart of the worst case alone, which may be published.
        """
        return epsilon_chart(self.growth(), self.delta, show_secret)

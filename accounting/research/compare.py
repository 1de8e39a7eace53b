"""Several mechanisms on the same votes, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from consilium.accounting.research.assess import epsilon
from consilium.accounting.research.histograms import as_histograms
from consilium.accounting.research.mechanisms import Aggregator

if TYPE_CHECKING:
    import polars as pl


def compare(
    votes: object,
    mechanisms: Iterable[Aggregator | str],
    delta: float = 1e-5,
    *,
    classes: int | None = None,
    **claim: Any,
) -> pl.DataFrame:
    """What each mechanism costs on these votes, a row for each: a polars frame. Secret, but for the worst cases.

    Arguments and errors as in ``epsilon``.

    >>> frame = compare([[90, 6, 4], [100, 0, 0]], ["GNMax(sigma=20)", "GNMax(sigma=40)"])
    >>> frame.columns[:2], frame["answered"].to_list()
    (['mechanism', 'worst_case'], [2.0, 2.0])
    """
    import polars as pl

    histograms, _ = as_histograms(votes, classes)
    found = [epsilon(histograms, mechanism, delta, **claim) for mechanism in mechanisms]
    return pl.DataFrame(
        {
            "mechanism": [str(one.mechanism) for one in found],
            "worst_case": [one.worst_case for one in found],
            "worst_case_as_histogram": [one.worst_case_as_histogram for one in found],
            "exact": [one.exact for one in found],
            "published": [one.published for one in found],
            "published_classic": [one.published_classic for one in found],
            "answered": [one.answered for one in found],
        },
        schema_overrides={"published": pl.Float64, "published_classic": pl.Float64},
    )

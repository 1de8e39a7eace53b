"""What the votes are worth before any noise."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from consilium.protocol.rows.queries import query_ids
from consilium.simulations.compare.probabilities import vote_shares
from consilium.simulations.study.case import Case
from consilium.simulations.study.ensemble import Ensemble
from consilium.simulations.study.methods.base import Predicted, StudyMethod, needed
from consilium.simulations.study.said import Said

_NO_FEDERATION = "plurality"
"""In place of a federation's digest in the lots that decide equal scores."""


class Plurality(StudyMethod):
    """All teachers vote on every row, without noise; a class's probability is its share of the votes.

    Equal scores (under the relative ballot) are decided by lots of their own, so that it is the same whatever the
    federation around the teachers is; a run's own plurality differs from it by these lots alone.
    """

    title: ClassVar[str] = "plurality without noise"
    private: ClassVar[bool] = False
    needs_ensemble: ClassVar[bool] = True

    name: Literal["plurality"] = "plurality"

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        return {}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`."""
        said = needed(ensemble, self.name)
        return Predicted(
            test=plurality_shares(case, said.test, case.test_x, _NO_FEDERATION) if len(case.test_y) else None,
            home=plurality_shares(case, said.home, case.home_x, _NO_FEDERATION) if len(case.home_y) else None,
        )


def plurality_shares(case: Case, said: Said, x: np.ndarray, federation: str) -> np.ndarray:
    """float64 (rows, classes): shares of all votes on `x`, the canonical rows that `said` is about. `federation`: a
    digest for the lots."""
    votes = said.totals(np.arange(len(x)), case.parties, federation, query_ids(x), len(case.classes))
    return vote_shares(votes)

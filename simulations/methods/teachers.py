"""What the parties' teachers give without any noise: each party's alone, all of their votes, and a student of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from consilium.accounting.curves.gdp import sigma_needed
from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.models.base import Shares
from consilium.models.published.prevalence import PrevalenceShift
from consilium.report.words import ALONE, PLURALITY
from consilium.simulations.artifact import Arrays
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import BY_ROW, TEST_DRAWS, Predicted, PromisedMethod, StudyMethod, needed
from consilium.simulations.metrics import leading_metric, one_against_rest, over_parties
from consilium.simulations.vote import Ensemble, plurality_shares
from consilium.student.learn import AnsweredRows, inputs, prevalence_for


class LocalOnly(StudyMethod):
    """Each party's own teachers. At home they are judged on what they have not seen.

    On the public test rows there is no one model: figures accuracy and, of two classes, auc are means over the parties,
    with the 10th and 90th percentile of the parties (accuracy_p10 ...). A party with several teachers has the mean of
    their accuracies, and the AUC of their mean probability. arrays: what each test row adds to either (`BY_ROW`).
    """

    title: ClassVar[str] = ALONE
    private: ClassVar[bool] = False
    needs_ensemble: ClassVar[bool] = True
    format: ClassVar[int] = 2

    name: Literal["local"] = "local"

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        return {}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`."""
        voted, y = needed(ensemble, self.name), case.test_y
        figures: dict[str, float | None] = {}
        arrays: Arrays = {}
        if len(y):
            figures.update(over_parties("accuracy", voted.test_right.tolist()))
            arrays |= _by_row("accuracy", _rights(voted, y), figures["accuracy"])
        if leading_metric(y, len(case.classes)) == "auc":
            areas = [one_against_rest(scores, y == 1) for scores in voted.test_scores.astype(np.float64)]
            figures.update(over_parties("auc", [float(area.mean()) for area in areas]))
            arrays |= _by_row("auc", [np.mean(areas, axis=0)], figures["auc"])
        home = voted.own_home.astype(np.float64) if len(case.home_y) else None
        known = {name: value for name, value in figures.items() if value is not None}
        return Predicted(home=home, figures=known, arrays=arrays)


def _rights(voted: Ensemble, y: np.ndarray) -> Iterator[np.ndarray]:
    """Share of teachers that are right on each test row, float64 (test,): by their votes, by their mean probability.

    Under the relative voting rule a vote is not the likeliest class, and several teachers are not their mean."""
    yield (voted.test.cast == y).mean(axis=(0, 1))
    if voted.test_scores.shape[1]:
        yield ((voted.test_scores > 0.5) == (y == 1)).mean(axis=0)


def _by_row(metric: str, candidates: Iterable[np.ndarray], figure: float | None) -> Arrays:
    """The first whose mean is the figure; nothing where none is."""
    for scores in candidates:
        if figure is not None and abs(float(scores.mean()) - figure) < 1e-6:
            return {BY_ROW + metric: scores.astype(np.float32)}
    return {}


_NO_FEDERATION = "plurality"
"""In place of a federation's digest in the lots that decide equal scores."""


class Plurality(StudyMethod):
    """All teachers vote on every row, without noise; a class's probability is its share of the votes.

    Equal scores (under the relative voting rule) are decided by lots of their own, so that it is the same whatever the
    federation around the teachers is; a run's own plurality differs from it by these lots alone.
    """

    title: ClassVar[str] = PLURALITY
    private: ClassVar[bool] = False
    needs_ensemble: ClassVar[bool] = True

    name: Literal["plurality"] = "plurality"

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        return {}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`."""
        voted = needed(ensemble, self.name)
        return Predicted(
            test=plurality_shares(case, voted.test, case.test_x, _NO_FEDERATION) if len(case.test_y) else None,
            home=plurality_shares(case, voted.home, case.home_x, _NO_FEDERATION) if len(case.home_y) else None,
        )


_EXACT = 1e-3
"""Noise of a share of votes, for students that weigh what they are told by it."""
_DRAWS = 5
_PURPOSE = 0x6665646466


class Distilled(StudyMethod):
    """The cell's own student, taught by the exact votes of all teachers on the whole pool: one-shot distillation as in
    FedKT (Li et al. 2021, arXiv 2010.01017) and FedDF (Lin et al. 2020, arXiv 2006.07242), and what PATE is without
    noise and with every public row asked. Whoever has the pool's votes learns from it: it promises nothing.
    """

    title: ClassVar[str] = "distillation without noise"
    private: ClassVar[bool] = False
    needs_ensemble: ClassVar[bool] = True

    name: Literal["distilled"] = "distilled"

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        return {"student": case.scenario.student.model_dump(mode="json")}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`."""
        votes = plurality_shares(case, needed(ensemble, self.name).pool, case.pool_x, _NO_FEDERATION)
        return Predicted(*distil(case, np.arange(len(votes)), Shares(votes, np.full(len(votes), _EXACT))))


class NoisyDistilled(PromisedMethod):
    """`Distilled` with a promise: one noisy mean of all parties' votes on many public rows, as FedDF or FedMD (Li, Wang
    2019, arXiv 1910.03581) with Gaussian noise, exactly accounted, and with no query selection, threshold or ledger.

    A party says the mean of its k teachers' votes on each of r rows. One that is replaced moves these by sqrt(2 r) in
    the Euclidean norm, one that gives nothing by sqrt(r); a record or a patient changes as many teachers as
    `votes_moved` says, each by sqrt(2 r) / k. Judged on the test rows as the mean over draws of the noise; at home, and
    as `Predicted.test`, it is the first draw. figures: epsilon, delta, rows, noise_deviation (of a share).
    """

    title: ClassVar[str] = "distillation with noise"
    needs_ensemble: ClassVar[bool] = True

    name: Literal["noisy_distilled"] = "noisy_distilled"
    rows: int | None = Field(default=None, ge=1, description="public rows that are asked, by lot; left out: all")

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        return {**super().depends_on(case), "student": case.scenario.student.model_dump(mode="json")}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`. Absent where nothing finite is promised."""
        promise = self.guarantee(case)
        if promise is None or promise.epsilon <= 0:
            return Predicted(absent="the run promises no epsilon that distillation could keep")
        votes = plurality_shares(case, needed(ensemble, self.name).pool, case.pool_x, _NO_FEDERATION)
        generator = np.random.default_rng([case.seed, _PURPOSE])
        places = np.sort(generator.permutation(len(votes))[: self.rows])
        moved = share_moved(promise.unit, promise.neighbouring, case.config.teachers_per_party) * math.sqrt(len(places))
        scale = sigma_needed(1, promise.epsilon, promise.delta, scalar=True) * moved / len(case.parties)
        deviations = np.full(len(places), scale)
        drawn = [
            distil(case, places, Shares(votes[places] + scale * noise, deviations))
            for noise in generator.standard_normal((_DRAWS, len(places), len(case.classes)))
        ]
        test, home = drawn[0]
        return Predicted(
            test=test,
            home=home,
            figures={
                "epsilon": promise.epsilon,
                "delta": promise.delta,
                "rows": float(len(places)),
                "noise_deviation": scale,
            },
            arrays={TEST_DRAWS: np.stack([tested for tested, _ in drawn if tested is not None])}
            if test is not None
            else {},
        )


def share_moved(unit: Unit, neighbouring: Neighbouring, teachers_per_party: int) -> float:
    """How far one unit moves the mean vote of a party on one row, in the Euclidean norm.

    >>> replace = Neighbouring.REPLACE
    >>> [round(share_moved(unit, replace, 4), 3) for unit in (Unit.PARTY, Unit.RECORD)]
    [1.414, 0.707]
    >>> share_moved(Unit.PARTY, Neighbouring.ADD_OR_REMOVE, 4)
    1.0
    """
    if unit is Unit.PARTY:
        return math.sqrt(2) if neighbouring is Neighbouring.REPLACE else 1.0
    return math.sqrt(2) * votes_moved(unit, teachers_per_party, neighbouring) / teachers_per_party


def distil(case: Case, places: np.ndarray, shares: Shares) -> tuple[np.ndarray | None, np.ndarray | None]:
    """What the cell's student, which learns from these shares of the pool's rows at `places`, says to the test rows and
    the rows at home; None where there are none."""
    spec, schema = case.scenario.student, case.config.rows
    rows = inputs(spec, schema, case.pool_x)
    model = AnsweredRows(rows, places, shares.shares.argmax(axis=1), shares).train(spec, schema, case.seed)
    prevalence = prevalence_for(spec, model, rows, shares)

    def probabilities_of(x: np.ndarray) -> np.ndarray | None:
        if not len(x):
            return None
        probabilities = model.predict_proba(inputs(spec, schema, x))
        if not prevalence:
            return probabilities
        return PrevalenceShift.onto(prevalence, model.predict_proba(rows)).applied(probabilities)

    return probabilities_of(case.test_x), probabilities_of(case.home_x)

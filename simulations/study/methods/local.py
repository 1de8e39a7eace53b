"""No federation: what each party has by itself."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from consilium.simulations.compare.means import over_parties
from consilium.simulations.metrics.row_scores import leading_metric
from consilium.simulations.study.case import Case
from consilium.simulations.study.ensemble import Ensemble
from consilium.simulations.study.methods.base import Predicted, StudyMethod, needed
from consilium.student.evaluation import area_under_curve


class LocalOnly(StudyMethod):
    """Each party's own teachers. At home they are judged on what they have not seen.

    On the public test rows there is no one model: figures accuracy and, of two classes, auc are means over the parties,
    with the 10th and 90th percentile of the parties (accuracy_p10 ...). A party with several teachers has the mean of
    their accuracies, and the AUC of their mean probability.
    """

    title: ClassVar[str] = "one party alone"
    private: ClassVar[bool] = False
    needs_ensemble: ClassVar[bool] = True

    name: Literal["local"] = "local"

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        return {}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`."""
        said, y = needed(ensemble, self.name), case.test_y
        found: dict[str, float | None] = {}
        if len(y):
            found.update(over_parties("accuracy", said.test_right.tolist()))
        if leading_metric(y, len(case.classes)) == "auc":
            areas = [area_under_curve(scores, y == 1) for scores in said.test_scores.astype(np.float64)]
            found.update(over_parties("auc", areas))
        home = said.own_home.astype(np.float64) if len(case.home_y) else None
        return Predicted(home=home, figures={name: value for name, value in found.items() if value is not None})

"""The round in pfl, Apple's simulator: `python apple.py ROWS OUT`, by an interpreter that has pfl and scikit-learn.

An algorithm of one iteration whose cohort is every user: what it says of a user is the votes, and the simulated backend
adds them up, as it does with model updates. One process: several need `torch.distributed`.
"""
# pyright: reportMissingImports=false, reportCallIssue=false
# (pfl is not installed where this is checked)

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import FederatedAlgorithm
from pfl.common_types import Population
from pfl.context import CentralContext
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import AlgorithmHyperParams, ModelHyperParams
from pfl.metrics import Metrics
from pfl.model.base import Model
from pfl.stats import MappedVectorStatistics
from task import Rows, measured, votes_of


class Nothing(Model):
    """There is no common model."""

    def apply_model_update(self, statistics):
        """See Model."""
        return self, Metrics()


class Round(FederatedAlgorithm):
    """Its users' votes; `total` is their sum."""

    def __init__(self, queries: np.ndarray, users: int) -> None:
        super().__init__()
        self._queries, self._users = queries, users
        self.total = np.zeros(len(queries))

    def save(self, dir_path):
        """See Saveable."""

    def load(self, dir_path):
        """See Saveable."""

    def get_next_central_contexts(self, model, iteration, algorithm_params, model_train_params, model_eval_params=None):
        """See FederatedAlgorithm."""
        if iteration == 1:
            return None, model, Metrics()
        context = CentralContext(
            current_central_iteration=iteration,
            do_evaluation=False,
            cohort_size=self._users,
            population=Population.TRAIN,
            model_train_params=model_train_params,
            algorithm_params=algorithm_params,
        )
        return (context,), model, Metrics()

    def simulate_one_user(self, model, user_dataset, central_context):
        """See FederatedAlgorithm."""
        votes = votes_of(*user_dataset.raw_data, self._queries)
        return MappedVectorStatistics({"votes": votes.astype(np.float32)}, weight=1.0), Metrics()

    def process_aggregated_statistics(self, central_context, aggregate_metrics, model, statistics):
        """See FederatedAlgorithm."""
        self.total = statistics["votes"]
        return model, Metrics()


def main(folder: Path, out: Path) -> None:
    """Of the rows in `folder`; see `task.measured`."""
    rows = Rows.load(folder)
    users = len(rows.ends)
    data = FederatedDataset(lambda user: Dataset(rows.of(user), user_id=str(user)), iter(range(users)).__next__)
    backend = SimulatedBackend(data, data)
    algorithm = Round(np.asarray(rows.queries), users)

    def work() -> np.ndarray:
        algorithm.run(AlgorithmHyperParams(), backend, Nothing(), ModelHyperParams(), send_metrics_to_platform=False)
        return np.asarray(algorithm.total)

    (out / "version").write_text(f"pfl {version('pfl')}")
    measured(work, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Federated averaging by Flower on the default scenario, by rounds and epsilon, a whole hospital the unit."""

from __future__ import annotations

import numpy as np

from consilium.simulations.divide import make_case
from consilium.simulations.methods.federated import FedAvgMethod
from consilium.simulations.metrics import row_scores
from consilium.simulations.scenario import load_scenario

SEEDS, ROUNDS, EPSILONS = range(5), (1, 5, 20), (None, 3.0, 1.0, 0.3)
HOME_SHARE = 0.2


def main() -> None:
    """Print the table."""
    cases = [make_case(load_scenario("stroke", []), seed, HOME_SHARE) for seed in SEEDS]
    print("hospitals", [len(case.parties) for case in cases])
    names = [f"epsilon {epsilon:g}" if epsilon else "not private" for epsilon in EPSILONS]
    print(f"{'rounds':>6}" + "".join(f"{name:>16}" for name in names))
    for rounds in ROUNDS:
        cells = []
        for epsilon in EPSILONS:
            method, areas = FedAvgMethod(rounds=rounds, epsilon=epsilon), []
            for case in cases:
                found = np.asarray(method.predict(case, None).test)
                areas.append(row_scores(found, case.test_y, "auc").mean())
            cells.append(f"{np.mean(areas):.3f} ± {np.std(areas):.3f}")
        print(f"{rounds:6}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()

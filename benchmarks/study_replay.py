"""What one more mechanism costs on cached votes: PATE replayed on the votes of `stroke-labels`, again and again.

CONSILIUM_REPLAYS chooses how many settings (1,000). Every tenth has noise that was not charged before in this process:
its exact worst case is then computed, which is most of the time.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

import numpy as np

from consilium.simulations.divide import Case, make_case
from consilium.simulations.judge import judged
from consilium.simulations.methods.kinds import method_of
from consilium.simulations.scenario import load_scenario
from consilium.simulations.vote import train_ensemble

THRESHOLDS = tuple(range(100, 200, 10))


def setting(case: Case, number: int) -> Case:
    """The case with the mechanism of this number: ten thresholds for each amount of noise."""
    more = 1 + (number // len(THRESHOLDS)) / 100
    changed = {"threshold": THRESHOLDS[number % len(THRESHOLDS)], "sigma1": 300.0 * more, "sigma2": 108.0 * more}
    mechanism = case.config.mechanism.model_copy(update=changed)
    return replace(case, config=case.config.model_copy(update={"mechanism": mechanism}))


def main() -> None:
    """Print seconds for the case and its teachers, and for each setting: of new noise, and of the same."""
    count = int(os.environ.get("CONSILIUM_REPLAYS", "1000"))
    start = time.perf_counter()
    case = make_case(load_scenario("stroke-labels"), 0, 0.2)
    ensemble = train_ensemble(case)
    print(f"{len(case.parties)} parties, case and teachers: {time.perf_counter() - start:.1f} s")
    pate, took = method_of("pate"), []
    for number in range(count):
        one, begin = setting(case, number), time.perf_counter()
        judged("pate", one, pate.predict(one, ensemble))
        took.append(time.perf_counter() - begin)
    new = np.arange(count) % len(THRESHOLDS) == 0
    print(f"{count} settings: {sum(took):.0f} s")
    for name, which in (("new noise", new), ("same noise", ~new)):
        times = np.array(took)[which]
        print(f"{name}: {len(times)}, median {np.median(times):.2f} s, 95 % within {np.quantile(times, 0.95):.2f} s")


if __name__ == "__main__":
    main()

"""What one more mechanism costs on the votes of one case, beside a loop that a researcher would write.

    python -m benchmarks study_replay            (or: python -m benchmarks.study_replay [--settings 1000])

The study is `benchmarks/studies/thousand.toml` in this process: noise of so many scales on the votes of `stroke`, each
settled, charged, released, learned, judged and kept, with teachers and report. The loop knows the votes already, draws
the noise, fits scikit-learn's logistic regression to the labels and asks it about the test rows: no cost, no budget, no
interval, no party's own rows. Then PATE alone is replayed on the votes of `stroke`, where every tenth setting
has noise that was not charged before in this process. All of it is processor time of one process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from consilium.protocol.queries import query_ids
from consilium.simulations.divide import Case, make_case
from consilium.simulations.judge import judged
from consilium.simulations.methods.kinds import method_of
from consilium.simulations.scenario import load_scenario
from consilium.simulations.study.cache import StepCache
from consilium.simulations.study.run import run_study
from consilium.simulations.study.spec import StudySpec, load_study, points_of
from consilium.simulations.vote import Ensemble, train_ensemble

STUDY = Path(__file__).parent / "studies" / "thousand.toml"
THRESHOLDS = tuple(range(100, 200, 10))


def seconds(run: Callable[[], object]) -> float:
    """Of processor time."""
    start = time.process_time()
    run()
    return time.process_time() - start


def study_of(settings: int) -> StudySpec:
    """The study with so many scales of noise."""
    spec = load_study(str(STUDY))
    axis = spec.axis[0]
    numbers = None if axis.range is None else axis.range.model_copy(update={"count": settings})
    return spec.model_copy(update={"axis": (axis.model_copy(update={"range": numbers}),)})


def whole_study(spec: StudySpec) -> None:
    """Every step of it, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        run_study(spec, Path(folder) / "out", StepCache(Path(folder) / "cache"))


def plain_loop(case: Case, votes: np.ndarray, sigmas: list[float]) -> float:
    """Noise and fit for each scale of noise. votes: int64 (pool, classes). The mean accuracy, so that all is used."""
    generator, right = np.random.default_rng(0), []
    inputs, count = case.config.rows.inputs, case.config.query_budget.queries
    x, test_x = inputs(case.pool_x), inputs(case.test_x)
    for sigma in sigmas:
        rows = generator.permutation(len(x))[:count]
        labels = (votes[rows] + generator.normal(scale=sigma, size=(count, votes.shape[1]))).argmax(axis=1)
        model = LogisticRegression().fit(x[rows], labels)
        right.append(float((model.predict_proba(test_x).argmax(axis=1) == case.test_y).mean()))
    return float(np.mean(right))


def setting(case: Case, number: int) -> Case:
    """The case with the mechanism of this number: ten thresholds for each amount of noise."""
    more = 1 + (number // len(THRESHOLDS)) / 100
    changed = {"threshold": THRESHOLDS[number % len(THRESHOLDS)], "sigma1": 300.0 * more, "sigma2": 108.0 * more}
    mechanism = case.config.mechanism.model_copy(update=changed)
    return replace(case, config=case.config.model_copy(update={"mechanism": mechanism}))


def replays(settings: int) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of settings of new noise, and of noise that was charged before."""
    case = make_case(load_scenario("stroke"), 0, 0.2)
    ensemble, pate, took = train_ensemble(case), method_of("pate"), []

    def replay(changed: Case, ensemble: Ensemble) -> None:
        judged("pate", changed, pate.predict(changed, ensemble))

    for number in range(settings):
        changed = setting(case, number)
        took.append(1000 * seconds(lambda: replay(changed, ensemble)))  # noqa: B023
    new = np.arange(settings) % len(THRESHOLDS) == 0
    return np.array(took)[new], np.array(took)[~new]


def main() -> None:
    """Print the study's seconds beside the loop's, and milliseconds of each replay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=1000)
    settings = parser.parse_known_args()[0].settings
    spec, case = study_of(settings), make_case(load_scenario("stroke"), 0, 0.0)
    ensemble, sigmas = train_ensemble(case), [float(label) for label in points_of(spec.axis[0])]
    rows = np.arange(len(case.pool_y))
    votes = ensemble.pool.totals(rows, case.parties, case.config.digest(), query_ids(case.pool_x), len(case.classes))
    plain_loop(case, votes, sigmas[:10])  # what is imported and made once is no setting's
    first, loop = seconds(lambda: whole_study(study_of(2))), seconds(lambda: plain_loop(case, votes, sigmas))
    took = seconds(lambda: whole_study(spec))
    print(f"{len(case.parties)} parties, {settings} settings, processor seconds of one process")
    print(f"study, teachers and report included: {took:.1f}; of two settings: {first:.1f}")
    each = (took - first) / (settings - 2)
    print(f"a further setting: {each:.4f}; loop of noise and fit: {loop:.1f}, {loop / settings:.4f} a setting")
    print(f"study / loop: {took / loop:.1f}; a further setting: {each * settings / loop:.1f}")
    for name, times in zip(("new noise", "same noise"), replays(settings), strict=True):
        print(f"replay, {name}: {len(times)}, median {np.median(times):.0f} ms, 95 % {np.quantile(times, 0.95):.0f} ms")


if __name__ == "__main__":
    main()

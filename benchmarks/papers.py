"""The papers' rows on MNIST, 250 teachers, delta 1e-5: epsilon, labels, and students by trainer, over several seeds.

    python -m benchmarks.papers [--seeds 0 1 2] [--scenario mnist-250] [--rows ROW ...] [--trainers NAME ...] [--out F]

Teachers are those of the scenario, trained and asked once for each seed as its parties would; then every row's
mechanism draws its labels from those votes with seeded noise, and students learn from them. Needs the MNIST files.
Sanitised releases are planned on the votes published with Papernot et al. 2018 alone. What was measured stands in F,
one JSON line each, so that the script goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import Kept, command_of, table
from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.errors import CalibrationError, NoiseError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.guarantees import Kind
from consilium.accounting.label_costs import VoteBatch, published_rdp
from consilium.accounting.mechanisms import Confident, GNMax, Histogram, Immutable, LNMax
from consilium.accounting.sanitise.release import forecast_sanitised, sanitise
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.draw import Drawn, draw, exact
from consilium.coordinator.mechanisms import AnyMechanism, law_of
from consilium.data.private_rows import Rows
from consilium.models import keys
from consilium.models.base import Outcomes, Represent, Shares, Told
from consilium.models.table import fit_teachers
from consilium.protocol.config_files import drop_other_kinds
from consilium.protocol.label_source import NO_LABEL, Outcome
from consilium.protocol.noise import SeededNoise
from consilium.protocol.queries import canonical_queries
from consilium.simulations.datasets.base import data_folder
from consilium.simulations.divide import federation_config
from consilium.simulations.scenario import divided_data, load_scenario
from consilium.student.config import StudentSpec
from consilium.student.learn import inputs
from consilium.student.learn import train as train_student
from consilium.student.selection import BY_ROWS, Strategy, choose

DELTA = 1e-5
PUBLISHED = 250
"""Teachers behind the published votes, which plan sanitised releases of as many."""

TRAINERS = ("graph", "graph_cnn")
"""The papers' own are in `consilium run pate-2017` and its like."""


@dataclass(frozen=True)
class Row:
    """A mechanism, how many queries it is asked, what the paper reports, and which students learn from its labels."""

    mechanism: AnyMechanism
    queries: int
    paper: str
    trainers: tuple[str, ...]
    selection: Strategy = "random"


ROWS = {
    "lnmax-100": Row(LNMax(gamma=0.05), 100, "2.04, 98.00 %", TRAINERS),
    "lnmax-1000": Row(LNMax(gamma=0.05), 1000, "8.03, 98.10 %", TRAINERS),
    "confident-640": Row(Confident(threshold=200, sigma1=150.0, sigma2=40.0), 640, "1.97, 98.5 %", TRAINERS),
    "confident-400": Row(Confident(threshold=240, sigma1=250.0, sigma2=30.0), 400, "", ()),
    "gnmax-70": Row(GNMax(sigma=50.0), 70, "", TRAINERS),
    "typical-30": Row(GNMax(sigma=55.0), 30, "", TRAINERS, "typical"),
    "histogram-30": Row(Histogram(sigma=67.0), 30, "", ("graph_cnn",), "typical"),
    "immutable-9000": Row(Immutable(gamma=0.05, constant=100), 9000, "", ("graph",)),
}
"""LNMax: Papernot 2017, noise scale 20. Confident with 640 queries: Papernot 2018, its parameters. Those with 400 were
chosen on the published 2018 votes. `typical-30` releases labels, `histogram-30` counts, of the same queries."""


class Remembered:
    """A representation of `rows` (n, features), computed once: of any of them, float32 (m, inputs)."""

    def __init__(self, represent: Represent, rows: np.ndarray) -> None:
        self._inputs = represent(rows).astype(np.float32)
        self._at = {row.tobytes(): index for index, row in enumerate(rows.astype(np.float32))}

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """See the class; raises KeyError for other rows."""
        return self._inputs[[self._at[row.tobytes()] for row in rows.astype(np.float32)]]


class Place:
    """A scenario's data for one seed: who has what, and the public rows. changes : as after `--set`."""

    def __init__(self, name: str, seed: int, changes: Sequence[str] = ()) -> None:
        self.name, self.seed = name, seed
        self.scenario = load_scenario(name, list(changes))
        self.dataset, self.partition = divided_data(self.scenario, seed)
        self.schema = federation_config(self.scenario, self.dataset, self.partition, seed).rows
        width = len(self.schema.features)
        self.pool = canonical_queries(self.dataset.x[self.partition.queries], width)
        self.pool_truth = self.dataset.y[self.partition.queries]
        self.test = canonical_queries(self.dataset.x[self.partition.test], width)
        self.truth = self.dataset.y[self.partition.test]
        self.inputs = Remembered(self.schema.inputs, np.concatenate([self.pool, self.test]))


@dataclass(frozen=True)
class Votes:
    """Of all teachers, int64 (rows, classes): on the pool and on held-out rows; and what share one gets right."""

    pool: np.ndarray
    test: np.ndarray
    teacher_right: float


def teachers_votes(place: Place, cache: Path) -> Votes:
    """Train a scenario's teachers as its parties do, and ask them for every public row. Kept beside `cache`."""
    path = cache.with_name(f"{cache.stem}-votes-{place.name}-{place.seed}.npz")
    if path.exists():
        with np.load(path) as kept:
            return Votes(kept["pool"], kept["test"], float(kept["teacher"]))
    schema, classes = place.schema, len(place.schema.classes)
    pool, test = schema.inputs(place.pool), schema.inputs(place.test)
    on_pool, on_test = (np.zeros((len(rows), classes), dtype=np.int64) for rows in (pool, test))
    right = []
    for rows in place.partition.parties.values():
        own = Rows(schema.inputs(place.dataset.x[rows]), place.dataset.y[rows])
        teacher = fit_teachers(place.scenario.federation.teacher, own, [np.arange(len(rows))], [place.seed], classes)
        on_pool += np.eye(classes, dtype=np.int64)[teacher[0].predict(pool)]
        told = np.eye(classes, dtype=np.int64)[teacher[0].predict(test)]
        on_test += told
        right.append(float((told.argmax(axis=1) == place.truth).mean()))
    found = Votes(on_pool, on_test, float(np.mean(right)))
    np.savez(path, pool=on_pool, test=on_test, teacher=found.teacher_right)
    return found


def epsilons(row: Row, votes: np.ndarray, labels: np.ndarray, teachers: int, seed: int) -> dict[str, float | None]:
    """Data-dependent, worst case of what was answered, worst case if all had been, and sanitised."""
    answered = labels != NO_LABEL
    event = row.mechanism.event(
        asked=len(votes),
        answered=int(answered.sum()),
        unit=Unit.PARTY,
        neighbouring=Neighbouring.REPLACE,
        teachers_per_party=1,
    )
    full = event.with_counts(len(votes), len(votes))
    found: dict[str, float | None] = {
        "worst": worst_case(event),
        "promised": worst_case(full),
        "data-dependent": None,
        "sanitised": None,
    }
    batch = VoteBatch(event, votes, answered)
    if (curve := published_rdp(batch)) is not None:
        found["data-dependent"] = rdp_to_epsilon(curve, DEFAULT_ORDERS, DELTA).epsilon
    if event.label is not None and teachers == PUBLISHED:
        with np.load(data_folder("") / "pate2018_votes_mnist.npz") as published:
            public = published["votes"].astype(np.int64)[: len(votes)]
        try:
            plan = forecast_sanitised(event, public, teachers, DELTA).plan
            noise = np.random.default_rng([seed, len(votes)])
            release = sanitise([batch], plan, DELTA, teachers, lambda: float(noise.normal()))
            found["sanitised"] = release.guarantee.epsilon
        except (CalibrationError, NoiseError) as error:
            print(f"no sanitised epsilon: {error}")
    return found


def worst_case(event: ReleaseEvent) -> float:
    """As a coordinator promises it: exact where all noise is Gaussian."""
    accountant = Accountant()
    accountant.commit(event)
    return accountant.guarantee(DELTA, Kind.WORST_CASE).epsilon


def measure(place: Place, wanted: list[str], trainers: list[str], kept: Kept) -> None:
    """All rows for one seed."""
    begun = time.monotonic()
    asked = teachers_votes(place, kept.path)
    keys: dict[str, object] = {"scenario": place.name, "seed": place.seed}
    if not kept.has(**keys, row="teachers"):
        kept.add(**keys, row="teachers", seconds=round(time.monotonic() - begun, 1), teacher=asked.teacher_right,
                 plurality=float((asked.test.argmax(axis=1) == place.truth).mean()))  # fmt: skip
    for name in wanted:
        row, keys = ROWS[name], {"scenario": place.name, "seed": place.seed, "row": name}
        chosen = queries(place, row)
        noise = SeededNoise(10_000 * place.seed + row.queries)
        drawn = draw(row.mechanism, exact(asked.pool[chosen]), noise, room=len(chosen))
        labels = drawn.labels
        known = labels != NO_LABEL
        if not kept.has(**keys, trainer=""):
            right = float((labels[known] == place.pool_truth[chosen][known]).mean())
            spent = epsilons(row, asked.pool[chosen], labels, len(place.partition.parties), place.seed)
            kept.add(**keys, trainer="", asked=len(chosen), answered=int(known.sum()), right=right, **spent)
        for trainer in [item for item in row.trainers if not trainers or item in trainers]:
            if not kept.has(**keys, trainer=trainer):
                said = told(drawn, asked.pool[chosen], row.mechanism)
                kept.add(**keys, trainer=trainer, **student(place, trainer, chosen, labels, said))


def queries(place: Place, row: Row) -> np.ndarray:
    """Rows of the pool that a student of the scenario would ask in its first round."""
    seen = place.inputs(place.pool) if row.selection == BY_ROWS else place.pool
    candidates, none = np.arange(len(place.pool)), np.empty(0, dtype=np.int64)
    generator = np.random.default_rng([place.seed, 0x617368, 0])
    return choose(row.selection, candidates, row.queries, seen, none, None, generator, np.arange(len(seen)))


def told(drawn: Drawn, votes: np.ndarray, mechanism: AnyMechanism) -> Told:
    """What a student is told, as a run would tell it."""
    teachers, classes = votes.sum(axis=1), votes.shape[1]
    law = law_of(mechanism, int(teachers[0]), classes, ())
    if law is not None:
        return Outcomes(drawn.labels, np.where(drawn.answered, Outcome.ANSWERED, Outcome.ABSTAINED), classes, law)
    return Shares(drawn.counts / teachers[:, None], mechanism.count_sigma / teachers)


def student(
    place: Place, trainer: str, rows: np.ndarray, labels: np.ndarray, told: Told | None = None
) -> dict[str, float]:
    """Accuracy on the held-out rows of a student with the scenario's other parameters, and seconds."""
    own = place.scenario.student.model_dump()
    own["trainer"]["name"] = trainer
    drop_other_kinds(own["trainer"], "name", keys.TRAINERS)
    spec = StudentSpec.model_validate(own)
    begun = time.monotonic()
    given = inputs(spec, place.schema, place.pool)
    rest = np.setdiff1d(np.arange(len(given)), rows)
    classes, schema = len(place.schema.classes), place.schema
    model = train_student(given[rows], labels, given[rest], classes, spec, place.seed, schema=schema, told=told)
    seconds = round(time.monotonic() - begun, 1)
    found = model.predict_proba(inputs(spec, place.schema, place.test)).argmax(axis=1)
    return {"accuracy": float((found == place.truth).mean()), "seconds": seconds}


COSTS = (
    "row", "asked", "answered", "of them right, %", "data-dependent (secret)", "spent at the released counts",
    "promised", "sanitised", "paper: epsilon, student",
)  # fmt: skip
STUDENTS = ("row", *TRAINERS)
SPLIT = "on the last 1,000 test images; the parameters of confident-400 were chosen on published votes"


def tables(found: list[dict[str, Any]]) -> tuple[list[list[str]], list[list[str]]]:
    """Of one scenario, over its seeds: rows under COSTS, and accuracy in percent under STUDENTS."""
    spent, taught = [], []
    for name, row in ROWS.items():
        mine = [item for item in found if item["row"] == name]
        labels = [item for item in mine if not item["trainer"]]
        if labels:
            cells = [spread(labels, "asked"), spread(labels, "answered"), spread(labels, "right", 100)]
            cells += [spread(labels, key) for key in ("data-dependent", "worst", "promised", "sanitised")]
            spent.append([f"`{name}`", *cells, row.paper])
        students = [[item for item in mine if item["trainer"] == trainer] for trainer in TRAINERS]
        if any(students):
            taught.append([f"`{name}`", *(spread(each, "accuracy", 100) for each in students)])
    return spent, taught


def spread(items: list[dict], key: str, scale: float = 1) -> str:
    """Mean and sample standard deviation."""
    values = [item[key] * scale for item in items if item.get(key) is not None]
    if not values or not np.all(np.isfinite(values)):
        return "inf" if values else ""
    digits = 0 if all(float(value).is_integer() and scale == 1 for value in values) else 3 if scale == 1 else 2
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 and np.ptp(values) else ""
    return f"{np.mean(values):.{digits}f}{deviation}"


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="The papers' rows on MNIST.")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--scenario", default="mnist-250")
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--trainers", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=Path("papers.jsonl"))
    chosen = parser.parse_args(arguments or [])
    kept = Kept(chosen.out)
    for seed in chosen.seeds:
        measure(Place(chosen.scenario, seed), chosen.rows, chosen.trainers, kept)
    found = [item for item in kept.found if item["scenario"] == chosen.scenario]
    teachers = [item for item in found if item["row"] == "teachers"]
    right = [spread(teachers, key, 100) for key in ("teacher", "plurality")]
    note, command = "one teacher {} %, plurality {} %".format(*right), command_of("benchmarks.papers", arguments or [])
    for name, columns, rows in zip(("votes", "students"), (COSTS, STUDENTS), tables(found), strict=True):
        split = f"{SPLIT}; {note}"
        with table(f"{chosen.scenario}-{name}", command, columns, seeds=chosen.seeds, split=split) as made:
            for row in rows:
                made.add(*row)


if __name__ == "__main__":
    main(sys.argv[1:])

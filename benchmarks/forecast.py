"""How often the student of a run lies in the range that was forecast for it: 40 runs on three tabular data sets.

    python -m benchmarks forecast            (or: python -m benchmarks.forecast [--labelled 400] [--out F])

For each run, `coordinator.planning` chooses mechanism, noise, queries and student from public facts; then real
teachers vote, the chosen mechanism draws, and the student that was named is trained and tested.

The prior of the made-up tasks was chosen on the half called "chosen on": the sets' own questions, among them early
readmission with small unequal parties. In the half called "judged on" each run asks about a column of the rows that is
drawn by lot, from the others, so that there are as many questions as runs. It had been run once with an earlier prior,
but nothing was chosen on it.

`--labelled N` forecasts from N labelled public rows, which are taken out of the test rows. One JSON line for each run
stands in F; the script goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from benchmarks.cells import command_of
from benchmarks.papers import Kept
from consilium.coordinator.planning.plan import PlannedFederation, Tasks, plan
from consilium.coordinator.planning.rehearsal import made_up
from consilium.data.private_rows import Rows
from consilium.models.base import Shares
from consilium.models.evaluation import evaluate
from consilium.models.specs import TrainerSpec
from consilium.party.teach import train, vote
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import SeededNoise
from consilium.protocol.queries import canonical_queries
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.plan_subject import LabelledRows, LabelledTasks
from consilium.simulations.population.public import public_facts, queries, schema
from consilium.simulations.scenario import Scenario, divided_data, load_scenario
from consilium.student.config import StudentSpec
from consilium.student.learn import train as train_student
from docs.figures import figure

LINEAR = ("federation.teacher.model=logistic_regression", "federation.teacher.C=0.03")
"""Teachers that are trained in milliseconds."""
EARLY = ("data.set=diabetes-early", 'data.classes=["not within 30 days","within 30 days"]')
UNEQUAL = 1.0
"""Standard deviation of the logarithm of a party's size, where parties are unequal; the median is 40 rows."""


@dataclass(frozen=True)
class Run:
    """One of the 40. parties 0: all there are. unequal: sizes are dealt, see `UNEQUAL`. drawn: the question is a column
    by lot."""

    half: str
    name: str
    scenario: str
    overrides: tuple[str, ...]
    parties: int
    epsilon: float
    seed: int
    unequal: bool = False
    drawn: bool = False

    @property
    def key(self) -> str:
        """Of its line in the file."""
        return f"{self.half}-{self.name}-{self.parties}-{self.epsilon:g}-{self.seed}"


OWN = (
    ("stroke", "stroke-labels", (), (20, 50, 100, 0), (0.25, 1.0), False),
    ("early, unequal", "diabetes-rf", (*LINEAR, *EARLY), (50, 100, 400), (0.5, 1.0), True),
    ("adult", "adult-250", LINEAR, (50, 100, 250), (1.0,), False),
    ("diabetes", "diabetes-rf", LINEAR, (50, 100, 250), (1.0,), False),
)
"""Questions of the sets' own: name, scenario, overrides, numbers of parties, epsilons, unequal."""
BY_LOT = (
    ("stroke", "stroke-labels", (), (50, 0), (0.25, 0.5, 1.0, 2.0)),
    ("adult", "adult-250", LINEAR, (50, 250), (0.25, 0.5, 1.0)),
    ("diabetes", "diabetes-rf", LINEAR, (50, 250), (0.25, 0.5, 1.0)),
)
"""Columns by lot: name, scenario, overrides, numbers of parties, epsilons."""


def runs() -> list[Run]:
    """The 40 runs: 20 on which the prior was chosen, 20 that judge it."""
    own = [
        Run("chosen on", name, scenario, overrides, parties, epsilon, number, unequal)
        for name, scenario, overrides, sizes, epsilons, unequal in OWN
        for number, (parties, epsilon) in enumerate((parties, epsilon) for parties in sizes for epsilon in epsilons)
    ]
    by_lot = [
        Run("judged on", name, scenario, overrides, parties, epsilon, number, drawn=True)
        for name, scenario, overrides, sizes, epsilons in BY_LOT
        for number, (parties, epsilon) in enumerate((parties, epsilon) for parties in sizes for epsilon in epsilons)
    ]
    return own + by_lot


def asking_for_a_column(dataset: Dataset, number: int) -> Dataset:
    """The same rows, asked for a column: the one of this number in a lot of those with two values, each in 5 to 95 % of
    the rows. All columns of its group ("name=value") are no longer among the features."""
    shares = {
        index: float((dataset.x[:, index] == dataset.x[:, index].max()).mean())
        for index in range(len(dataset.features))
        if len(np.unique(dataset.x[:, index])) == 2
    }
    likely = [index for index, share in shares.items() if 0.05 <= share <= 0.95]
    chosen = int(np.random.default_rng(0x636F6C).permutation(likely)[number])
    group = dataset.features[chosen].partition("=")[0]
    stay = [index for index, name in enumerate(dataset.features) if name.partition("=")[0] != group]
    return replace(
        dataset,
        name=f"{dataset.name}: {dataset.features[chosen]}",
        features=tuple(dataset.features[index] for index in stay),
        classes=("no", "yes"),
        x=dataset.x[:, stay],
        y=(dataset.x[:, chosen] == dataset.x[:, chosen].max()).astype(np.int64),
    )


class Measured:
    """A run's public side and its parties."""

    def __init__(self, run: Run) -> None:
        by_lot = (f"data.parties={run.parties}", "data.least_rows=5") if run.scenario != "stroke-labels" else ()
        self.run = run
        self.scenario: Scenario = load_scenario(
            run.scenario, [*run.overrides, *by_lot, "federation.minimum_parties=2"], run.seed
        )
        dataset, self.partition = divided_data(self.scenario, run.seed)
        self.dataset = asking_for_a_column(dataset, run.seed) if run.drawn else dataset
        generator = np.random.default_rng([run.seed, 0x72756E])
        parties = list(self.partition.parties.items())
        if 0 < run.parties < len(parties):
            parties = [parties[index] for index in generator.permutation(len(parties))[: run.parties]]
        if run.unequal:
            sizes = np.clip(np.exp(generator.normal(np.log(40), UNEQUAL, len(parties))), 5, 200).astype(int)
            parties = [
                (name, generator.permutation(rows)[:size]) for (name, rows), size in zip(parties, sizes, strict=True)
            ]
        self.parties = dict(parties)
        self.schema = schema(self.scenario.data, self.dataset, self.partition)
        self.pool = queries(self.dataset, self.partition)
        self.test = canonical_queries(self.dataset.x[self.partition.test], len(self.dataset.features))
        self.truth = self.dataset.y[self.partition.test]

    def planned(self, tasks: Tasks) -> PlannedFederation:
        """The plan, which knows the number of parties and the pool."""
        federation = self.scenario.federation.model_dump(mode="json", exclude={"mechanism", "query_budget"})
        federation["privacy"]["epsilon"] = self.run.epsilon
        partition = type(self.partition)(self.parties, self.partition.queries, self.partition.test)
        facts = public_facts(self.scenario.data, self.scenario.federation, self.dataset, partition)
        return plan(federation, facts, len(self.pool), tasks)

    def from_labels(self, count: int) -> LabelledTasks:
        """Tasks from so many test rows with labels, which then no longer test."""
        rows = LabelledRows(self.test[:count].astype(np.float64), self.truth[:count])
        self.test, self.truth = self.test[count:], self.truth[count:]
        typical = int(np.median([len(rows) for rows in self.parties.values()]))
        return LabelledTasks(rows, self.schema, self.scenario.federation.teacher, typical)

    def student(self, made: PlannedFederation) -> float:
        """AUC of the student of a real run of the plan."""
        federation, seed, classes = made.federation, self.run.seed, len(self.dataset.classes)
        chosen = np.random.default_rng([seed, 0x61736B]).permutation(len(self.pool))[: federation.query_budget.queries]
        rows = self.schema.inputs(self.pool)
        votes = np.zeros((len(chosen), classes), dtype=np.int64)
        for private in self.parties.values():
            own = Rows(x=self.schema.inputs(self.dataset.x[private]), y=self.dataset.y[private])
            votes += vote([train(own, federation.teacher, np.arange(len(own.y)), seed, classes)], rows[chosen], classes)
        drawn = federation.mechanism.draw(votes, SeededNoise(seed)).up_to(federation.query_budget.answers)
        known = np.flatnonzero(drawn.labels != NO_LABEL)
        told = None
        if drawn.counts is not None:
            sigma = federation.mechanism.count_sigma(len(self.parties))
            told = Shares(drawn.counts / len(self.parties), np.full(len(chosen), sigma / len(self.parties)))
        trainer = TypeAdapter(TrainerSpec).validate_python(made.trainer)
        rest = np.setdiff1d(np.arange(len(rows)), chosen[known])
        model = train_student(
            rows[chosen[known]],
            drawn.labels[known],
            rows[rest],
            classes,
            StudentSpec(trainer=trainer),
            seed,
            shares=told,
        )
        probabilities = model.predict_proba(self.schema.inputs(self.test))
        return float(evaluate(probabilities, self.truth, self.dataset.classes)["auc"])


def measure(run: Run, labelled: int) -> dict[str, Any]:
    """One run: the forecast, and what came out."""
    measured = Measured(run)
    tasks: Tasks = measured.from_labels(labelled) if labelled else made_up
    made = measured.planned(tasks)
    found = measured.student(made)
    interval = made.forecast.student
    return {
        "key": run.key,
        "labelled": labelled,
        **asdict(run),
        "question": measured.dataset.name,
        "plan": made.federation.mechanism.describe(),
        "queries": made.federation.query_budget.queries,
        "trainer": made.trainer["name"],
        **asdict(interval),
        "student": found,
        "inside": interval.low <= found <= interval.high,
        "warned": [caution.code for caution in made.cautions],
    }


COLUMNS = ("half", "in the range", "mean width of a range", "correlation of median and student")
SPLIT = "each student on public test rows; the prior was chosen on the first half, the second had been looked at once"


def line(item: dict[str, Any]) -> str:
    """One run: question, parties, epsilon, plan, forecast, student, and where it lies outside of its range."""
    where = "" if item["inside"] else ("below" if item["student"] < item["low"] else "above")
    warned = " (expect nothing)" if "expect-nothing" in item["warned"] else ""
    question = item["question"] + (", unequal" if item["unequal"] else "")
    of = f"{question}, {item['parties'] or 'all'} parties, epsilon {item['epsilon']:g}"
    forecast = f"{item['low']:.2f} to {item['high']:.2f}{warned}"
    return f"{of}: {item['plan']}, {item['queries']}: {forecast}; student {item['student']:.3f} {where}"


def halves(found: list[dict[str, Any]]) -> Iterator[list[str]]:
    """A row for each half of which there are two runs or more, under COLUMNS."""
    for half in ("chosen on", "judged on"):
        mine = [item for item in found if item["half"] == half]
        if len(mine) > 1:
            width = np.mean([item["high"] - item["low"] for item in mine])
            alike = np.corrcoef([item["median"] for item in mine], [item["student"] for item in mine])[0, 1]
            yield [half, f"{sum(item['inside'] for item in mine)} of {len(mine)}", f"{width:.2f}", f"{alike:.2f}"]


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="How often students lie in the range of their forecast.")
    parser.add_argument("--labelled", type=int, default=0, help="labelled public rows; 0: made-up tasks alone")
    parser.add_argument("--out", type=Path, default=Path("forecast.jsonl"))
    chosen = parser.parse_args(arguments or [])
    kept = Kept(chosen.out)
    for run in runs():
        if not kept.has(key=run.key, labelled=chosen.labelled):
            kept.add(**measure(run, chosen.labelled))
    found = [item for item in kept.found if item["labelled"] == chosen.labelled]
    print(*map(line, found), sep="\n")
    name = "planning/forecast-from-labelled-rows" if chosen.labelled else "planning/forecast"
    command = command_of("benchmarks.forecast", arguments or [])
    with figure(name, command, COLUMNS, seeds=sorted({run.seed for run in runs()}), split=SPLIT, quick=False) as table:
        for row in halves(found):
            table.add(*row)
        table.seconds = kept.seconds


if __name__ == "__main__":
    main(sys.argv[1:])

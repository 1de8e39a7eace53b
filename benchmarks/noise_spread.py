"""How far the noise moves a student: what is reported of one release, beside what other noise on the same votes does.

    python -m benchmarks.noise_spread [--cases made-up adult diabetes] [--draws 30] [--releases 12]

In each case teachers vote once, and noise is drawn `draws` times on these votes; the student's AUC varies by the true
standard deviation. Of each of the first `releases` it is then estimated in three ways, from what was released alone:

- `halves`: what ships (`student.learn.spread_over_noise`).
- `around the release`: other noise of the same scale is added to the noisy shares. Labels have no such redraws.
- `around the fit`: it is added to denoised shares (`models.shares.denoise`); labels are drawn by denoised ones.

A cell is the root of the mean variance that is reported over the true standard deviation, over the releases. `covers`:
how often the interval around a release's AUC holds the mean over the noise. `ranks`: the true rank correlation of two
students' order of the pool, and the mean of what is reported. Votes are made up, or those of logistic regressions
on Adult and Diabetes, which are development data; these need CONSILIUM_DATA.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from benchmarks.cells import command_of, shown
from benchmarks.tuned import LINEAR, case_of, votes_on_pool
from consilium.accounting.events import HistogramEvent
from consilium.accounting.target import as_histograms, least_noise
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from consilium.models.base import Model, Shares
from consilium.models.evaluation import area_under_curve, rank_correlation
from consilium.models.linear import LogisticTeacher
from consilium.models.shares import denoise
from consilium.models.specs import KernelRidgeStudent, LogisticRegressionStudent
from consilium.protocol.schema import Schema
from consilium.student.config import StudentSpec
from consilium.student.learn import AnsweredRows, spread_over_noise
from docs.figures import figure

QUERIES, POOL, TESTED = 200, 1000, 2000
REDRAWS = 20
EPSILONS = ((1.0, 4.0), (0.5, 1.0, 2.0, 8.0))
"""Of tables, and of what is made up."""
DELTA = 1e-5
RULES = ("top", "relative")
PARTIES, FEATURES, ROWS = 60, 10, 40
"""Made up: parties, features and rows of a party; labels follow a logistic model of one direction."""


@dataclass(frozen=True)
class Voted:
    """pool, test: float64 (n, inputs); y int64 (test,); votes int64 (pool, 2)."""

    pool: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    votes: np.ndarray = field(repr=False)

    @property
    def schema(self) -> Schema:
        """Of rows that are standardised already."""
        width = self.pool.shape[1]
        names, zeros, ones = tuple(f"x{index}" for index in range(width)), (0.0,) * width, (1.0,) * width
        return Schema(features=names, classes=("no", "yes"), center=zeros, scale=ones)


def made_up(rule: str) -> Voted:
    """Parties that draw from the same world."""
    generator = np.random.default_rng(5)
    direction = generator.standard_normal(FEATURES)
    direction /= np.linalg.norm(direction)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        x = generator.standard_normal((count, FEATURES))
        return x, (generator.random(count) < 1 / (1 + np.exp(-x @ direction))).astype(np.int64)

    pool, (test, y) = draw(POOL)[0], draw(TESTED)
    said = []
    for _ in range(PARTIES):
        x, labels = draw(ROWS)
        said.append(LogisticTeacher(C=0.3).fit(x, labels).predict_proba(pool)[:, 1])
    risks = np.array(said)
    limit = 0.5 if rule == "top" else np.median(risks, axis=1, keepdims=True)
    yes = (risks > limit).sum(axis=0)
    return Voted(pool, test, y, np.stack([PARTIES - yes, yes], axis=1))


def of_scenario(name: str, rule: str) -> Voted:
    """100 parties of a scenario."""
    changes = [LINEAR, "data.parties=100", f"federation.voting_rule={{rule='{rule}'}}"]
    case, said = case_of(name, 0, None, [*changes, "federation.minimum_parties=20"])
    see, some = case.config.rows.inputs, np.random.default_rng(0).permutation(len(case.pool_x))[:POOL]
    return Voted(
        see(case.pool_x)[some], see(case.test_x)[:TESTED], case.test_y[:TESTED], votes_on_pool(case, said)[some]
    )


CASES: dict[str, Callable[[str], Voted]] = {
    "made-up": made_up,
    "adult": lambda rule: of_scenario("adult-250", rule),
    "diabetes": lambda rule: of_scenario("diabetes-rf", rule),
}


def sigma_of(epsilon: float) -> float:
    """On one count, of `QUERIES` histograms or labels, a whole party as unit."""

    def cost(sigma: float) -> float:
        stated = {"asked": QUERIES, "answered": QUERIES, "unit": Unit.PARTY, "neighbouring": Neighbouring.REPLACE}
        event = HistogramEvent(
            **stated, teachers_per_party=1, towards=Towards.STUDENT, noise=Noise.DISCRETE, sigma=sigma
        )
        return as_histograms([event], DELTA)

    return least_noise(cost, epsilon)


@dataclass(frozen=True)
class Student:
    """One kind on the votes of one case, with the noise of one epsilon; `labels` or noisy histograms."""

    voted: Voted
    kind: KernelRidgeStudent | LogisticRegressionStudent
    sigma: float
    labels: bool

    @property
    def spec(self) -> StudentSpec:
        return StudentSpec(trainer=self.kind)

    def released(self, generator: np.random.Generator, asked: np.ndarray) -> AnsweredRows:
        """Other noise on the same votes."""
        votes = self.voted.votes[asked]
        counts = votes + np.round(generator.normal(0, self.sigma, votes.shape))
        return self.of(asked, counts / votes.sum(axis=1, keepdims=True))

    def of(self, asked: np.ndarray, shares: np.ndarray) -> AnsweredRows:
        deviation = self.sigma / self.voted.votes[asked].sum(axis=1)
        return AnsweredRows(
            self.voted.pool, asked, shares.argmax(axis=1), None if self.labels else Shares(shares, deviation)
        )

    def learn(self, answered: AnsweredRows) -> Model:
        return answered.train(self.spec, self.voted.schema, 0)

    def auc(self, model: Model) -> float:
        return area_under_curve(model.predict_proba(self.voted.test)[:, 1], self.voted.y == 1)

    def redrawn(self, answered: AnsweredRows, fitted: bool, generator: np.random.Generator) -> float:
        """Variance of the AUC over `REDRAWS` of noise around the release, or around what was made of it."""
        x, count = answered.rows[answered.places], len(answered.places)
        told = answered.shares or Shares(np.eye(2)[answered.labels], np.full(count, 0.5))
        base = denoise(x, told, x, 0) if fitted else told.shares
        found = []
        for _ in range(REDRAWS):
            if self.labels:
                drawn = (generator.random(count) < base[:, 1]).astype(np.int64)
                again = AnsweredRows(answered.rows, answered.places, drawn)
            else:
                again = self.of(answered.places, base + generator.standard_normal(base.shape) * told.deviation[:, None])
            found.append(self.auc(self.learn(again)))
        return float(np.var(found, ddof=1))


def measured(student: Student, draws: int, releases: int) -> tuple[str | None, ...]:
    """The cells of one row, after those that say which it is."""
    generator = np.random.default_rng(1)
    asked = np.sort(generator.permutation(len(student.voted.pool))[:QUERIES])
    answers = [student.released(generator, asked) for _ in range(draws)]
    models = [student.learn(answered) for answered in answers]
    aucs = np.array([student.auc(model) for model in models])
    pools = [model.predict_proba(student.voted.pool) for model in models[:20]]
    alike = float(np.mean([rank_correlation(*two) for two in combinations(pools, 2)]))
    true, mean = float(aucs.std(ddof=1)), float(aucs.mean())
    test = (student.voted.test, student.voted.y)
    spreads = [
        spread_over_noise(answered, student.spec, student.voted.schema, number, {"auc": auc}, test)
        for number, (answered, auc) in enumerate(zip(answers[:releases], aucs.tolist(), strict=False))
    ]
    of_auc = [spread["metrics"]["auc"] for spread in spreads]
    covers = np.mean([low <= mean <= high for low, high in (each["interval"] for each in of_auc)])

    def ratio(variances: list[float]) -> str:
        return f"{np.sqrt(np.mean(variances)) / true:.2f}"

    around = {
        fitted: [student.redrawn(answered, fitted, generator) for answered in answers[:releases]]
        for fitted in ((True,) if student.labels else (False, True))
    }
    reported = float(np.mean([spread["rank_correlation"] for spread in spreads]))
    return (
        shown(mean),
        shown(true),
        f"**{ratio([each['sd'] ** 2 for each in of_auc])}**",
        ratio(around[False]) if False in around else None,
        ratio(around[True]),
        f"{covers:.0%}",
        f"{alike:.2f}, {reported:.2f}",
    )


COLUMNS = (
    "votes", "rule", "student", "released", "epsilon", "AUC", "true sd", "halves", "around the release",
    "around the fit", "covers", "ranks",
)  # fmt: skip


def rows(names: list[str], draws: int, releases: int) -> Iterator[tuple[str | None, ...]]:
    """Of the table."""
    for name in names:
        for rule in RULES:
            voted = CASES[name](rule)
            for labels in (False, True):
                for kind, epsilon in tried(name):
                    student = Student(voted, kind, sigma_of(epsilon), labels)
                    what = "labels" if labels else "histograms"
                    yield name, rule, kind.name, what, f"{epsilon:g}", *measured(student, draws, releases)


def tried(name: str) -> Iterator[tuple[KernelRidgeStudent | LogisticRegressionStudent, float]]:
    """Students and epsilons of a case."""
    yield from ((LogisticRegressionStudent(), epsilon) for epsilon in EPSILONS[name == "made-up"])
    if name == "made-up":
        yield KernelRidgeStudent(gamma=0.05), 1.0


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise_spread", description=__doc__)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--releases", type=int, default=12)
    chosen = parser.parse_args(arguments)
    command = command_of("benchmarks.noise_spread", arguments)
    split = f"{QUERIES} of {POOL} rows asked, another {TESTED} judge; the way was chosen on this very table"
    with figure("published-student/spread", command, COLUMNS, seeds=[0], split=split) as table:
        for row in rows(chosen.cases, chosen.draws, chosen.releases):
            table.add(*row)


if __name__ == "__main__":
    main(sys.argv[1:])

